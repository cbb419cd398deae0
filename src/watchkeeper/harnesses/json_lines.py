"""JSON lines as programs really print them, cut anywhere.

What comes out does not depend on how the bytes were cut. Nothing a program may print raises: a line that is no JSON
object becomes a note, a line that is too long is dropped with a note, and bytes that were punched out of a log (they read
as NUL, which JSON never contains) end the line that they tore.
"""

import json
import math
import re
from typing import cast

Line = dict[str, object] | str
"""A JSON object, or a note on a line that was none."""

LINE_LIMIT = 4 * 1024 * 1024
"""Bytes of one line beyond which it is dropped. Programs print whole files in one line; this is above what they are known to."""

NOTE_LIMIT = 500
"""Characters of a line that is no JSON which are kept as a note."""

HOLE = "(part of the output is no longer kept)"

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


class JsonLines:
    """Splits a growing output into lines; keeps at most one unfinished line in memory."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        """Start at the beginning of a line."""
        self._limit = limit
        self._pending = bytearray()
        self._length = 0
        self._hole = False

    def feed(self, data: bytes) -> list[Line]:
        """Take more output and return the lines that it completed."""
        lines: list[Line] = []
        *complete, rest = data.split(b"\n")
        for piece in complete:
            self._take(piece)
            lines += self._end()
        self._take(rest)
        return lines

    def finish(self) -> list[Line]:
        """Return what an output without a last line end still holds, once; called when nothing more can come."""
        return self._end()

    def _take(self, piece: bytes) -> None:
        last_hole = piece.rfind(0)
        if last_hole >= 0:
            self._hole = True
            self._pending.clear()
            self._length = 0
            piece = piece[last_hole + 1 :]
        self._length += len(piece)
        if self._length > self._limit:
            self._pending.clear()
        else:
            self._pending += piece

    def _end(self) -> list[Line]:
        raw, length, hole = bytes(self._pending), self._length, self._hole
        self._pending.clear()
        self._length = 0
        self._hole = False
        lines: list[Line] = [HOLE] if hole else []
        if length > self._limit:
            lines.append(f"(a line of {length} bytes was left out)")
            return lines
        line = _parse(raw)
        # What follows a hole is a whole line or the torn end of one; an end is not worth a second note.
        if line is not None and not (hole and isinstance(line, str)):
            lines.append(line)
        return lines


def _parse(raw: bytes) -> Line | None:
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
    return _CONTROLS.sub(" ", text[:NOTE_LIMIT]).strip() or None


def _no_number(_name: str) -> None:
    """NaN and the infinities are nobody's count."""


def _mended(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_mended(item) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        return {cast("str", _mended(key)): _mended(item) for key, item in cast("dict[str, object]", value).items()}
    return value


def at(value: object, *path: str) -> object:
    """What lies under `path` in nested objects, or None where it does not go on."""
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
