"""JSON holds nothing that a terminal obeys, and everything that was in it."""

import json
import os
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.safe_json import dumps

VALUES = st.recursive(
    st.none() | st.integers() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()), inner, max_size=3),
)
KEPT = {"\u200c", "\u200d"}
"""They join letters in words and emoji."""


@given(VALUES, st.booleans(), st.booleans())
def test_nothing_is_lost(value: object, compact: bool, ascii_only: bool) -> None:
    text = dumps(value, indent=None if compact else 2, compact=compact, ascii_only=ascii_only)
    assert json.loads(text) == value
    assert not ascii_only or text.isascii()


def test_no_letter_that_a_terminal_obeys_is_left() -> None:
    """Of all there are: no control character, none that formats or reverses, no half of a surrogate."""
    text = dumps("".join(map(chr, range(0x110000))))
    bad = {"Cc", "Cs", "Zl", "Zp"}
    assert [letter for letter in text if unicodedata.category(letter) in bad] == []
    bidi = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert [letter for letter in text if unicodedata.bidirectional(letter) in bidi] == []
    assert all(mark not in text for mark in "\u200e\u200f\u061c\ufeff\u200b") and all(mark in text for mark in KEPT)


@pytest.mark.parametrize("raw", [b"\xff", b"a\xfe\xc2\x9bb", bytes(range(1, 256)), "é\u202e\u0085".encode()])
def test_the_bytes_of_a_path_come_back(raw: bytes) -> None:
    assert os.fsencode(json.loads(dumps(os.fsdecode(raw)))) == raw
