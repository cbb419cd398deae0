"""Reading a log at the cost of what is kept of it, whatever its length, and never waiting for what has taken its place.

    0          head        dropped.json         sparse                  size when it was opened
    ├── data ───┤···············┤── data ──┤··············┤──── data ────┤        what grows behind it is not read

What is on record as dropped is stepped over first, then what the file system says holds no data. If what is left is more than a log of this run may keep, its
beginning and its newest part are read. Each part that is left out is reported as a `Hole`.
"""

import errno
import os
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from watchkeeper.ports.runtime import Hole, LogUnreadable

CHUNK = 256 * 1024
HEAD = 1024 * 1024
"""How much of the beginning is read of a log that holds more than it may keep."""

LEAST = 4 * 1024 * 1024
"""No limit of a log makes less than this be read."""

_MOST_PIECES = 4096
"""Into so many pieces of data a log is followed; one that is torn into more is read as if all of it were data."""

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_Ranges = list[tuple[int, int]]


class KeptLog:
    """One log, as long as it was when it was opened."""

    def __init__(self, fd: int, dropped: Callable[[], _Ranges], most: Callable[[], int]) -> None:
        """Read through `fd`, which the caller closes. At most about `most` bytes are read; `dropped` reads the record of what was given up.

        Both are asked only where that matters.
        """
        self._fd = fd
        self._dropped = dropped
        self._most = most
        found = os.fstat(fd)
        self.size = found.st_size
        self._maybe_sparse = found.st_blocks * 512 < found.st_size

    def read(self, start: int = 0, most: int | None = None) -> Iterator[bytes | Hole]:
        """What is kept from `start` on, in pieces, and what is not; at most about `most` bytes of it.

        A hole is on record before it is punched, so the record is read again after each piece: what was punched meanwhile is never handed out.

        Raises:
            OSError: as `read` does.
        """
        if start >= self.size:
            return
        offset = start
        for first, last in self._parts(start, most):
            if first > offset:
                yield Hole(offset, first)
            offset = max(offset, first)
            while offset < last:
                data = os.pread(self._fd, min(CHUNK, last - offset), offset)
                if not data:
                    return  # it was cut off behind our back
                until = _next(self._dropped(), offset)
                if until is not None and until[0] < offset + len(data):
                    data = data[: max(0, until[0] - offset)]
                    if data:
                        yield data
                    yield Hole(offset + len(data), min(until[1], self.size))
                    offset = until[1]
                    continue
                offset += len(data)
                yield data
        if most is None and offset < self.size:
            yield Hole(offset, self.size)

    def tail(self, most: int) -> bytes:
        """The newest bytes, at most `most` of them, back to the last hole. Raises OSError."""
        data = b""
        for piece in self.read(max(0, self.size - most)):
            data = b"" if isinstance(piece, Hole) else data + piece
        return data

    def _parts(self, start: int, most: int | None) -> _Ranges:
        """Ranges that are to be read, in order: at most so many bytes from `start` on, or of all that is there as much as may be kept, at both ends."""
        bound = most or LEAST
        if most is None and self.size - start > LEAST:
            bound = max(self._most(), LEAST)
        parts = list(self._data(start, self.size, bound))
        if most is not None:
            return _first(parts, most)
        if sum(last - first for first, last in parts) <= bound:
            return parts
        head = _first(parts, HEAD)
        newest = _last(list(self._data(max(start, self.size - bound), self.size, bound)), bound - HEAD)
        behind = head[-1][1]
        return head + [(max(first, behind), last) for first, last in newest if last > behind]

    def _data(self, start: int, end: int, most: int) -> Iterator[tuple[int, int]]:
        """Where there is data. Enough of it ends the search, since more is not read."""
        found = 0
        for first, last in _without(self._dropped(), start, end):
            at, pieces = first, 0
            while at < last and found <= most:
                pieces += 1
                low, high = (at, last) if pieces > _MOST_PIECES else self._next_data(at, last)
                if low >= last:
                    break
                yield low, high
                found += high - low
                at = high

    def _next_data(self, at: int, end: int) -> tuple[int, int]:
        if not self._maybe_sparse:
            return at, end
        try:
            low = os.lseek(self._fd, at, os.SEEK_DATA)
            return min(low, end), min(os.lseek(self._fd, low, os.SEEK_HOLE), end)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return end, end
            return at, end  # a file system that does not tell


@contextmanager
def open_kept(
    path: str | Path, dropped: Callable[[], _Ranges] = list, most: Callable[[], int] = int, *, dir_fd: int | None = None
) -> Generator[KeptLog | None]:
    """Open a log for reading; None if it is not there. Never follows a link, never waits.

    Raises:
        LogUnreadable: its name belongs to something that is not a regular file.
        OSError: it cannot be opened.
    """
    name = Path(path).name
    try:
        fd = os.open(path, _FLAGS, dir_fd=dir_fd)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO}:
            kind = stat.S_IFMT(os.stat(path, dir_fd=dir_fd, follow_symlinks=False).st_mode)
            raise _no_log(name, kind) from error
        raise
    try:
        kind = stat.S_IFMT(os.fstat(fd).st_mode)
        if kind != stat.S_IFREG:
            raise _no_log(name, kind)
        yield KeptLog(fd, dropped, most)
    finally:
        os.close(fd)


def _no_log(name: str, kind: int) -> LogUnreadable:
    return LogUnreadable(errno.EBADMSG, f"{name} is {_KINDS.get(kind, 'no regular file')}")


def _next(dropped: _Ranges, offset: int) -> tuple[int, int] | None:
    """The first range on record that ends behind `offset`."""
    return min(((start, end) for start, end in dropped if end > offset), default=None)


def _without(dropped: _Ranges, start: int, end: int) -> Iterator[tuple[int, int]]:
    """What of a range is not on record as dropped."""
    at = start
    for first, last in sorted(dropped):
        if first > at:
            yield at, min(first, end)
        at = max(at, last)
        if at >= end:
            return
    if at < end:
        yield at, end


def _first(parts: _Ranges, most: int) -> _Ranges:
    kept: _Ranges = []
    for first, last in parts:
        if most <= 0:
            break
        kept.append((first, min(last, first + most)))
        most -= last - first
    return kept


def _last(parts: _Ranges, most: int) -> _Ranges:
    kept: _Ranges = []
    for first, last in reversed(parts):
        if most <= 0:
            break
        kept.append((max(first, last - most), last))
        most -= last - first
    return kept[::-1]
