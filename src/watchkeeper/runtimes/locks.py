"""Open-file-description locks: the heartbeat of a shim, and the one daemon's claim to its state directory.

The kernel drops such a lock however its holder dies. Whether one is held is asked with F_OFD_GETLK and never by taking it: a look that takes the lock,
for however short a time, makes a shim that starts just then believe that there is another one.
"""

import contextlib
import errno
import os
import stat
from pathlib import Path

from watchkeeper.crash import crashpoint
from watchkeeper.domain.lock_state import LockState
from watchkeeper.flock import holder, try_lock

_NOT_TELLING = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.ELOOP,
        errno.ENOTDIR,
        errno.ENXIO,
        errno.EINVAL,
        errno.ENOLCK,
        errno.ENOSYS,
        errno.EOPNOTSUPP,
    }
)
"""Errors that say something about this file, as opposed to a system in trouble."""


def probe(path: str | Path, *, dir_fd: int | None = None) -> LockState:
    """Whether any process holds the lock on a file, without touching it. A missing file is free: a process creates it before it locks it.

    Raises:
        OSError: the system is in trouble (no descriptors, input/output error), which says nothing about the lock.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)
    except FileNotFoundError:
        return LockState.FREE
    except OSError as error:
        if error.errno in _NOT_TELLING:
            return LockState.UNKNOWN
        raise
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return LockState.UNKNOWN
        return LockState.FREE if holder(fd) is None else LockState.HELD
    except OSError as error:
        if error.errno in _NOT_TELLING:
            return LockState.UNKNOWN
        raise
    finally:
        os.close(fd)


class HeldLock:
    """A lock that is ours until it is closed or we die. Closing is not needed for correctness."""

    def __init__(self, fd: int) -> None:
        """Keep the descriptor: the lock lives as long as it does."""
        self._fd = fd

    def is_named(self, path: Path) -> bool:
        """Whether the file at the path is the one that is locked. If not, others lock another one. Raises OSError where that cannot be told."""
        return _still_named(path, self._fd)

    def close(self) -> None:
        """Let go of it. Twice is fine."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def hold_lock(path: Path) -> HeldLock | None:
    """Take the lock on a file, making the file if need be; None if another process holds it. Never waits. Raises OSError."""
    while True:
        # Close-on-exec, or a child would carry the lock on after our death.
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            crashpoint("lock.take.before")
            taken = try_lock(fd)
            crashpoint("lock.take.after")
            if taken and _still_named(path, fd):
                return HeldLock(fd)
        except OSError:
            os.close(fd)
            raise
        os.close(fd)
        if not taken:
            return None
        # The file was removed or replaced between opening and locking: the lock was on a file that no other process will look at. Try again.


def _still_named(path: Path, fd: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        named, held = path.lstat(), os.fstat(fd)
        return (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)
    return False
