"""Which directory a path leads to and which checkout is there, told by reading files alone: no program is run, and nothing of the repository's is.

Git's own files say it: `.git` is a directory, or a file that names one; `HEAD` in it names the branch or the commit; `commondir` names what all checkouts of
the repository share. So a look costs a few dozen system calls.
"""

import contextlib
import fcntl
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.workspaces.plain import storable

_GET_GENERATION = 0x80087601
"""FS_IOC_GETVERSION. File systems on a disk give inode numbers out again at once, and this number tells the directories apart. Others have none."""

_MOST_READ = 64 * 1024
_MOST_REFS = 32 * 1024 * 1024
REFTABLE = "refs/heads/.invalid"
"""What `HEAD` says where the branches are kept in another format."""


class _Git(NamedTuple):
    """The files of one checkout."""

    top: Path
    own: Path
    """The directory with this checkout's HEAD."""
    common: Path
    """The one that all checkouts of the repository share."""


class Unreadable(Exception):  # noqa: N818 - an answer
    """Why nothing can be said of a checkout, in a few words."""


def identify(cwd: str) -> WorkingDirectory | None:
    """Look at a working directory; None if there is none, or it cannot be looked at. Never raises."""
    try:
        path = os.path.realpath(cwd)
        device, inode, generation = _identity(path)
        found = WorkingDirectory(
            boot=_boot_id(), path=storable(path), device=device, inode=inode, generation=generation
        )
    except (OSError, ValueError):
        return None
    return _with_checkout(found, Path(path))


def _with_checkout(found: WorkingDirectory, path: Path) -> WorkingDirectory:
    try:
        git = _find(path)
        if git is None:
            return found
        name = git.own / "HEAD"
        ref, commit = _head(name)
        if ref is not None and ref != REFTABLE:
            commit = _commit(git, ref)
        # A text that is not UTF-8 cannot be stored as it is, so the file is not compared again; the rest is.
        is_plain = not name.is_symlink() and all(storable(each) == each for each in (str(name), ref or ""))
        return replace(
            found,
            top=storable(str(git.top)),
            repository=_identity(str(git.common)),
            ref=None if ref is None else storable(ref),
            head=commit,
            head_file=str(name) if is_plain else None,
        )
    except (OSError, ValueError, Unreadable) as error:
        return replace(found, unknown=str(error) if isinstance(error, Unreadable) else f"{error}.")


def _identity(path: str) -> tuple[int, int, int | None]:
    """Device, inode and generation of a directory. Raises OSError."""
    seen = os.stat(path)  # noqa: PTH116 - one call
    if not stat.S_ISDIR(seen.st_mode):
        raise NotADirectoryError(path)
    return seen.st_dev, seen.st_ino, _generation(path, (seen.st_dev, seen.st_ino))


def _generation(path: str, expected: tuple[int, int]) -> int | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None  # it may be entered and not be read
    try:
        seen = os.fstat(fd)
        if (seen.st_dev, seen.st_ino) != expected:
            raise FileNotFoundError(f"{path} was replaced while it was looked at")
        answer = bytearray(8)
        with contextlib.suppress(OSError):  # its file system has no such numbers
            _ = fcntl.ioctl(fd, _GET_GENERATION, answer)
            return int.from_bytes(answer[:4], "little")
    finally:
        os.close(fd)
    return None


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""  # not Linux


def _find(path: Path) -> _Git | None:
    """The checkout or the bare repository that a directory is in. Raises OSError, Unreadable."""
    if (path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir():
        return _Git(path, path, path)
    for directory in (path, *path.parents):
        mark = directory / ".git"
        if mark.is_file():
            text = _read(mark)
            if not text.startswith("gitdir: "):
                raise Unreadable(f"{mark} does not say where the repository is.")
            own = directory / text.removeprefix("gitdir: ")
            return _Git(directory, own, _common(own))
        if os.path.lexists(mark / "HEAD"):
            return _Git(directory, mark, _common(mark))
    return None


def _common(own: Path) -> Path:
    named = own / "commondir"
    return Path(os.path.realpath(own / _read(named))) if named.exists() else Path(os.path.realpath(own))


def _head(file: Path) -> tuple[str | None, str | None]:
    """The branch, or the commit, that a `HEAD` names. Raises OSError, Unreadable."""
    if file.is_symlink():
        return os.fspath(file.readlink()), None  # as git once wrote it
    text = _read(file)
    if text.startswith("ref:") and storable(text).isprintable():
        return text.removeprefix("ref:").strip(), None
    if _is_commit(text):
        return None, text
    raise Unreadable(f"{file} names neither a branch nor a commit.")


def _commit(git: _Git, ref: str) -> str | None:
    """The commit that a branch is at; None where it has none yet, or it is kept in a way that is not read here."""
    for directory in dict.fromkeys((git.own, git.common)):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            text = _read(directory / ref)
            return text if _is_commit(text) else None
    with contextlib.suppress(FileNotFoundError):
        for line in _read(git.common / "packed-refs", _MOST_REFS).splitlines():
            commit, _, name = line.partition(" ")
            if name == ref and _is_commit(commit):
                return commit
    return None


def _read(file: Path, most: int = _MOST_READ) -> str:
    """A small text. Never waits, because only a regular file is read. Raises OSError, Unreadable."""
    fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as opened:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise Unreadable(f"{file} is not a regular file.")
        data = opened.read(most + 1)
    if len(data) > most:
        raise Unreadable(f"{file} is larger than such a file can be.")
    return data.decode("utf-8", "surrogateescape").strip()


def _is_commit(text: str) -> bool:
    return len(text) in {40, 64} and set(text) <= set("0123456789abcdef")
