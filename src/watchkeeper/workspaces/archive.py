"""The archive of what git does not keep: a plain tar file with mode 0600.

files/…   ignored paths, nested repositories, fifos, by their path in the worktree
own/…     the worktree's own directory in the repository: index, HEAD, reflog, a merge or rebase that is under way
log       the reflog of its branch
"""

import io
import os
import tarfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from watchkeeper.crash import crashpoint
from watchkeeper.workspaces.contents import Entry, parts_of, read_link

FILES, OWN, LOG = b"files", b"own", b"log"

_TYPES = {"file": tarfile.REGTYPE, "link": tarfile.SYMTYPE, "directory": tarfile.DIRTYPE, "fifo": tarfile.FIFOTYPE}


def write(path: Path, trees: Iterable[tuple[bytes, bytes, Iterable[Entry]]], log: bytes | None) -> None:
    """Write an archive durably.

    Args:
        path: of the archive.
        trees: the first part of the names, the directory, and what of it is kept.
        log: the reflog; None if the repository keeps none for this name.

    Raises:
        Unsalvageable: a file changed meanwhile, or cannot be read.
        OSError: there is no room, among others.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    crashpoint("salvage.archive.before")
    with os.fdopen(fd, "wb") as out:
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8", errors="surrogateescape") as tar:  # fmt: skip
            for first, top, entries in trees:
                for entry in entries:
                    _add(tar, top, entry, first + b"/" + entry.path)
            if log is not None:
                found = _member(LOG, "file", 0o600, len(log))
                tar.addfile(found, io.BytesIO(log))
        out.flush()
        os.fsync(out.fileno())
    crashpoint("salvage.archive.after")


def _add(tar: tarfile.TarFile, top: bytes, entry: Entry, name: bytes) -> None:
    member = _member(name, entry.kind, entry.mode, entry.size)
    if entry.kind == "link":
        member.linkname = os.fsdecode(read_link(top, entry))
    if entry.kind == "file":
        tar.addfile(member, io.BufferedReader(_Parts(parts_of(top, entry))))
    else:
        tar.addfile(member)


def _member(name: bytes, kind: str, mode: int, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(os.fsdecode(name))
    member.type, member.mode, member.size = _TYPES[kind], mode, size
    return member


class _Parts(io.RawIOBase):
    """Parts of a file as a file."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        super().__init__()
        self._parts, self._rest = parts, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride] - what the caller passes
        if not self._rest:
            self._rest = next(self._parts, b"")
        count = min(len(self._rest), len(buffer))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


@contextmanager
def opened(path: Path) -> Generator[tarfile.TarFile]:
    """An archive, for reading. Raises OSError, tarfile.TarError."""
    with tarfile.open(path, mode="r:", encoding="utf-8", errors="surrogateescape") as tar:
        yield tar


def members(tar: tarfile.TarFile, first: bytes) -> Iterator[tuple[bytes, tarfile.TarInfo]]:
    """What an archive holds below `first`, with the rest of the path."""
    for member in tar:
        name = os.fsencode(member.name)
        if name.startswith(first + b"/"):
            yield name.removeprefix(first + b"/"), member


def log_of(tar: tarfile.TarFile) -> bytes | None:
    """The reflog; None: there was none."""
    for member in tar:
        if member.name == LOG.decode():
            found = tar.extractfile(member)
            return None if found is None else found.read()
    return None


def put(tar: tarfile.TarFile, member: tarfile.TarInfo, path: bytes) -> None:
    """Make one entry at a path that is free; a directory may be there, and gets its mode later. Raises OSError."""
    if member.isdir():
        os.makedirs(path, mode=0o700, exist_ok=True)  # noqa: PTH103 - bytes
    elif member.issym():
        os.symlink(os.fsencode(member.linkname), path)  # noqa: PTH211 - bytes
    elif member.isfifo():
        os.mkfifo(path, member.mode)
        os.chmod(path, member.mode)  # noqa: PTH101 - bytes
    else:
        source = tar.extractfile(member)
        if source is not None:
            write_file(path, member.mode, source, member.size)


def write_file(path: bytes, mode: int, source: IO[bytes], size: int) -> None:
    """Make a file of so many bytes. Raises OSError if there are not as many."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as out:
        left = size
        while left:
            part = source.read(min(left, 1024 * 1024))
            if not part:
                msg = "what was kept of it is cut off"
                raise OSError(msg)
            _ = out.write(part)
            left -= len(part)
        os.fchmod(out.fileno(), mode)
