"""Durable records in the execution directory: a reader sees all of one or none of it, also after a power cut."""

import os
from binascii import crc32

from . import json_text
from .crash import crashpoint

MODE = 0o600
_SEAL = b'"crc32": "'


def write_all(fd: int, data: bytes) -> None:
    """Write every byte. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sealed(text: bytes) -> bytes:
    """A record as a line, with the checksum of everything before it as its last key: no changed byte passes for what was written."""
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
        raise ValueError("its checksum does not fit")
    return body + b"}"


def _write_temporary(directory: int, name: str, record: dict[str, object]) -> str:
    # We hold the directory's lock, so whatever has this name is of a shim that is dead.
    temporary = f"{name}.{os.getpid()}.tmp"
    fd = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, MODE, dir_fd=directory
    )
    try:
        write_all(fd, sealed(json_text.encode(record).encode("ascii")))
        os.fsync(fd)
    except OSError:
        forget(directory, temporary)
        raise
    finally:
        os.close(fd)
    return temporary


def write(directory: int, name: str, record: dict[str, object]) -> None:
    """Write a record durably, replacing what was there. Raises OSError; then a reader finds the old record, or the new one all the same."""
    point = f"shim.{name.partition('.')[0]}"
    crashpoint(f"{point}.write.before")
    temporary = _write_temporary(directory, name, record)
    crashpoint(f"{point}.rename.before")
    os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    crashpoint(f"{point}.rename.after")
    os.fsync(directory)
    crashpoint(f"{point}.sync.after")


def publish(directory: int, name: str, record: dict[str, object]) -> bool:
    """Write a record durably unless it exists; True if this call made it. Of any number of callers exactly one is first. Raises OSError."""
    point = f"shim.{name}"
    crashpoint(f"{point}.write.before")
    temporary = _write_temporary(directory, name, record)
    try:
        crashpoint(f"{point}.link.before")
        os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except FileExistsError:
        return False
    finally:
        forget(directory, temporary)
    crashpoint(f"{point}.link.after")
    os.fsync(directory)
    crashpoint(f"{point}.sync.after")
    return True


def forget(directory: int, name: str) -> None:
    """Remove a file that is no longer needed; a failure to do so is harmless."""
    try:  # noqa: SIM105 - contextlib would cost start-up time
        os.unlink(name, dir_fd=directory)
    except OSError:
        pass


def read_bytes(directory: int, name: str) -> bytes:
    """A file of the directory. Raises OSError."""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    with os.fdopen(fd, "rb") as file:
        return file.read()
