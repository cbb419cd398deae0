"""Room that is kept for the hour of need: a file that takes up space, and gives it back when the disk is full and something has to be ended.

The file is whole or it is not there: it is made under another name, and what a crash left under that is made anew.
"""

import errno
import os
from pathlib import Path

from watchkeeper.crash import crashpoint
from watchkeeper.runtimes import atomic

NAME = "spare"
SIZE = 1024 * 1024
"""Enough for hundreds of stops."""

_CANNOT = frozenset({errno.EOPNOTSUPP, errno.EINVAL})
_BLOCK = 64 * 1024


def keep(state: Path, *, least_free: int) -> bool:
    """Have the room set aside, unless less than `least_free` bytes would be left; True if it is there. Raises OSError."""
    path = state / NAME
    if path.exists():
        return True
    room = os.statvfs(state)
    if room.f_bavail * room.f_frsize < least_free + SIZE:
        return False
    with atomic.directory(state) as directory:
        temporary = f"{NAME}.new"
        fd = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory
        )
        try:
            _fill(fd)
            os.fsync(fd)
        finally:
            os.close(fd)
        crashpoint("spare.rename.before")
        os.rename(temporary, NAME, src_dir_fd=directory, dst_dir_fd=directory)
        crashpoint("spare.rename.after")
        os.fsync(directory)
    return True


def release(state: Path) -> bool:
    """Give the room back; True if there was some. Raises OSError."""
    crashpoint("spare.release.before")
    try:
        with atomic.directory(state) as directory:
            os.unlink(NAME, dir_fd=directory)
            os.fsync(directory)  # some file systems give the space back with that only
    except FileNotFoundError:
        return False
    return True


def _fill(fd: int) -> None:
    """Really take the space; a sparse file takes none."""
    try:
        os.posix_fallocate(fd, 0, SIZE)
    except OSError as problem:
        if problem.errno not in _CANNOT:
            raise
        for _ in range(SIZE // _BLOCK):
            _ = os.write(fd, os.urandom(_BLOCK))  # where zeros are not stored, or are made small
