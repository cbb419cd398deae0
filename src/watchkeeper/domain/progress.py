"""Whether output shows progress: new content, not a spinner, a clock, or the same lines again.

A line is compared without what changes by itself: colours and cursor movements, frames of spinners, times and durations, random ids. Of each look at most the
newest part is compared, and of all lines that were seen a bounded number is remembered, so a program that repeats more than that is taken to make progress.
"""

import hashlib
import re

LOOKED_AT = 64 * 1024
"""Bytes of one look that are compared."""

REMEMBERED = 4096
"""Lines that are remembered."""

_LINE = 4096
_ENDS = re.compile(rb"[\r\n]+|\x1b\[[\d;]*[A-HJKf]")
"""What ends a line: its end, or a movement back over it."""
_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")
_BY_ITSELF = re.compile(
    rb"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"  # a date, and perhaps a time
    rb"|\d{1,3}:\d\d(?::\d\d)?(?:[.,]\d+)?"  # a time
    rb"|\b\d+(?:[.,]\d+)?\s?(?:ms|s|sec|secs|seconds?|m|min|mins|minutes?|h|hours?)\b"  # a duration
    rb"|\b1[5-9]\d{8}(?:\d{3}|\d{6}|\d{9})?\b"  # seconds since 1970, or parts of them
    rb"|\b[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}\b"  # a random id
)
_SPINS = re.compile(rb"[\s.|/\\\-*+]+|\xe2[\xa0-\xa3\x96-\x97].|\xe2\x80[\xa2\xa6]")
"""Blanks, dots, bars; braille and block letters; bullets and ellipses."""


class Progress:
    """Remembers what was printed."""

    def __init__(self) -> None:
        """Nothing was printed yet."""
        self._seen: dict[bytes, None] = {}
        self._rest = b""

    def feed(self, data: bytes) -> bool:
        """Take what was printed since the last look; True if anything of it is new. A line that is not complete yet is compared when it is, or is long."""
        data = self._rest + data
        *lines, self._rest = _ENDS.split(data[-LOOKED_AT:])
        if len(data) > LOOKED_AT and lines:
            del lines[0]  # the end of a line whose beginning is not compared
        if len(self._rest) >= _LINE:
            lines.append(self._rest)
            self._rest = b""
        return any([self._is_new(line) for line in lines])  # noqa: C419 - each of them is remembered

    def _is_new(self, line: bytes) -> bool:
        plain = _SPINS.sub(b"", _BY_ITSELF.sub(b"", _ESCAPES.sub(b"", line[:_LINE])))
        if not plain:
            return False
        mark = hashlib.blake2b(plain, digest_size=8).digest()
        new = mark not in self._seen
        self._seen.pop(mark, None)
        self._seen[mark] = None
        if len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return new
