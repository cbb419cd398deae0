"""Lines come out the same however the bytes are cut, and nothing a program may print raises."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.harnesses.json_lines import (
    HOLE,
    LINE_LIMIT,
    JsonLines,
    OutputLine,
    amount_at,
    at,
    count_at,
    list_at,
    text_at,
)
from watchkeeper.harnesses.long_line import ShortenedLine

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


def _read(chunks: list[bytes]) -> list[OutputLine]:
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
        (b'{"a"\0\0\0: 1}\n{"b": 2}\n', ['{"a"␀␀␀: 1}', {"b": 2}]),
        (b"a\0b\n", ["a␀b"]),
        (b"\0\0\0", ["␀␀␀"]),
        ('{"a": 1}\n'.encode("utf-16-le"), ['{␀"␀a␀"␀:␀ ␀1␀}␀', "␀"]),
        (b"y" * 70 + b'\n{"b": 2}\n', ["(a line of 70 bytes was left out)", {"b": 2}]),
    ],
)
def test_what_programs_print(raw: bytes, lines: list[OutputLine]) -> None:
    """Byte order marks, torn characters, half surrogates, prose, zero bytes, endless lines."""
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
    assert len(lines._line._raw) == 0
    short = lines._line._short
    assert short is not None and len(short._out) < 100 * LIMIT
    assert lines.feed(b'\n{"b": 2}\n') == ["(a line of 1000000 bytes was left out)", {"b": 2}]
    assert lines.left_out == 1


def test_values_are_taken_only_as_what_they_are() -> None:
    """A wrong type is unknown, never a wrong number."""
    value = {"a": {"n": 3, "f": 0.5, "t": "x", "l": [1], "b": True, "m": -1, "h": 10**400}}
    assert (count_at(value, "a", "n"), amount_at(value, "a", "f"), text_at(value, "a", "t")) == (3, 0.5, "x")
    assert list_at(value, "a", "l") == [1]
    assert at(value, "a", "t", "deeper") is None
    assert [count_at(value, "a", name) for name in "ftbmhz"] == [None] * 6
    assert [amount_at(value, "a", name) for name in "tbmhz"] == [None] * 5


BIG = LINE_LIMIT + 1000


@pytest.mark.parametrize(
    "value",
    [
        {"type": "result", "subtype": "success", "is_error": False, "result": "x" * BIG, "usage": {"n": 3}},
        {"type": "user", "content": [{"text": "é" * BIG}, {"text": '\\"' * BIG}], "last": True},
        {"type": "item", "long": "\U0001f642\u4e2d" * (BIG // 8), "other": "\\" * BIG},
    ],
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_long_line_keeps_all_but_the_middle_of_its_long_strings(value: dict[str, object], ascii_only: bool) -> None:
    """Types, verdicts and counts are known wherever they stand, and a text's beginning and end."""
    raw = json.dumps(value, ensure_ascii=ascii_only).encode() + b"\n"
    lines = JsonLines()
    (found,) = [line for at_ in range(0, len(raw), 1_000_003) for line in lines.feed(raw[at_ : at_ + 1_000_003])]
    assert isinstance(found, dict)
    assert lines.left_out == 0
    assert list(found) == list(value)
    for was, now in zip(_leaves(value), _leaves(found), strict=True):
        if isinstance(was, str) and len(was) > BIG // 8:
            head, middle, tail = str(now).partition(" … ")
            assert middle
            assert len(str(now)) < 200_000
            assert was.startswith(head[:1000])
            assert was.endswith(tail[-1000:])
        else:
            assert now == was


def _leaves(value: object) -> list[object]:
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in _leaves(each)]
    return [leaf for each in value for leaf in _leaves(each)] if isinstance(value, list) else [value]


@given(
    st.dictionaries(st.text("abc", max_size=2), st.text(max_size=99) | st.integers(), max_size=4),
    st.booleans(),
    st.data(),
)
def test_a_shortened_line_is_the_same_however_it_is_cut(
    value: dict[str, object], ascii_only: bool, data: st.DataObject
) -> None:
    """And it is JSON, with the same keys; short values are as they were, and a long one keeps its ends."""
    raw = json.dumps(value, ensure_ascii=ascii_only).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    whole, pieces = ShortenedLine(10_000, end=6), ShortenedLine(10_000, end=6)
    whole.feed(raw)
    for begin, end in zip([0, *cuts], [*cuts, len(raw)], strict=True):
        pieces.feed(raw[begin:end])
    assert pieces.finish() == whole.finish()
    found = json.loads(whole.finish().decode("utf-8"))
    assert list(found) == list(value)
    for was, now in zip(value.values(), found.values(), strict=True):
        assert now == was or " … " in now


def _with_gap(lines: JsonLines, printed: list[bytes], start: int, end: int) -> list[OutputLine]:
    """What is read of lines of which one part is not kept."""
    raw = b"".join(line + b"\n" for line in printed)
    before = lines.feed(raw[:start])
    lines.gap()
    return before + lines.feed(raw[end:])


RESULT = json.dumps({"type": "result", "is_error": False, "result": "y" * 5000, "turns": 3}).encode()


def test_a_line_goes_on_behind_a_hole_in_one_of_its_strings() -> None:
    """Both of its ends are there, and together they are JSON."""
    lines = JsonLines()
    hole, found = _with_gap(lines, [b'{"a": 1}', RESULT], 200, 4000)[1:]
    assert hole == HOLE
    assert isinstance(found, dict)
    assert (found["type"], found["is_error"], found["turns"], lines.left_out) == ("result", False, 3, 1)


@pytest.mark.parametrize(("start", "end"), [(15, 4000), (3, 60), (0, 50)])
def test_two_lines_are_never_joined_where_that_is_no_json(start: int, end: int) -> None:
    """What stands before a hole outside a string, or in another depth, has no end that is known."""
    lines = JsonLines()
    found = _with_gap(lines, [b'{"a": [{"b": "zzzzzzzzzzzzzzzzzzz"}]}', RESULT], start, end)
    assert [line for line in found if isinstance(line, dict)] == []
    assert lines.left_out == 1
