r"""Texts as they are searched for secrets: every spelling of a secret becomes the same bytes, so that a search for plain bytes finds all of them.

    raw       as it is
    plain     escapes of JSON (any depth) and of addresses (any depth) undone, `+` as a blank; backslashes dropped, a line end the same as its escape's letter
    base64    one alphabet, its escapes undone, line breaks within a long run of base64 dropped

A view is made by functions that run in C. Where a byte of it came from is worked out when something was found, and not before.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

HEAD = 64
"""Bytes of the beginning of a long secret that tell it: what is there of it is hidden as far as it goes."""

CONTEXT = 64
"""Bytes in front of a place that are enough to read it as it would be read in the whole text."""

_DEEPEST = 6
_MOST_BACKSLASHES = 8
_PARTIAL_MOST = 48
_UNESCAPE = bytes.maketrans(b"\b\f\n\r\t+", b"bfnrt ")
_ONE_ALPHABET = bytes.maketrans(b"-_", b"+/")
_HEX = "[0-9a-fA-F]"
_ESCAPE = re.compile(
    rf"\\++(?:u(?:([dD][89abAB]{_HEX}{{2}})\\++u([dD][c-fC-F]{_HEX}{{2}})|({_HEX}{{4}})))?|%({_HEX}{{2}})".encode()
)
_PERCENT = re.compile(rf"%{_HEX}{{2}}".encode())
_PARTIAL = re.compile(rb"[%\\][%\\u0-9a-fA-F]*\Z")
"""What may be an escape of escapes whose end is not there: of their letters alone."""
_CUT_OFF = re.compile(rf"(?:%{_HEX}?|\\+(?:u(?:{_HEX}{{0,3}}|[dD][89abAB]{_HEX}{{2}}\\*))?)\Z".encode())
"""An escape whose end is not there."""
_BACKSLASHES = re.compile(rb"\\+")
_BARE = re.compile(rb"\\++(?!u)")
_ESCAPED_SIGN = re.compile(rb"%(?:25){0,3}2(?:([bB])|[fF])|\\{1,8}(?:u002(?:([bB])|[fF])|/)")
_LINE = rb"[A-Za-z0-9+/_-]{40}"
_BREAK = re.compile(
    rb"(?:\n(?<=%b\n)|\r(?<=%b\r)\n|\\(?<=%b\\)\\{0,7}(?:r\\{1,8})?n|%%(?<=%b%%)(?:25){0,3}(?:0[dD]%%(?:25){0,3})?0[aA])[ \t]{0,32}"
    % ((_LINE,) * 4)
)
"""A line break behind a long run of base64; what it begins with comes first, so that a search passes over everything else."""

_PARTIAL_BASE64 = re.compile(rb"(?:\r|\\{1,8}(?:r\\{0,8}|u(?:0(?:0(?:2)?)?)?)?|%[025]{0,7}(?:0[dD]%?[025]{0,7})?)\Z")


class Needle(NamedTuple):
    """The bytes of a secret in a view, and what stands in its place."""

    data: bytes
    mark: bytes


class Hit(NamedTuple):
    """A secret in a view."""

    start: int
    end: int
    mark: bytes
    goes_on: bool
    """More of it may follow behind the end of the text."""


class Stage(NamedTuple):
    """One step from a text to a view: which of its pieces became which other bytes."""

    text: bytes
    pattern: re.Pattern[bytes]
    becomes: "Callable[[re.Match[bytes]], bytes]"

    def moved(self) -> "Moved":
        """Where what was replaced stands, before and after."""
        outs: list[int] = []
        ends: list[int] = []
        starts: list[int] = []
        lasts: list[int] = []
        shift = 0
        for found in self.pattern.finditer(self.text):
            start, last = found.span()
            out = start + shift
            end = out + len(self.becomes(found))
            outs.append(out)
            ends.append(end)
            starts.append(start)
            lasts.append(last)
            shift = end - last
        return Moved(outs, ends, starts, lasts)


class Moved(NamedTuple):
    """What a stage replaced: beginnings and ends afterwards, and before."""

    outs: list[int]
    ends: list[int]
    starts: list[int]
    lasts: list[int]

    def begin(self, place: int) -> int:
        """Where the byte at this place of the result began."""
        at = bisect_right(self.outs, place) - 1
        if at < 0:
            return place
        return self.starts[at] if place < self.ends[at] else self.lasts[at] + place - self.ends[at]

    def end(self, place: int) -> int:
        """Where the byte at this place of the result ended."""
        at = bisect_right(self.outs, place) - 1
        return self.lasts[at] if at >= 0 and place < self.ends[at] else self.begin(place) + 1


class View:
    """A text as it is searched, and the way back."""

    def __init__(self, text: bytes, stages: list[Stage]) -> None:
        """`stages`: from the original to this text."""
        self.text = text
        self.stages = stages

    @cached_property
    def _moved(self) -> list[Moved]:
        return [stage.moved() for stage in self.stages]

    def begin(self, place: int) -> int:
        """Where the byte at this place of the view begins in the original."""
        for moved in reversed(self._moved):
            place = moved.begin(place)
        return place

    def end(self, place: int) -> int:
        """Where the byte in front of this place of the view ends in the original."""
        place -= 1
        for moved in reversed(self._moved[1:]):
            place = moved.end(place) - 1
        return self._moved[0].end(place) if self._moved else place + 1


def raw(text: bytes) -> View:
    """The text as it is."""
    return View(text, [])


def plain(text: bytes) -> View:
    """The text with its escapes undone."""
    stages: list[Stage] = []
    for _ in range(_DEEPEST):
        if b"\\" in text:
            # Without a call for each of them: they are what JSON has most of.
            pattern = _BARE if b"\\u" in text else _BACKSLASHES
            stages.append(Stage(text, pattern, _nothing))
            text = pattern.sub(b"", text)
        if b"\\" in text or _PERCENT.search(text) is not None:
            stages.append(Stage(text, _ESCAPE, _undone))
            text = _ESCAPE.sub(_undone, text)
        else:
            break
    return View(text.translate(_UNESCAPE, b"\\"), stages)


def base64(text: bytes) -> View:
    """The text with base64 in one alphabet and on one line."""
    stages: list[Stage] = []
    if b"%" in text or b"\\" in text:
        undone = _ESCAPED_SIGN.sub(_sign, text)
        if undone != text:
            stages.append(Stage(text, _ESCAPED_SIGN, _sign))
            text = undone
    joined = _BREAK.sub(b"", text)
    if joined != text:
        stages.append(Stage(text, _BREAK, _nothing))
    return View(joined.translate(_ONE_ALPHABET), stages)


def certain_plain(text: bytes) -> int:
    """Where what may be an escape begins that the end of the text cuts off; the length of the text if there is none."""
    found = _PARTIAL.search(text, max(0, len(text) - _PARTIAL_MOST))
    if found is None:
        return len(text)
    certain = found.start()
    for _ in range(_PARTIAL_MOST):  # what was found may begin in the middle of an escape itself
        found = _CUT_OFF.search(text[max(0, certain - _PARTIAL_MOST) : certain])
        if found is None:
            break
        certain = max(0, certain - _PARTIAL_MOST) + found.start()
    # So may what it is an escape of.
    start = max(0, certain - 2 * _PARTIAL_MOST)
    view = plain(text[start:certain])
    found = _CUT_OFF.search(view.text)
    return certain if found is None else start + view.begin(found.start())


def certain_base64(text: bytes) -> int:
    """The same for what may be an escape, or a line break, in base64."""
    found = _PARTIAL_BASE64.search(text, max(0, len(text) - _PARTIAL_MOST))
    return len(text) if found is None else found.start()


def widened(text: bytes, start: int) -> int:
    """Where something that begins here in the view `plain` begins with its backslashes, so that what is left of JSON stays JSON."""
    first = text[start : start + 1]
    least = max(0, start - _MOST_BACKSLASHES)
    before = start
    while before > least and text[before - 1] == ord("\\"):
        before -= 1
    if not first.isalnum():
        return before
    return start - (start - before) % 2 if first in b"bfnrt" else start


class Finder:
    """Finds any of many needles in one view, in time that grows with the text and not with their number."""

    def __init__(self, needles: Iterable[Needle]) -> None:
        """Of two with the same bytes the first gives the mark."""
        from ahocorasick_rs import BytesAhoCorasick  # noqa: PLC0415 - only where there is something to hide

        marks: dict[bytes, bytes] = {}
        for needle in needles:
            _ = marks.setdefault(needle.data, needle.mark)
        self._known = sorted(marks)
        self._marks = marks
        self._heads = sorted({data[:HEAD] for data in self._known})
        self._firsts = frozenset(head[0] for head in self._heads)
        self._search = BytesAhoCorasick(self._heads)
        self.longest = max(map(len, self._known), default=0)

    def hits(self, text: bytes) -> Iterator[Hit]:
        """Every needle in the text, also those that overlap; of a long one what is there, from its head on."""
        for number, start, end in self._search.find_matches_as_indexes(text, overlapping=True):
            head = self._heads[number]
            if len(head) < HEAD:
                yield Hit(start, end, self._marks[head], goes_on=False)
            else:
                yield self._hit(text, start, head)

    def begun(self, text: bytes, least: int = 1) -> tuple[int, bytes] | None:
        """Where the first needle begins that the end of the text cuts off after at least so many bytes, and its mark."""
        tail = max(0, len(text) - self.longest)
        if len(text) - tail >= HEAD and self.longest > HEAD:
            for number, start, _ in self._search.find_matches_as_indexes(text[tail:], overlapping=True):
                if len(self._heads[number]) == HEAD:
                    hit = self._hit(text, tail + start, self._heads[number])
                    if hit.goes_on:
                        return hit.start, hit.mark
        for start in range(max(0, len(text) - HEAD), len(text) - least + 1):
            if text[start] in self._firsts:
                end = text[start:]
                longer = bisect_right(self._known, end)  # behind the one that is whole, if there is one
                if any(data.startswith(end) for data in self._known[longer : longer + 1]):
                    return start, self._marks[self._known[longer]]
        return None

    def ending(self, text: bytes, least: int) -> tuple[int, bytes] | None:
        """How far the end of a needle reaches whose beginning was lost in front of the text, at least so many bytes of it; and its mark."""
        head, best = text[:least], None
        if len(head) < least:
            return None
        for data in self._known:
            at = data.find(head, 1)
            while at >= 0 and not text.startswith(data[at:]):
                at = data.find(head, at + 1)
            if at >= 0 and (best is None or len(data) - at > best[0]):
                best = len(data) - at, self._marks[data]
        return best

    def _hit(self, text: bytes, start: int, head: bytes) -> Hit:
        """The needle with this head of which the most is there: it stands beside the text in the order of bytes."""
        there = text[start : start + self.longest]
        at = bisect_left(self._known, there)
        near = [data for data in self._known[max(0, at - 1) : at + 1] if data.startswith(head)]
        size, _, data = max((_common(data, there), data == there, data) for data in near)
        longer = bisect_right(self._known, there)
        ends = start + len(there) == len(text)
        goes_on = ends and any(other.startswith(there) for other in self._known[longer : longer + 1])
        return Hit(start, start + size, self._marks[data], goes_on)


def _common(one: bytes, other: bytes) -> int:
    """How many bytes at their beginning are the same."""
    least, most = 0, min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    while least < most:
        middle = (least + most + 1) // 2
        if one[:middle] == other[:middle]:
            least = middle
        else:
            most = middle - 1
    return least


def _undone(found: re.Match[bytes]) -> bytes:
    high, low, code, byte = found.groups()
    if byte is not None:
        return bytes([int(byte, 16)])
    if code is None and high is None:
        return b""  # backslashes
    number = int(code, 16) if code is not None else 0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF)
    return chr(number).encode("utf-8", "surrogatepass")


def _nothing(_: re.Match[bytes]) -> bytes:
    return b""


def _sign(found: re.Match[bytes]) -> bytes:
    return b"+" if found[1] or found[2] else b"/"
