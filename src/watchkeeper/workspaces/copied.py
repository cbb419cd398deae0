"""Ignored files that are copied into a new worktree: those that match the patterns of the checkout's `.worktreeinclude`.

    patterns, as they were at hand-over ─▶ untracked files of the checkout that match ─▶ those that git ignores, there and in the worktree ─▶ copies

So no tracked file is copied, and none that the agent could commit by accident. No path is followed through a symbolic link, on either side. A link is copied
as a link, and only if it stays inside of the tree. Each copy has the mode of its file; while it is written, only its owner can read it.
"""

import errno
import fcntl
import os
import posixpath
import stat
import tempfile
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from watchkeeper.domain.plain_text import clean
from watchkeeper.errors import BadTask
from watchkeeper.workspaces.git_program import GitProgram, GitUnknown
from watchkeeper.workspaces.plain import storable

FILE = ".worktreeinclude"
MOST_PATTERNS = 16 * 1024
"""Bytes of that file."""
MOST_FILES = 20_000
MOST_BYTES = 1024 * 1024 * 1024
"""Bytes of all copied files together."""

_CLONE = 0x40049409  # FICLONE: the copy shares the blocks of the file until one of them is written
_CHUNK = 1024 * 1024
_SHOWN = 3
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Matching(NamedTuple):
    """What the patterns match in a checkout."""

    paths: tuple[str, ...]
    """Files and links to copy."""
    left_out: tuple[str, ...]
    """Links that lead out of the tree, and what is neither a file nor a link."""
    size: int
    """Bytes."""


def patterns_of(top: str) -> str:
    """The patterns of a checkout; empty: there are none. Raises BadTask."""
    try:
        fd = os.open(Path(top, FILE), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise BadTask(
            f"{FILE} cannot be read: {error.strerror}.", hint="Make it a plain file, or remove it."
        ) from error
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise BadTask(f"{FILE} is not a plain file.", hint="Make it one, or remove it.")
        raw = os.read(fd, MOST_PATTERNS + 1)
    finally:
        os.close(fd)
    if len(raw) > MOST_PATTERNS:
        raise BadTask(f"{FILE} is larger than {MOST_PATTERNS // 1024} KiB.", hint="Name directories instead of files.")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadTask(f"{FILE} is not UTF-8.", hint="Save it as UTF-8.") from error


def found(git: GitProgram, source: str, patterns: str) -> Matching:
    """What the patterns match in a checkout. Raises GitUnknown, OSError."""
    with tempfile.NamedTemporaryFile(prefix="watchkeeper-patterns-") as file:
        _ = file.write(patterns.encode())
        file.flush()
        raw = git.answer(source, ["ls-files", "-z", "--others", "--ignored", f"--exclude-from={file.name}"])
    matching = [os.fsdecode(path) for path in raw.split(b"\0") if path and not path.endswith(b"/")]
    paths: list[str] = []
    left_out: list[str] = []
    size = 0
    for path in _ignored(git, source, matching):
        try:
            status = os.lstat(Path(source, path))
            fits = stat.S_ISREG(status.st_mode) or (stat.S_ISLNK(status.st_mode) and _stays(source, path))
        except FileNotFoundError:
            continue
        (paths if fits else left_out).append(path)
        size += status.st_size if fits else 0
    return Matching(tuple(paths), tuple(left_out), size)


def too_much(matching: Matching) -> str:
    """Why so much is not copied, in a sentence; empty: it is not too much."""
    if len(matching.paths) <= MOST_FILES and matching.size <= MOST_BYTES:
        return ""
    return (
        f"{FILE} matches {len(matching.paths)} files of {matching.size / 1e6:.0f} MB, and at most {MOST_FILES} of "
        f"{MOST_BYTES / 1e6:.0f} MB are copied."
    )


def note(matching: Matching) -> tuple[str, ...]:
    """What a person should know, in sentences."""
    notes: list[str] = []
    if matching.paths:
        files = "1 ignored file" if len(matching.paths) == 1 else f"{len(matching.paths)} ignored files"
        notes.append(f"{FILE} brings {files} along: {_named(matching.paths)}.")
    if matching.left_out:
        notes.append(f"Not copied, because it leads out of the checkout or is not a file: {_named(matching.left_out)}.")
    return tuple(notes)


def copy(git: GitProgram, source: str, top: str, patterns: str) -> str:
    """Copy what matches into a worktree; returns why not, in a sentence. Whatever an earlier try has copied is copied again.

    Raises:
        GitUnknown: git cannot say what matches.
        OSError: a file cannot be read or written.
    """
    if not patterns.strip():
        return ""
    matching = found(git, source, patterns)
    if problem := too_much(matching):
        return f"{problem} Change it in {source}, and hand the task over anew."
    within = [path for path in matching.paths if _is_within(top, path)]
    with _directory(source) as from_fd, _directory(top) as to_fd:
        for path in _ignored(git, top, within):
            _copy(from_fd, to_fd, path)
    return ""


def _ignored(git: GitProgram, top: str, paths: Sequence[str]) -> list[str]:
    """Those of the paths that git ignores there, and does not track. Raises GitUnknown, OSError."""
    if not paths:
        return []
    # This command does not take literal paths; with a dot before it, no path is taken for a pattern.
    given = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)
    code, out, complaint = git.ask(top, ["--no-literal-pathspecs", "check-ignore", "-z", "--stdin"], given=given)
    if code not in {0, 1}:
        raise GitUnknown(f"git could not say what it ignores: {complaint}")
    return [os.fsdecode(path.removeprefix(b"./")) for path in out.split(b"\0") if path]


