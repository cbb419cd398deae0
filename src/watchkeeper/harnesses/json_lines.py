"""JSON lines as programs really print them, cut anywhere.

What comes out does not depend on how the bytes were cut. No output of a program raises: a line that is not JSON
object becomes a note. A line that is too long is kept without the middle of its long strings (see `long_line`). What follows
a gap, where part of the output is not kept, is a whole line, or the end of the line that began before it, if the two parts
together are JSON. Whatever cannot be known is counted in `left_out`.
"""

import json
import math
import re
from typing import cast

from watchkeeper.harnesses.long_line import MARK, ShortenedLine

OutputLine = dict[str, object] | str
"""A JSON object, or a note on a line that was not one."""

LINE_LIMIT = 4 * 1024 * 1024
"""Bytes of one line beyond which it is shortened. Programs print whole files in one line."""

NOTE_LIMIT = 500
"""Characters kept as a note of a line that is not JSON."""

NUL = "\N{SYMBOL FOR NULL}"
"""What is shown for a byte of value zero, which no record can hold."""

HOLE = "(part of the output is no longer kept)"

_MARK = MARK.decode()
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


class JsonLines:
    """Splits a growing output into lines; keeps at most one unfinished line in memory."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        """Start at the beginning of a line."""
        self._limit = limit
        self._line = _Growing(limit)
        self._after_hole: _Growing | None = None
        self.left_out = 0
        """How many times something was printed that cannot be known: a line that was given up, a part of the log that is no longer kept."""

    def feed(self, data: bytes) -> list[OutputLine]:
        """Take more output and return the lines that it completed."""
        lines: list[OutputLine] = []
        *complete, rest = data.split(b"\n")
        for piece in complete:
            self._take(piece)
            lines += self._end()
        self._take(rest)
        return lines

    def gap(self) -> None:
        """Part of the output is not kept here."""
        self._line.cut()
        self._after_hole = _Growing(self._limit)

    def finish(self) -> list[OutputLine]:
        """Return what an output without a last line end still holds, once; called when nothing more can come."""
        return self._end()

    def _take(self, piece: bytes) -> None:
        self._line.feed(piece)
        if self._after_hole is not None:
            self._after_hole.feed(piece)

    def _end(self) -> list[OutputLine]:
        line, after = self._line, self._after_hole
        self._line, self._after_hole = _Growing(self._limit), None
        if after is None:
            parsed = _parse(line.finish())
            if line.lost:
                self.left_out += 1
                parsed = f"(a line of {line.length} bytes was left out)"
            return [] if parsed is None else [parsed]
        self.left_out += 1
        # An end that was torn off is not worth a note beside that of the hole.
        found = (_parse(each.finish()) for each in (after, line))
        return [HOLE, *[each for each in found if isinstance(each, dict) and not _is_torn(each)][:1]]


def _is_torn(line: dict[str, object]) -> bool:
    """Whether a name in it was put together from two: then the two parts are not of one line."""
    return any(_MARK in name for name in line)


class _Growing:
    """A line that is not complete yet."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._raw = bytearray()
        self._short: ShortenedLine | None = None
        self.length = 0

    @property
    def lost(self) -> bool:
        return self._short is not None and self._short.lost

    def feed(self, data: bytes) -> None:
        self.length += len(data)
        if self._short is None:
            self._raw += data
            if self.length > self._limit:
                self._shorten()
        else:
            self._short.feed(data)

    def cut(self) -> None:
        self._shorten().cut()

    def finish(self) -> bytes:
        return bytes(self._raw) if self._short is None else self._short.finish()

    def _shorten(self) -> ShortenedLine:
        if self._short is None:
            self._short = ShortenedLine(self._limit)
            self._short.feed(bytes(self._raw))
            self._raw.clear()
        return self._short


def _parse(raw: bytes) -> OutputLine | None:
    # A torn character costs that character, not the line: the final event may be in it.
    text = raw.decode("utf-8", "replace").strip().removeprefix("\ufeff")
    if not text:
        return None
    if text.startswith("{"):
        try:
            value = cast("object", json.loads(text, parse_constant=_no_number))
            # An escaped half of a surrogate pair is legal JSON and can be stored nowhere.
            value = _mended(value) if "\\u" in text else value
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            return cast("dict[str, object]", value)
    return _CONTROLS.sub(" ", text[:NOTE_LIMIT].replace("\0", NUL)).strip() or None


def _no_number(_name: str) -> None:
    """NaN and the infinities are not counts."""


def _mended(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_mended(item) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        return {cast("str", _mended(key)): _mended(item) for key, item in cast("dict[str, object]", value).items()}
    return value


def at(value: object, *path: str) -> object:
    """What lies under `path` in nested objects, or None where the path ends early."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = cast("dict[str, object]", value).get(name)
    return value


def text_at(value: object, *path: str) -> str:
    """The string under `path`, or an empty one."""
    found = at(value, *path)
    return found if isinstance(found, str) else ""


def count_at(value: object, *path: str) -> int | None:
    """The whole number, not below zero, under `path`; None is unknown."""
    found = at(value, *path)
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < 2**63:
        return None
    return found


def amount_at(value: object, *path: str) -> float | None:
    """The finite number, not below zero, under `path`; None is unknown."""
    found = at(value, *path)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    try:
        amount = float(found)
    except OverflowError:
        return None
    return amount if math.isfinite(amount) and amount >= 0 else None


def list_at(value: object, *path: str) -> list[object]:
    """The list under `path`, or an empty one."""
    found = at(value, *path)
    return cast("list[object]", found) if isinstance(found, list) else []
