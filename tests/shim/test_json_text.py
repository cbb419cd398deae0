"""The shim's own small JSON says what the json package says."""

import json
import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.shim import json_text

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_what_it_writes_is_read_by_the_package(value: object) -> None:
    assert json.loads(json_text.encode(value)) == value


@given(VALUES, st.sampled_from([None, 2]))
def test_it_reads_what_the_package_writes(value: object, indent: int | None) -> None:
    assert json_text.decode(b" \r\n" + json.dumps(value, indent=indent).encode() + b"\t\n") == value


@given(st.text(st.sampled_from('{}[]",:0123456789.eE+-truefalsn \\u\n'), max_size=12))
def test_it_refuses_what_the_package_refuses(text: str) -> None:
    """And reads what the package reads, to the same value."""
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(json.JSONDecodeError):
            json_text.decode(text.encode())
    else:
        found = json_text.decode(text.encode())
        assert found == expected or (isinstance(found, float) and math.isnan(found))


def test_without_the_scanner_the_package_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a Python that has none."""
    monkeypatch.setattr(json_text, "make_scanner", None)
    assert json_text.decode(b'{"a": [1]}') == {"a": [1]}


def test_what_json_does_not_know_is_an_error() -> None:
    with pytest.raises(TypeError):
        json_text.encode({"a": sys})