def _stays(source: str, path: str) -> bool:
    """Whether a link is relative and leads to a place inside of the tree, whatever other links are on the way."""
    target = str(Path(source, path).readlink())
    if posixpath.isabs(target):
        return False
    reached = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    real = os.path.realpath(Path(source, path))
    return reached != ".." and not reached.startswith("../") and Path(real).is_relative_to(os.path.realpath(source))


def _is_within(top: str, path: str) -> bool:
    """Whether the directories above a path are real ones in the worktree, or not there yet."""
    for parent in Path(path).parents:
        with suppress(FileNotFoundError, NotADirectoryError):
            if not stat.S_ISDIR(os.lstat(Path(top, parent)).st_mode):
                return False
    return True


def _copy(from_fd: int, to_fd: int, path: str) -> None:
    """Copy one file or link, in the place of what an earlier try has left."""
    name = posixpath.basename(path)
    with _parent(from_fd, path, make=False) as above, _parent(to_fd, path, make=True) as below:
        status = os.stat(name, dir_fd=above, follow_symlinks=False)
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
            return
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=below)
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(name, dir_fd=above), name, dir_fd=below)
            return
        reading = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=above)
        with os.fdopen(reading, "rb") as file:
            writing = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=below)
            with os.fdopen(writing, "wb") as new:
                if not _is_cloned(reading, writing):
                    for chunk in iter(lambda: file.read(_CHUNK), b""):
                        _ = new.write(chunk)
                new.flush()
                os.fchmod(writing, stat.S_IMODE(status.st_mode) & 0o777)


def _is_cloned(reading: int, writing: int) -> bool:
    try:
        _ = fcntl.ioctl(writing, _CLONE, reading)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EIO}:
            raise
        return False  # this file system copies
    return True


@contextmanager
def _directory(path: str) -> Generator[int]:
    fd = os.open(path, _DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _parent(top_fd: int, path: str, *, make: bool) -> Generator[int]:
    """The directory that a path is in, reached without following a link. Raises OSError."""
    fd = os.dup(top_fd)
    try:
        for part in path.split("/")[:-1]:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o777, dir_fd=fd)
            inner = os.open(part, _DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def _named(paths: Iterable[str]) -> str:
    shown = [clean(storable(path)) for path in paths]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return f"{', '.join(shown[:_SHOWN])}{more}"
