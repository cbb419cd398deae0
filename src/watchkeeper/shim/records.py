"""Durable records in the execution directory: a reader sees all of one or none of it, also after a power cut."""

import json
import os

from .crash import crashpoint

MODE = 0o600


def write_all(fd: int, data: bytes) -> None:
    """Write every byte. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _write_temporary(directory: int, name: str, record: dict[str, object]) -> str:
    temporary = f"{name}.{os.getpid()}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, MODE, dir_fd=directory)
    try:
        write_all(fd, json.dumps(record).encode("ascii") + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)
    return temporary


def write(directory: int, name: str, record: dict[str, object]) -> None:
    """Write a record durably, replacing what was there. Raises OSError; then what was there is still there."""
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
        os.unlink(temporary, dir_fd=directory)
    crashpoint(f"{point}.link.after")
    os.fsync(directory)
    crashpoint(f"{point}.sync.after")
    return True


def read_bytes(directory: int, name: str) -> bytes:
    """A file of the directory. Raises OSError."""
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    with os.fdopen(fd, "rb") as file:
        return file.read()


def read(directory: int, name: str) -> dict[str, object] | None:
    """A record, or None if it is not there. Raises OSError, ValueError."""
    try:
        found: object = json.loads(read_bytes(directory, name))
    except FileNotFoundError:
        return None
    if not isinstance(found, dict):
        raise ValueError(f"{name} is not an object")  # noqa: TRY004 - it is the content that is wrong
    return found
