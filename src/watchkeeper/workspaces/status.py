"""What differs from HEAD in a checkout, by one question to git."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from watchkeeper.workspaces.git_program import GitProgram, is_hash

DETACHED = "(detached)"
"""What git calls the branch where HEAD names a commit."""

_FIELDS_BEFORE_PATH = {b"1": 7, b"u": 9, b"?": 0}
"""By the kind of a line of git's status: changed, unmerged, not tracked."""

_NOT_IN_HEAD = frozenset({b"A.", b"AM", b"AD", b".A"})
"""States in the index and in the directory of a path that HEAD does not have."""


class Status(NamedTuple):
    """What git tells of a checkout in one answer."""

    top: str
    repository: str
    """The directory that all checkouts of the repository share."""
    head: str | None
    """The commit; None where there is none yet."""
    branch: str | None
    dirty: dict[str, bool]
    """Every path that differs from HEAD or is not tracked, without what is ignored, and whether HEAD has it."""
    ignored: tuple[str, ...]
    """What is ignored, a whole directory as one path with a slash at its end."""
    off: Mapping[str, str] | None = None
    """Variables that turn the repository's filters and hooks off for the rest of this look; None: they are to be asked for."""


def status_of(git: GitProgram, top: str, repository: str) -> Status:
    """Ask git what differs from HEAD in the checkout at `top`, one of the repository with that directory. Raises GitUnknown, OSError."""
    question = [
        "status",
        "--porcelain=v2",
        "--branch",
        "--no-ahead-behind",
        "-z",
        "--untracked-files=all",
        "--no-renames",
        "--ignored=matching",
        "--ignore-submodules=all",
    ]
    off = git.unfiltered(top)
    return parse_status(top, repository, git.answer(top, question, off))._replace(off=off)


def parse_status(top: str, repository: str, raw: bytes) -> Status:
    """Parse what `git status --porcelain=v2 --branch -z` prints."""
    headers: dict[str, str] = {}
    dirty: dict[str, bool] = {}
    ignored: list[str] = []
    for entry in filter(None, raw.split(b"\0")):
        kind, _, rest = entry.partition(b" ")
        if kind == b"#":
            name, _, value = rest.decode("utf-8", "replace").partition(" ")
            headers[name] = value
        elif kind in _FIELDS_BEFORE_PATH:
            path = os.fsdecode(rest.split(b" ", _FIELDS_BEFORE_PATH[kind])[-1])
            in_head = kind == b"u" or (kind == b"1" and rest[:2] not in _NOT_IN_HEAD)
            dirty[path] = dirty.get(path, False) or in_head
        elif kind == b"!":
            ignored.append(os.fsdecode(rest))
    head = headers.get("branch.oid", "")
    return Status(top, repository, head if is_hash(head) else None, headers.get("branch.head"), dirty, tuple(ignored))
