"""The state of a checkout as a tree of git, kept under a reference in `refs/watchkeeper`: what a run changed can be shown later, whatever happened since.

    status ──paths that differ from HEAD──▶ index of our own: HEAD, then these paths ──write-tree──▶ tree ──▶ refs/watchkeeper/runs/NAME/before or /after

The user's index, HEAD, branches and files are never touched. The references name trees, not commits, so no log shows them, and an ordinary push, fetch or
clone leaves them out. What is too large, cannot be read or is a repository of its own is left out of a tree, and named.
"""

import os
import stat
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from watchkeeper.crash import crashpoint
from watchkeeper.domain.model import FileChange
from watchkeeper.workspaces.git_program import DIFF_OFF, GitProgram, GitUnknown, is_hash

REFS = "refs/watchkeeper/runs"

KEPT_UP_TO = 50 * 1024 * 1024
"""Bytes of a file that differs from HEAD, above which it is left out of a tree."""
KEPT_IN_ALL = 256 * 1024 * 1024
"""Bytes of all such files together; those that come after are left out."""

_RENAMES = "-l1000"
"""Among more files than this no renamed ones are looked for unless their content is the same."""

_OWN_INDEX = (
    "-c", "core.splitIndex=false", "-c", "index.sparse=false", "-c", "core.sparseCheckout=false", "-c", "core.safecrlf=false",
    "-c", "core.bigFileThreshold=50m", "-c", "core.fsyncMethod=batch", "-c", "core.fsync=loose-object,reference",
)  # fmt: skip
"""Nothing beside the index is written, no setting makes git refuse a file, and what a reference names outlives a power cut."""

_WORDS = {"A": "added", "D": "deleted", "R": "renamed"}
_KEPT_KINDS = frozenset({stat.S_IFREG, stat.S_IFLNK})


class Kept(NamedTuple):
    """A tree, or why there is none."""

    tree: str | None
    why_not: str = ""
    left_out: tuple[str, ...] = ()
    """Paths that the tree holds as HEAD has them, or not at all, whatever is there."""


class Known(NamedTuple):
    """Trees that are in the repository already."""

    named: dict[str, str]
    """By the name of a run."""
    committed: dict[str, str]
    """By the commit."""


class _Sorted(NamedTuple):
    """What is to be done with each path that differs from HEAD."""

    taken: list[str]
    removed: list[str]
    left_out: list[str]


