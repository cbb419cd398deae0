"""Logs stay bounded: beyond the limit, holes are punched behind their beginning and before their newest part. Offsets and sizes never change."""

import errno
import os

from . import records, system
from .crash import crashpoint

HEAD = 1024 * 1024
"""How much of the beginning is always kept."""

_BLOCK = 64 * 1024
_NAMES = ("stdout.log", "stderr.log")


class BoundedLogs:
    """Watches the two logs of an execution."""

    def __init__(self, directory: int, limit: int) -> None:
        """Keep at most about `limit` bytes of each on disk."""
        self._directory = directory
        self._tail = max(limit - HEAD, _BLOCK)
        self._slack = max(_BLOCK, limit // 16)
        self._dropped: dict[str, list[list[int]]] = {}
        self._possible = True

    def bound(self) -> str | None:
        """Punch what is due; returns a complaint, once, if the file system cannot."""
        if not self._possible:
            return None
        for name in _NAMES:
            try:
                self._bound_one(name)
            except FileNotFoundError:
                continue
            except OSError as problem:
                if problem.errno in {errno.ENOSPC, errno.EDQUOT, errno.EIO}:
                    continue  # it may work the next time
                self._possible = False
                return f"{name} cannot be kept small here: {problem.strerror}"
        return None

    def _bound_one(self, name: str) -> None:
        size = os.stat(name, dir_fd=self._directory).st_size
        ranges = self._dropped.setdefault(name, [])
        start = ranges[-1][1] if ranges else HEAD
        end = (size - self._tail) // _BLOCK * _BLOCK
        if end - start < self._slack:
            return
        if ranges:
            ranges[-1][1] = end
        else:
            ranges.append([start, end])
        # The record comes first: bytes that are said to be dropped and are still there do no harm.
        records.write(self._directory, "dropped.json", {key: value for key, value in self._dropped.items() if value})
        fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._directory)
        try:
            crashpoint("shim.punch.before")
            system.punch_hole(fd, start, end - start)
            crashpoint("shim.punch.after")
        finally:
            os.close(fd)
