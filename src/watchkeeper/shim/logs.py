"""Logs stay bounded: beyond the limit, holes are punched behind their beginning and before their newest part. Offsets and sizes never change."""

import errno
import os

from . import records, system
from .crash import crashpoint

HEAD = 1024 * 1024
"""How much of the beginning is always kept."""

_BLOCK = 64 * 1024
_NAMES = ("stdout.log", "stderr.log")
_SOONEST_S = 1.0
_LATEST_S = 8.0
_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EINTR, errno.EMFILE, errno.ENFILE})
"""What may work the next time."""


class BoundedLogs:
    """Watches the two logs of an execution."""

    def __init__(self, directory: int, limit: int) -> None:
        """Keep about `limit` bytes of each on disk."""
        self._directory = directory
        self._tail = max(limit - HEAD, _BLOCK)
        self._slack = max(_BLOCK, limit // 16)
        self._sizes: dict[str, int] = {}
        self._punched: dict[str, int] = {}
        """Up to where each has its hole."""
        self._dropped: dict[str, int] = {}
        """Up to where each is on record to have it."""
        self._possible = True
        self.pause_s = _SOONEST_S
        """When to look again: every second while a log grows."""

    def bound(self) -> str | None:
        """Punch what is due; returns a complaint, once, if the file system cannot."""
        grown = False
        for name in _NAMES if self._possible else ():
            try:
                size = os.stat(name, dir_fd=self._directory, follow_symlinks=False).st_size
                grown = grown or size != self._sizes.get(name, 0)
                self._sizes[name] = size
                self._punch(name, size)
            except FileNotFoundError:
                continue
            except OSError as problem:
                if problem.errno in _PASSING:
                    continue
                self._possible = False
                self._forget(name)
                return f"the logs cannot be kept small here: {problem.strerror}"
        self.pause_s = _SOONEST_S if grown else min(self.pause_s * 2, _LATEST_S)
        return None

    def _punch(self, name: str, size: int) -> None:
        start = self._punched.get(name, HEAD)
        end = (size - self._tail) // _BLOCK * _BLOCK
        if end - start < self._slack:
            return
        # The record comes first: bytes that are said to be dropped and are still there do no harm.
        self._record({**self._dropped, name: end})
        fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._directory)
        try:
            crashpoint("shim.punch.before")
            system.punch_hole(fd, start, end - start)
            crashpoint("shim.punch.after")
        finally:
            os.close(fd)
        self._punched[name] = end

    def _record(self, dropped: dict[str, int]) -> None:
        holes: dict[str, object] = {name: [[HEAD, end]] for name, end in dropped.items() if end > HEAD}
        records.write(self._directory, "dropped.json", holes)
        self._dropped = dropped

    def _forget(self, name: str) -> None:
        """Nothing was dropped after all."""
        if self._dropped.get(name, HEAD) != self._punched.get(name, HEAD):
            try:  # noqa: SIM105 - contextlib would cost start-up time
                self._record({**self._dropped, name: self._punched.get(name, HEAD)})
            except OSError:
                pass
