"""Lines come out the same however the bytes are cut, and nothing a program may print raises."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.harnesses.json_lines import (
    HOLE,
    JsonLines,
    Line,
    amount_at,
    at,
    count_at,
    list_at,
    text_at,
)

LIMIT = 64

_object = st.dictionaries(st.text(max_size=5), st.text(max_size=9) | st.integers() | st.none(), max_size=3)
_piece = st.one_of(
    _object.map(lambda value: json.dumps(value).encode() + b"\n"),
    _object.map(lambda value: json.dumps(value, ensure_ascii=False).encode("utf-8", "replace") + b"\r\n"),
    st.binary(max_size=20),
    st.just(b"\n"),
    st.integers(1, 9).map(lambda count: b"\0" * count),
    st.just(b"x" * (LIMIT + 3)),
)
_stream = st.lists(_piece, max_size=12).map(b"".join)


def _read(chunks: list[bytes]) -> list[Line]:
    lines = JsonLines(LIMIT)
    return [line for chunk in chunks for line in lines.feed(chunk)] + lines.finish()


@given(_stream, st.data())
def test_the_cuts_do_not_matter(stream: bytes, data: st.DataObject) -> None:
    """Any cutting gives what the whole gives."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    chunks = [stream[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert _read(chunks) == _read([stream])
    assert _read([stream[i : i + 1] for i in range(len(stream))]) == _read([stream])


@given(st.lists(_object))
def test_every_object_comes_back(values: list[dict[str, object]]) -> None:
    """Objects that fit into the limit come back as they were, in order."""
    text = b"".join(json.dumps(value).encode() + b"\n" for value in values)
    assert JsonLines().feed(text) == values


@given(st.binary())
def test_what_comes_out_can_be_stored(stream: bytes) -> None:
    """No string that comes out breaks an encoder."""
    for line in _read([stream]):
        json.dumps(line, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        (b'\xef\xbb\xbf{"a": 1}\n', [{"a": 1}]),
        (b'{"a": "\xe2\x82"}\n', [{"a": "\ufffd"}]),
        (b'{"a": "\\ud83d"}\n', [{"a": "\ufffd"}]),
        (b'{"a": "\\ud83d\\ude00"}\n', [{"a": "\U0001f600"}]),
        (b'{"a": NaN}\n', [{"a": None}]),
        (b"Traceback: \x1b[31mno\n", ["Traceback:  [31mno"]),
        (b"[1, 2]\n\n   \n", ["[1, 2]"]),
        (b'{"a": 1}', [{"a": 1}]),
        (b'{"a": ', ['{"a":']),
        (b'{"a"\0\0\0: 1}\n{"b": 2}\n', [HOLE, {"b": 2}]),
        (b'\0\0\0{"b": 2}\n', [HOLE, {"b": 2}]),
        (b"\0\0\0", [HOLE]),
        (b"y" * 70 + b'\n{"b": 2}\n', ["(a line of 70 bytes was left out)", {"b": 2}]),
    ],
)
def test_what_programs_print(raw: bytes, lines: list[Line]) -> None:
    """Byte order marks, torn characters, half surrogates, prose, punched holes, endless lines."""
    assert _read([raw]) == lines


def test_nesting_without_end_is_a_note() -> None:
    """A hundred thousand brackets end neither the reader nor the process."""
    raw = b'{"a":' * 100_000 + b"\n"
    (line,) = JsonLines().feed(raw)
    assert isinstance(line, str)


def test_an_endless_line_is_not_kept() -> None:
    """A line beyond the limit costs no memory, and the next one is read."""
    lines = JsonLines(LIMIT)
    for _ in range(1000):
        assert lines.feed(b"z" * 1000) == []
    assert len(lines._pending) == 0
    assert lines.feed(b'\n{"b": 2}\n') == ["(a line of 1000000 bytes was left out)", {"b": 2}]


def test_values_are_taken_only_as_what_they_are() -> None:
    """A wrong type is unknown, never a wrong number."""
    value = {"a": {"n": 3, "f": 0.5, "t": "x", "l": [1], "b": True, "m": -1, "h": 10**400}}
    assert (count_at(value, "a", "n"), amount_at(value, "a", "f"), text_at(value, "a", "t")) == (3, 0.5, "x")
    assert list_at(value, "a", "l") == [1]
    assert at(value, "a", "t", "deeper") is None
    assert [count_at(value, "a", name) for name in "ftbmhz"] == [None] * 6
    assert [amount_at(value, "a", name) for name in "tbmhz"] == [None] * 5