class Trees:
    """Makes, names and compares trees."""

    def __init__(self, git: GitProgram, *, until: float | None = None, temporary: str | None = None) -> None:
        """Ask `git`, not beyond `until` on the monotonic clock; `temporary`: the directory for our own index."""
        self._git = git
        self._until = until
        self._temporary = temporary

    def of_checkout(
        self, top: str, head: str | None, dirty: Collection[str], off: Mapping[str, str] | None = None
    ) -> Kept:
        """The tree of the checkout as it is now, where `dirty` are all paths that differ from the commit `head`. Never raises.

        `off`: variables that turn content filters off; None: every filter is off.
        """
        try:
            return self._of_checkout(top, head, dirty, off)
        except (GitUnknown, OSError, ValueError) as error:
            return Kept(None, str(error))

    def _of_checkout(self, top: str, head: str | None, dirty: Collection[str], off: Mapping[str, str] | None) -> Kept:
        found = _sorted(top, sorted(dirty, key=os.fsencode))
        with tempfile.TemporaryDirectory(prefix="watchkeeper-index-", dir=self._temporary) as directory:
            without = self._git.unfiltered(top) if off is None else off
            variables = {**without, "GIT_INDEX_FILE": str(Path(directory, "index"))}

            def ask(*arguments: str, given: Iterable[str] = ()) -> bytes:
                names = b"".join(os.fsencode(path) + b"\0" for path in given)
                return self._git.answer(top, [*_OWN_INDEX, *arguments], variables, given=names, until=self._until)

            _ = ask("read-tree", head or "--empty")
            if found.removed:
                _ = ask("update-index", "--force-remove", "-z", "--stdin", given=found.removed)
            if found.taken:
                _ = ask("update-index", "--add", "--remove", "--replace", "-z", "--stdin", given=found.taken)
            tree = ask("write-tree").decode().strip()
        return Kept(tree if is_hash(tree) else None, "", tuple(found.left_out))

    def of_commit(self, top: str, commit: str | None, off: Mapping[str, str] | None = None) -> str:
        """The tree of a commit; the empty one where there is no commit. Raises GitUnknown, OSError."""
        question = (
            ["hash-object", "-w", "-t", "tree", "/dev/null"] if commit is None else ["rev-parse", f"{commit}^{{tree}}"]
        )
        return self._git.answer(top, question, off, until=self._until).decode().strip()

    def known(self, top: str, names: Sequence[str], which: str, commits: Collection[str]) -> Known:
        """The trees that these names have already, and those of these commits, by one question. Raises GitUnknown, OSError."""
        keys = [*(f"{REFS}/{name}/{which}" for name in names), *(f"{commit}^{{tree}}" for commit in commits)]
        given = "".join(f"{key}\n" for key in keys).encode()
        raw = self._git.answer(
            top, ["cat-file", "--batch-check=%(objecttype) %(objectname)"], given=given, until=self._until
        )
        found = [
            line.removeprefix("tree ") if line.startswith("tree ") else None
            for line in raw.decode("utf-8", "replace").splitlines()
        ]
        trees = dict(zip([*names, *commits], found, strict=True))
        return Known(*({key: tree for key in keys if (tree := trees[key])} for keys in (names, commits)))

    def name(self, top: str, trees: Mapping[tuple[str, str], str], off: Mapping[str, str] | None = None) -> None:
        """Keep trees under their names; keys are the name and `before` or `after`. Doing so again is harmless. `off`: as for `of_checkout`.

        Raises GitUnknown, OSError.
        """
        orders = "".join(f"update {REFS}/{name}/{which} {tree}\n" for (name, which), tree in trees.items())
        crashpoint("trees.name.before")
        _ = self._git.answer(
            top,
            [*_OWN_INDEX, "update-ref", "--stdin"],
            self._git.unfiltered(top) if off is None else off,
            given=orders.encode(),
            until=self._until,
        )
        crashpoint("trees.name.after")

    def forget(self, repository: str, names: Sequence[str]) -> None:
        """Take these names away; what is not there is gone already. Raises GitUnknown, OSError."""
        wanted = [f"{REFS}/{name}/{which}" for name in names for which in ("before", "after")]
        place = {"GIT_DIR": repository}
        found = self._git.answer(repository, ["for-each-ref", "--format=%(refname)", *wanted], place, until=self._until)
        orders = b"".join(b"delete " + ref + b"\n" for ref in found.splitlines() if ref.decode() in wanted)
        if not orders:
            return
        variables = {**self._git.unfiltered(repository), **place}
        crashpoint("trees.forget.before")
        _ = self._git.answer(repository, ["update-ref", "--stdin"], variables, given=orders, until=self._until)
        crashpoint("trees.forget.after")

    def compare(self, top: str, base: str, tip: str, off: Mapping[str, str] | None = None) -> list[FileChange]:
        """What differs between two trees, with the number of lines, in the order of the paths. `off`: as for `of_checkout`. Raises GitUnknown, OSError."""
        question = [
            "diff-tree",
            "-r",
            "-z",
            "-M",
            _RENAMES,
            "--raw",
            "--numstat",
            *DIFF_OFF,
            "--ignore-submodules=none",
        ]
        variables = self._git.unfiltered(top) if off is None else off
        raw = self._git.answer(
            top, ["-c", "core.bigFileThreshold=50m", *question, base, tip], variables, until=self._until
        )
        return sorted(parse_differences(raw), key=lambda file: os.fsencode(file.path))


def _sorted(top: str, dirty: Sequence[str]) -> _Sorted:
    """Sort paths by what is there now."""
    found, left = _Sorted([], [], []), KEPT_IN_ALL
    for path in dirty:
        if path.endswith("/"):
            found.left_out.append(path)  # a repository of its own
            continue
        try:
            status = Path(top, path).lstat()
        except (FileNotFoundError, NotADirectoryError):
            found.removed.append(path)
            continue
        if stat.S_ISDIR(status.st_mode):
            found.removed.append(path)  # what it holds has paths of its own
        elif (
            stat.S_IFMT(status.st_mode) not in _KEPT_KINDS
            or status.st_size > min(KEPT_UP_TO, left)
            or not (stat.S_ISLNK(status.st_mode) or os.access(Path(top, path), os.R_OK))
        ):
            found.left_out.append(path)
        else:
            left -= status.st_size
            found.taken.append(path)
    return found


def parse_differences(raw: bytes) -> list[FileChange]:
    """Parse what `git diff-tree -z --raw --numstat` prints. Raises ValueError."""
    fields = iter(raw.split(b"\0"))
    words: dict[str, tuple[str, str | None]] = {}
    lines: dict[str, tuple[int | None, int | None]] = {}
    for field in fields:
        if field.startswith(b":"):
            letter = field.rsplit(b" ", 1)[-1][:1].decode()
            first = os.fsdecode(next(fields))
            path, old = (os.fsdecode(next(fields)), first) if letter in {"R", "C"} else (first, None)
            words[path] = (_WORDS.get(letter, "modified"), old)
        elif field:
            added, deleted, name = field.split(b"\t", 2)
            path = os.fsdecode(name)
            if not name:  # renamed: the old name, then the new one
                _ = next(fields)
                path = os.fsdecode(next(fields))
            lines[path] = (None, None) if added == b"-" else (int(added), int(deleted))
    return [
        FileChange(
            path=path,
            change=word,
            old=old,
            insertions=lines.get(path, (None, None))[0],
            deletions=lines.get(path, (None, None))[1],
            is_binary=path in lines and lines[path][0] is None,
        )
        for path, (word, old) in words.items()
    ]
