"""A temporary directory of one process that is removed although the process may be killed: the next one removes what has no living owner."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "watchkeeper-look-"


@contextmanager
def temporary_directory() -> Generator[str]:
    """A directory for this process and its children, locked for as long as one of them lives. Raises OSError."""
    _remove_abandoned()
    path, fd = _locked()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(fd)


def _locked() -> tuple[str, int]:
    """A new directory and the descriptor that locks it. Another process may remove it before it is locked; then the next one is made."""
    while True:
        path = tempfile.mkdtemp(prefix=_PREFIX)
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(fd, fcntl.LOCK_SH)
        if os.fstat(fd).st_nlink:
            return path, fd
        os.close(fd)


def _remove_abandoned() -> None:
    """Remove directories whose processes have died."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if os.fstat(fd).st_uid == os.geteuid():
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path)
            finally:
                os.close(fd)
