"""What differs between two commits, and what was at the paths that have changed again since, by a number of questions that does not grow with them."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from watchkeeper.workspaces.git_program import DIFF_OFF, MAX_OUTPUT, GitProgram, GitUnknown
from watchkeeper.workspaces.states import State, committed_state

_AS_IN_HEAD: State = ["as in HEAD", None, -1, None]
"""Clean, and so the same as nothing that is dirty."""

_AT_ONCE = MAX_OUTPUT // 2
"""Bytes of contents that are read by one question, unless one content alone is larger."""
_LARGEST = MAX_OUTPUT - 1024
_HEADER = 128
"""Bytes that git says before a content, and some more."""
_FILES = frozenset({0o100644, 0o100664, 0o100755, 0o120000})
"""Modes of files and links, as git stores them."""


class _Was(NamedTuple):
    """What a commit has at a path."""

    mode: int
    blob: str


class Committed:
    """The difference between two commits."""

    def __init__(self, git: GitProgram, top: str, base: str | None, head: str | None, again: Iterable[str]) -> None:
        """Compare them. `again`: paths of which `before` may be asked. Raises GitUnknown, OSError."""
        self.changes: dict[str, str] = {}
        """What became of each path: `added`, `deleted` or `modified`."""
        self._states: dict[str, State] = {}
        if base == head or head is None:
            return
        was = dict[str, _Was]()
        for path, change, there in _differences(git, top, base, head):
            self.changes[path] = change
            was[path] = there
        if base is not None:
            wanted = {path: was[path] for path in again if self.changes.get(path, "added") != "added"}
            self._states = dict(_states(git, top, wanted))

    def before(self, path: str, *, in_head: bool) -> State:
        """What was at a path that was clean before, where `in_head`: HEAD has it now."""
        change = self.changes.get(path)
        if change is None:
            return _AS_IN_HEAD if in_head else None
        # Committed and changed again since: perhaps back to what it was.
        return None if change == "added" else self._states.get(path, _AS_IN_HEAD)


def _differences(git: GitProgram, top: str, base: str | None, head: str) -> Iterator[tuple[str, str, _Was]]:
    tree = base or git.line(top, "hash-object", "-t", "tree", "/dev/null")
    question = ["diff-tree", "-r", "-z", "--no-renames", "--raw", "--no-abbrev", *DIFF_OFF, "--ignore-submodules=none"]
    fields = iter(git.answer(top, [*question, str(tree), head]).split(b"\0"))
    words = {"A": "added", "D": "deleted"}
    for told in fields:
        if told:
            mode, _, blob, _, letter = told.decode("ascii").removeprefix(":").split()
            yield os.fsdecode(next(fields)), words.get(letter[:1], "modified"), _Was(int(mode, 8), blob)


def _states(git: GitProgram, top: str, wanted: Mapping[str, _Was]) -> Iterator[tuple[str, State]]:
    """The states of what the paths were; what is too large or is not a file has none. Contents are read in parts, of which none is large."""
    paths = dict[str, list[str]]()
    for path, was in wanted.items():
        if was.mode in _FILES:
            paths.setdefault(was.blob, []).append(path)
    part, left = list[str](), _AT_ONCE
    for blob, size in _sizes(git, top, list(paths)):
        if size > _LARGEST:
            continue
        if part and size > left:
            yield from _read(git, top, part, paths, wanted)
            part, left = [], _AT_ONCE
        part.append(blob)
        left -= size + _HEADER
    if part:
        yield from _read(git, top, part, paths, wanted)


def _sizes(git: GitProgram, top: str, blobs: Sequence[str]) -> Iterator[tuple[str, int]]:
    if not blobs:
        return
    question = ["cat-file", "--batch-check=%(objecttype) %(objectsize)"]
    told = git.answer(top, question, given="\n".join((*blobs, "")).encode()).decode("ascii").splitlines()
    for blob, line in zip(blobs, told, strict=True):
        kind, _, size = line.partition(" ")
        if kind != "blob":
            raise GitUnknown("git could not be asked: a file of an earlier commit is not in the repository.")
        yield blob, int(size)


def _read(
    git: GitProgram, top: str, blobs: Sequence[str], paths: Mapping[str, list[str]], wanted: Mapping[str, _Was]
) -> Iterator[tuple[str, State]]:
    raw, at = git.answer(top, ["cat-file", "--batch"], given="\n".join((*blobs, "")).encode()), 0
    for blob in blobs:
        begin = raw.index(b"\n", at) + 1
        end = begin + int(raw[at:begin].split()[2])
        for path in paths[blob]:
            yield path, committed_state(wanted[path].mode, raw[begin:end])
        at = end + 1
