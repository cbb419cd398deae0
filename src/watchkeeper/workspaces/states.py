"""What is at a path: its kind, its content's hash, its size and time of change, as plain JSON values."""

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import cast

HASHED_UP_TO = 50 * 1024 * 1024
"""Bytes of a file above which its size and time of change stand for its content."""
HASHED_IN_ALL = 500 * 1024 * 1024
"""Bytes that are hashed for one snapshot; beyond, the same."""

State = list[object] | None
"""Kind, hash or None, size, time of change or None. None: nothing is there."""


@dataclass(slots=True)
class Hasher:
    """Reads states, within the bounds of one snapshot."""

    left: int = HASHED_IN_ALL

    def state(self, path: Path) -> State:
        """What is there now. Raises OSError only where the file system itself fails."""
        try:
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                return committed_state(status.st_mode, os.fsencode(path.readlink()))
            if not stat.S_ISREG(status.st_mode):
                return [_kind(status.st_mode), None, 0, None]
            digest = None
            if status.st_size <= min(HASHED_UP_TO, self.left):
                self.left -= status.st_size
                digest = _digest(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError:
            return ["unreadable", None, 0, None]
        return [_kind(status.st_mode), digest, status.st_size, status.st_mtime_ns]


def committed_state(mode: int, content: bytes) -> State:
    """The state of a file of that mode with that content."""
    return [_kind(mode), _new(content).hexdigest(), len(content), None]


def same(one: State, other: State) -> bool:
    """Whether two states are the same, by their hashes if both have one."""
    if one is None or other is None:
        return one is other
    if one[0] != other[0]:
        return False
    if one[1] is not None and other[1] is not None:
        return one[1] == other[1]
    return one[2:] == other[2:]


def recorded_state(value: object) -> State:
    """A state as it was recorded. Raises ValueError."""
    if value is None:
        return None
    if isinstance(value, list) and len(cast("list[object]", value)) == 4:
        return cast("list[object]", value)
    raise ValueError("what was recorded of a file cannot be read")


def _digest(path: Path) -> str:
    # Never follows a link and never waits for a pipe that took the file's place.
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(opened, "rb") as content:
        return hashlib.file_digest(content, _new).hexdigest()


def _new(content: bytes = b"") -> "hashlib.blake2b":
    return hashlib.blake2b(content, digest_size=16)


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "executable" if mode & 0o100 else "file"
    return {stat.S_IFLNK: "link", stat.S_IFDIR: "directory"}.get(stat.S_IFMT(mode), "other")
