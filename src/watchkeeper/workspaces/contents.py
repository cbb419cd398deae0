"""Everything that is in a worktree, sorted by how it is kept: as files of git, in the archive, or not at all. Nothing is changed and no program is run.

Paths are bytes, relative to the top: a name may hold anything but a zero byte and a slash.
"""

import os
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha1, sha256
from pathlib import Path

from watchkeeper.domain.salvage import Sized
from watchkeeper.workspaces.plain import storable

_PART = 1024 * 1024
_MOST_GITFILE = 4096
_WORDS = {
    stat.S_IFREG: "file",
    stat.S_IFLNK: "link",
    stat.S_IFDIR: "directory",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
}


class Unsalvageable(Exception):  # noqa: N818 - an answer
    """Why a worktree cannot be salvaged, in a sentence."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a worktree."""

    path: bytes
    kind: str
    """One of `file`, `link`, `directory`, `fifo`, `socket`."""
    mode: int
    """Its permission bits."""
    size: int
    seen: tuple[int, ...]
    """Changes whenever the entry is written or replaced."""


@dataclass(slots=True)
class Contents:
    """What is in a worktree."""

    plain: list[Entry] = field(default_factory=list["Entry"])
    """Files and links that git keeps or would keep, and the directories they are in."""
    archived: list[Entry] = field(default_factory=list["Entry"])
    """What git does not keep: ignored paths, nested repositories, fifos. A directory comes before what is in it."""
    sockets: list[Entry] = field(default_factory=list["Entry"])

    def all(self) -> dict[bytes, Entry]:
        """Every entry by its path."""
        return {each.path: each for each in (*self.plain, *self.archived, *self.sockets)}

    def archived_sizes(self) -> list[Sized]:
        """The files that go into the archive, the one that names the repository left out."""
        files = [each for each in self.archived if each.size and each.path != b".git"]
        return [Sized(path=storable(os.fsdecode(each.path)), size=each.size) for each in files]

    def size(self) -> int:
        """Bytes of all files."""
        return sum(each.size for each in (*self.plain, *self.archived))


@dataclass(frozen=True, slots=True)
class Reader:
    """Looks at one worktree."""

    top: bytes
    own: Path
    """Its own directory in the repository."""
    common: Path
    """The directory that all checkouts of the repository share."""
    ignored: Collection[bytes]
    """Paths that git ignores; of a directory without a slash at its end."""

    def read(self) -> Contents:
        """Look at everything. Raises Unsalvageable, OSError."""
        found, device = Contents(), os.lstat(self.top).st_dev
        found.plain.append(_entry(b"", os.lstat(self.top)))
        self._directory(b"", found, device, apart=False)
        return found

    def _directory(self, path: bytes, found: Contents, device: int, *, apart: bool) -> None:
        """`apart`: all of it goes into the archive."""
        for name in self._names(path):
            inner = os.path.join(path, name)  # noqa: PTH118 - bytes
            status = os.lstat(os.path.join(self.top, inner))  # noqa: PTH118 - bytes
            entry = _entry(inner, status)
            if inner == b".git":
                found.archived.append(entry)
                continue
            if status.st_dev != device:
                raise Unsalvageable(f"Another file system is mounted at {_said(inner)}.")
            archived = apart or inner in self.ignored or _is_refused_by_git(name, entry) or self._is_repository(entry)
            if entry.kind == "socket":
                found.sockets.append(entry)
            elif archived or entry.kind == "fifo":
                found.archived.append(entry)
            else:
                found.plain.append(entry)
            if entry.kind == "directory":
                self._directory(inner, found, device, apart=archived)

    def _names(self, path: bytes) -> Sequence[bytes]:
        try:
            return sorted(os.listdir(os.path.join(self.top, path)))  # noqa: PTH118, PTH208 - bytes
        except PermissionError as error:
            raise Unsalvageable(
                f"The directory {_said(path)} cannot be read: `chmod u+rx` it, or remove it."
            ) from error

    def _is_repository(self, entry: Entry) -> bool:
        """Whether a directory is a repository of its own. Raises Unsalvageable if another repository would miss it."""
        if entry.kind != "directory":
            return False
        git = os.path.join(self.top, entry.path, b".git")  # noqa: PTH118 - bytes
        if not os.path.lexists(git):
            return False
        if os.path.isdir(git) and not os.path.islink(git):  # noqa: PTH112, PTH114 - bytes
            self._require_no_worktrees(entry, git)
        else:
            self._require_own(entry, git)
        return True

    def _require_no_worktrees(self, entry: Entry, git: bytes) -> None:
        others = os.path.join(git, b"worktrees")  # noqa: PTH118 - bytes
        if os.path.isdir(others) and os.listdir(others):  # noqa: PTH112, PTH208 - bytes
            raise Unsalvageable(
                f"The repository in {_said(entry.path)} has worktrees of its own elsewhere: `git worktree list` there names them."
            )

    def _require_own(self, entry: Entry, git: bytes) -> None:
        """Its files must be in the worktree or in our repository, and no other worktree's. Raises Unsalvageable."""
        try:
            with open(git, "rb") as file:  # noqa: PTH123 - bytes
                text = file.read(_MOST_GITFILE).strip()
        except OSError as error:
            raise Unsalvageable(f"{_said(entry.path)} is a repository whose files cannot be found.") from error
        named = os.path.join(self.top, entry.path, text.removeprefix(b"gitdir: "))  # noqa: PTH118 - bytes
        real, common = os.path.realpath(named), os.path.realpath(os.fsencode(self.common))
        own = os.path.realpath(os.fsencode(self.own))
        in_ours = _within(real, common) and not _within(real, os.path.join(common, b"worktrees"))  # noqa: PTH118 - bytes
        if not (_within(real, os.path.realpath(self.top)) or _within(real, own) or in_ours):
            raise Unsalvageable(
                f"{_said(entry.path)} is a worktree of another repository, which would miss it: `git worktree remove` takes it away."
            )


