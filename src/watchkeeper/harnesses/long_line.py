"""A JSON line of any length, shortened while it is read: the middle of a long string is left out, everything else is kept.

A line is long because a program printed a whole file or a long answer in it. Its type, its verdict and its counts are short, wherever they stand, so they are
kept together with both ends of the long text. What comes out is JSON of a bounded size, and does not depend on how the bytes were cut.

    outside a string ──"──▶ inside ──"──▶ outside        inside: the first END bytes, the mark, the last END bytes
"""

import re

END = 64 * 1024
"""Bytes that are kept of each end of a long string."""

MARK = " … ".encode()
"""What stands for what was left out."""

_TAKEN_AT_ONCE = 64 * 1024
_BODY = re.compile(rb'(?:[^"\\]+|\\.)*+', re.DOTALL)
_WHOLE_ESCAPES = re.compile(rb'(?:[^"\\]+|\\u[0-9a-fA-F]{4}|\\[^u])*+', re.DOTALL)
_QUOTE = b'"'


class ShortenedLine:
    """One line, as much of it as is kept."""

    def __init__(self, limit: int, *, end: int = END) -> None:
        """Give up a line that is longer than `limit` bytes without its long strings, of which `end` bytes are kept at each end."""
        self._limit = limit
        self._keep = end
        self._out = bytearray()
        self._inside = False
        self._head = b""
        self._body = bytearray()
        self._elided = False
        self._carried = b""
        self.lost = False
        """Nothing of it can be used."""

    def feed(self, data: bytes) -> None:
        """Take more of the line."""
        for start in range(0, len(data), _TAKEN_AT_ONCE):
            if self.lost:
                return
            self._take(self._carried + data[start : start + _TAKEN_AT_ONCE])
            self.lost = self.lost or len(self._out) > self._limit

    def cut(self) -> None:
        """Part of the line is missing here. It can continue only within a string."""
        if not self._inside:
            self.lost = True
            return
        self._carried = b""
        if not self._elided:
            self._elide()
        self._body.clear()

    def finish(self) -> bytes:
        """The line; empty if it is lost."""
        return b"" if self.lost else bytes(self._out)

    def _take(self, data: bytes) -> None:
        self._carried = b""
        at = 0
        while at < len(data):
            if not self._inside:
                quote = data.find(_QUOTE, at)
                end = len(data) if quote < 0 else quote + 1
                self._out += data[at:end]
                self._inside = quote >= 0
                at = end
                continue
            found = _BODY.match(data, at)
            end = found.end() if found is not None else at
            self._grow(data[at:end])
            if data[end : end + 1] == _QUOTE:
                self._close()
                end += 1
            elif end < len(data):
                self._carried = data[end:]  # a backslash whose letter has not come yet
                return
            at = end

    def _grow(self, piece: bytes) -> None:
        self._body += piece
        if not self._elided and len(self._body) > 2 * self._keep:
            self._elide()
        if self._elided and len(self._body) > 2 * self._keep:
            self._trim()

    def _elide(self) -> None:
        """From here on only the ends of this string are kept."""
        found = _WHOLE_ESCAPES.match(self._body, 0, self._keep)
        end = found.end() if found is not None else 0
        while end and end < len(self._body) and _continues(self._body[end]):
            end -= 1
        self._head = bytes(self._body[:end])
        del self._body[:end]
        self._elided = True

    def _trim(self) -> None:
        """Keep the last bytes of the string, from the beginning of a letter on."""
        found = _BODY.match(self._body, 0, max(0, len(self._body) - self._keep))
        end = found.end() if found is not None else 0
        while end < len(self._body) and _continues(self._body[end]):
            end += 1
        del self._body[:end]

    def _close(self) -> None:
        if self._elided:
            if len(self._body) > self._keep:
                self._trim()
            self._out += self._head + MARK
        self._out += self._body + _QUOTE
        self._head, self._elided, self._inside = b"", False, False
        self._body.clear()


def _continues(byte: int) -> bool:
    """Whether a byte continues a letter of UTF-8."""
    return byte & 0xC0 == 0x80
