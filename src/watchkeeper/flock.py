"""Exclusive open-file-description locks on bytes of a file. The kernel drops such a lock however its holder dies."""

import errno
import fcntl
import os
import struct

# struct flock: l_type, l_whence, l_start, l_len, l_pid, padded at the end as the C compiler does. l_pid must be 0 for these commands.
_FLOCK = "hhqqi0q"


def try_lock(fd: int, start: int = 0, length: int = 0) -> bool:
    """Take the lock without waiting; False if another holder has it. A `length` of 0 means up to the end of the file. Raises OSError."""
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _request(start, length))
    except OSError as error:
        if error.errno in {errno.EAGAIN, errno.EACCES}:
            return False
        raise
    return True


def holder(fd: int, start: int = 0, length: int = 0) -> int | None:
    """The process id of a holder of the lock, without taking it; -1 if an open file description holds it, None if it is free. Raises OSError."""
    kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _request(start, length)))
    return None if kind == fcntl.F_UNLCK else int(pid)


def _request(start: int, length: int) -> bytes:
    return struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