def _is_refused_by_git(name: bytes, entry: Entry) -> bool:
    """Whether git takes no such name into a tree."""
    lower = name.lower()
    return (lower == b".git" and name != lower) or (lower == b".gitmodules" and entry.kind == "link")


def everything_in(top: bytes) -> list[Entry]:
    """All of a directory, each directory before what is in it. Raises Unsalvageable, OSError."""
    found: list[Entry] = []
    rest = [b""]
    while rest:
        path = rest.pop()
        for name in sorted(os.listdir(os.path.join(top, path))):  # noqa: PTH118, PTH208 - bytes
            inner = os.path.join(path, name)  # noqa: PTH118 - bytes
            entry = _entry(inner, os.lstat(os.path.join(top, inner)))  # noqa: PTH118 - bytes
            found.append(entry)
            if entry.kind == "directory":
                rest.append(inner)
    return found


def _within(path: bytes, directory: bytes) -> bool:
    return path.startswith(directory + b"/")


def _said(path: bytes) -> str:
    return f"'{storable(os.fsdecode(path))}'"


def _entry(path: bytes, status: os.stat_result) -> Entry:
    kind = _WORDS.get(stat.S_IFMT(status.st_mode))
    if kind is None:
        raise Unsalvageable(f"{_said(path)} is a device, which cannot be kept.")
    is_file = kind == "file"
    seen = (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return Entry(path, kind, stat.S_IMODE(status.st_mode), status.st_size if is_file else 0, seen)


def read_link(top: bytes, entry: Entry) -> bytes:
    """Where a link leads."""
    return os.readlink(os.path.join(top, entry.path))  # noqa: PTH115, PTH118 - bytes


def parts_of(top: bytes, entry: Entry) -> Iterator[bytes]:
    """The bytes of a file, exactly as many as it had when it was looked at. Raises Unsalvageable, OSError."""
    left = entry.size
    try:
        fd = os.open(os.path.join(top, entry.path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)  # noqa: PTH118 - bytes
    except PermissionError as error:
        raise Unsalvageable(f"{_said(entry.path)} cannot be read: `chmod u+r` it, or remove it.") from error
    try:
        while left:
            part = os.read(fd, min(_PART, left))
            if not part:
                raise Unsalvageable(f"{_said(entry.path)} changed while it was kept: something works there.")
            left -= len(part)
            yield part
    finally:
        os.close(fd)


def object_id(top: bytes, entry: Entry, digits: int) -> str:
    """The name that git gives to what is in a file or a link, as it is on the disk: no filter changes it. Raises Unsalvageable, OSError."""
    digest = sha1(usedforsecurity=False) if digits == 40 else sha256()
    if entry.kind == "link":
        target = read_link(top, entry)
        digest.update(b"blob %d\0" % len(target) + target)
        return digest.hexdigest()
    digest.update(b"blob %d\0" % entry.size)
    for part in parts_of(top, entry):
        digest.update(part)
    return digest.hexdigest()
