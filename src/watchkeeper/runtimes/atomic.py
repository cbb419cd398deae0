"""Durable writes: a reader sees all of a file or none of it, and what was written is still there after a power cut.

The four steps are write, fsync, rename (or link), fsync of the directory; none can be left out. Rename replaces, link never does: a link is how a thing is
decided once. Every step has its crash point, named after the caller's `point`.

Files are named relative to an open directory, so that a directory that is swapped for another one in between cannot redirect a write.
"""

import errno
import json
import os
import stat
from binascii import crc32
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from watchkeeper.crash import crashpoint

FILE_MODE = 0o600
_SEAL = b'"crc32": "'
DIRECTORY_MODE = 0o700
_PART = 64 * 1024


def open_directory(path: str | Path) -> int:
    """Open a directory, not following a symlink at its end. Raises OSError."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def make_directory(path: Path) -> None:
    """Make a directory with mode 0700, and each missing one above it, durably. One that exists stays as it is. Raises OSError."""
    missing = [each for each in (path, *path.parents) if not os.path.lexists(each)]
    for each in reversed(missing):
        with suppress(FileExistsError):  # another command makes it at this moment
            each.mkdir(mode=DIRECTORY_MODE)
        sync_directory(each.parent.resolve())


@contextmanager
def directory(path: str | Path) -> Generator[int]:
    """Open a directory as `open_directory` does and close it in the end; yields the descriptor. Raises OSError."""
    fd = open_directory(path)
    try:
        yield fd
    finally:
        os.close(fd)


def sync_directory(path: str | Path) -> None:
    """Make the names in a directory durable. Raises OSError."""
    with directory(path) as fd:
        os.fsync(fd)


def encode(record: Mapping[str, object]) -> bytes:
    """A record as one line of JSON, with a checksum. Text that is not UTF-8 (a path, a variable's value) survives as lone surrogates."""
    return sealed(json.dumps(record, ensure_ascii=True, allow_nan=False).encode("ascii"))


def sealed(text: bytes) -> bytes:
    """A record as a line, with the checksum of everything before it as its last key, as the shim writes its own."""
    body = text[:-1]
    comma = b"" if body == b"{" else b", "
    return body + comma + _SEAL + b"%08x" % crc32(body) + b'"}\n'


def unsealed(line: bytes) -> bytes:
    """The record without its checksum, which must fit; one of an earlier version has none. Raises ValueError."""
    body, seal, rest = line.rpartition(_SEAL)
    if not seal:
        return line
    body = body[:-2] if body.endswith(b", ") else body
    if rest != b'%08x"}\n' % crc32(body):
        msg = "its checksum does not fit"
        raise ValueError(msg)
    return body + b"}"


def write_new(dir_fd: int, name: str, data: bytes, *, point: str) -> None:
    """Write and sync a file that must not exist yet; the directory is not synced. Raises OSError, FileExistsError among them."""
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE, dir_fd=dir_fd)
    try:
        crashpoint(f"{point}.write.before")
        _write_all(fd, data)
        os.fsync(fd)
        crashpoint(f"{point}.write.after")
    finally:
        os.close(fd)


def replace(dir_fd: int, name: str, data: bytes, *, point: str) -> None:
    """Write `name` durably, replacing what was there. Raises OSError; then what was there is still there."""
    temporary = _temporary(name)
    try:
        write_new(dir_fd, temporary, data, point=point)
        crashpoint(f"{point}.rename.before")
        os.rename(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except OSError:
        _forget(dir_fd, temporary)
        raise
    crashpoint(f"{point}.rename.after")
    os.fsync(dir_fd)
    crashpoint(f"{point}.sync.after")


def publish(dir_fd: int, name: str, data: bytes, *, point: str) -> bool:
    """Write `name` durably unless it exists; True if this call made it. Of any number of callers exactly one is first. Raises OSError."""
    temporary = _temporary(name)
    try:
        write_new(dir_fd, temporary, data, point=point)
        crashpoint(f"{point}.link.before")
        os.link(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd, follow_symlinks=False)
        first = True
    except FileExistsError:
        first = False
    finally:
        _forget(dir_fd, temporary)
    crashpoint(f"{point}.link.after")
    # The second process syncs too: it will act on the first one's decision, which must not vanish afterwards.
    os.fsync(dir_fd)
    crashpoint(f"{point}.sync.after")
    return first


def read_limited(dir_fd: int, name: str, limit: int) -> bytes:
    """Read a regular file of at most `limit` bytes, never following a symlink and never waiting.

    Raises:
        OSError: as `open` and `read` do; EBADMSG if it is not a regular file or is larger.
    """
    # O_NONBLOCK, because opening a fifo in its place would wait forever.
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        if not _is_regular(fd):
            raise OSError(errno.EBADMSG, "not a regular file", name)
        data = b""
        # By the descriptor: a file object costs more than the whole read.
        while len(data) <= limit and (part := os.read(fd, _PART)):
            data += part
    finally:
        os.close(fd)
    if len(data) > limit:
        raise OSError(errno.EBADMSG, "larger than such a file can be", name)
    return data


def _is_regular(fd: int) -> bool:
    return stat.S_ISREG(os.fstat(fd).st_mode)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _temporary(name: str) -> str:
    return f"{name}.{os.getpid()}.{os.urandom(4).hex()}.tmp"


def _forget(dir_fd: int, name: str) -> None:
    with suppress(OSError):
        os.unlink(name, dir_fd=dir_fd)
