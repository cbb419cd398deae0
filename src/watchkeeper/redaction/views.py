r"""Texts as they are searched for secrets: all spellings of a secret become the same bytes, so one needle finds all of them.

    plain     escapes of JSON and of URLs undone, to any depth; `+` is a blank; backslashes are dropped, and a line end is the letter of its escape
    raw       as it is, also if it holds no escape: one may follow in the next piece
    base64    escapes undone, one alphabet, blanks and line ends dropped

A view is made by functions that run in C. Where one of its bytes came from is worked out only after something is found.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

CONTEXT = 128
"""Bytes in front of a place that are enough to read it as it is read in the whole text."""

_DEEPEST = 6
_MOST_BACKSLASHES = 8
_PARTIAL_MOST = 48
_PLAIN = bytes.maketrans(b"\b\f\n\r\t+", b"bfnrt ")
_ONE_ALPHABET = bytes.maketrans(b"-_", b"+/")
_BLANKS = b" \t\r\n"
_HEX = "[0-9a-fA-F]"
# These begin with a fixed byte: the search for what does not is thirty times slower. A run of backslashes is tried once, not at each of them.
_CODE = re.compile(
    rf"\\(?<!\\\\)\\*+u(?:([dD][89abAB]{_HEX}{{2}})\\++u([dD][c-fC-F]{_HEX}{{2}})|({_HEX}{{4}}))".encode()
)
_PERCENT = re.compile(rf"%({_HEX}{{2}})".encode())
_BACKSLASHES = re.compile(rb"\\+")
_BARE = re.compile(rb"\\++([nrt])?")
_BLANK = re.compile(rb"[ \t\r\n]+")
_PARTIAL = re.compile(rb"[%\\][%\\u0-9a-fA-F]*\Z")
"""What may be an escape, or an escape of one, whose end is not there."""
_NO_LINE = re.compile(rb"(?<![ \t\r\n])(?<![A-Za-z0-9+/_-]{40})[ \t\r\n]")
"""A blank or line end that does not follow a long run of base64."""


class Stage(NamedTuple):
    """One step from a text to a view: what was replaced in it."""

    text: bytes
    pattern: re.Pattern[bytes]
    becomes: Callable[[re.Match[bytes]], bytes]

    def moved(self) -> "list[Moved]":
        """Where what was replaced stands, before and after."""
        moved: list[Moved] = []
        shift = 0
        for found in self.pattern.finditer(self.text):
            start, last = found.span()
            moved.append(Moved(start + shift, start + shift + len(self.becomes(found)), start, last))
            shift = moved[-1].out_end - last
        return moved


class Moved(NamedTuple):
    """A replaced piece: where it begins and ends afterwards, and before."""

    out: int
    out_end: int
    start: int
    end: int


def _origin(moved: list[Moved], place: int) -> tuple[int, int]:
    """Where what became the byte at this place began and ended before the stage."""
    at = bisect_right(moved, place, key=itemgetter(0)) - 1
    if at < 0:
        return place, place + 1
    piece = moved[at]
    if place < piece.out_end:
        return piece.start, piece.end
    place += piece.end - piece.out_end
    return place, place + 1


class View:
    """A text as it is searched, and the way back to the original."""

    def __init__(self, original: bytes, text: bytes, stages: list[Stage], certain: int) -> None:
        """`stages`: from the original to this text. `certain`: where in the original what more data may change begins."""
        self.original = original
        self.text = text
        self.certain = certain
        self._stages = stages

    @cached_property
    def moved(self) -> list[list[Moved]]:
        """What each stage replaced, the last one first."""
        return [stage.moved() for stage in reversed(self._stages)]

    def begin(self, place: int) -> int:
        """Where the byte at this place of the view begins in the original."""
        for moved in self.moved:
            place, _ = _origin(moved, place)
        return place

    def end(self, place: int) -> int:
        """Where the byte in front of this place of the view ends in the original."""
        for moved in self.moved:
            _, place = _origin(moved, place - 1)
        return place

    def settled(self) -> int:
        """Where in the view what more data may change begins."""
        if self.certain == len(self.original):
            return len(self.text)
        at = bisect_left(range(len(self.text)), self.certain, key=self.begin)
        return at - 1 if at and self.end(at) > self.certain else at

    def unbroken(self) -> int:
        """From where on a needle may begin that continues behind the end of the view."""
        return 0

    def holds(self, start: int, end: int) -> bool:
        """Whether what was found in this range of the view counts."""
        return start < end


class _Plain(View):
    def begin(self, place: int) -> int:
        """With its backslashes, so that what is left of JSON stays JSON."""
        at = super().begin(place)
        before = self.original[max(0, at - _MOST_BACKSLASHES) : at]
        count = len(before) - len(before.rstrip(b"\\"))
        return at - (count % 2 if self.original[at : at + 1].isalnum() else count)


class _Base64(View):
    def __init__(self, original: bytes, stages: list[Stage], certain: int, lines: bytes) -> None:
        stages = [*stages, Stage(lines, _BLANK, _nothing)]
        super().__init__(original, lines.translate(_ONE_ALPHABET, _BLANKS), stages, certain)
        self._lines = lines

    def unbroken(self) -> int:
        last = max((found.end() for found in _NO_LINE.finditer(self._lines)), default=0)
        return len(self._lines[:last].translate(None, _BLANKS))

    def holds(self, start: int, end: int) -> bool:
        """Its lines are long: words of a sentence are not base64."""
        first, last = (_origin(self.moved[0], place)[0] for place in (start, end - 1))
        return _NO_LINE.search(self._lines, first, last) is None


def plain(text: bytes) -> bytes:
    """The text of the view `plain`."""
    return _undone(text)[0].translate(_PLAIN, b"\\")


def views(text: bytes) -> tuple[View, View, View]:
    """The views `plain`, `raw` and `base64` of a text."""
    undone, stages = _undone(text)
    partial = _PARTIAL.search(text, max(0, len(text) - _PARTIAL_MOST))
    certain = len(text) if partial is None else partial.start()
    dropped, bare = stages, stages
    lines = undone
    if b"\\" in undone:
        dropped, bare = [*stages, Stage(undone, _BACKSLASHES, _nothing)], [*stages, Stage(undone, _BARE, _line_end)]
        lines = undone.replace(b"\\n", b"\n").replace(b"\\r", b"\r").replace(b"\\t", b"\t").translate(None, b"\\")
    return (
        _Plain(text, undone.translate(_PLAIN, b"\\"), dropped, certain),
        View(text, text, [], len(text)),
        _Base64(text, bare, certain, lines),
    )


def _undone(text: bytes) -> tuple[bytes, list[Stage]]:
    """The text without escapes that stand for one byte or character, and how it became so."""
    stages: list[Stage] = []
    for _ in range(_DEEPEST):
        before = text
        for sign, pattern, becomes in ((b"\\u", _CODE, _character), (b"%", _PERCENT, _byte)):
            if sign in text and pattern.search(text) is not None:
                stages.append(Stage(text, pattern, becomes))
                text = pattern.sub(becomes, text)
        if text is before:
            break
    return text, stages


def _character(found: re.Match[bytes]) -> bytes:
    high, low, code = found.groups()
    number = int(code, 16) if code is not None else 0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF)
    return chr(number).encode("utf-8", "surrogatepass")


def _byte(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 16)])


def _line_end(found: re.Match[bytes]) -> bytes:
    return {b"n": b"\n", b"r": b"\r", b"t": b"\t"}.get(found[1], b"")


def _nothing(_: re.Match[bytes]) -> bytes:
    return b""
