"""Worktrees and changes in a repository of many files: `python benchmarks/large_repository.py [FILES ...]`.

For each number of files it makes a worktree, looks at it as before a launch, and settles runs that changed ten files, committed all of them, left all of them
changed, and changed again what they had committed. Prints seconds and the number of git processes of each.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from watchkeeper.domain.worktree import Worktree
from watchkeeper.workspaces.git import GitWorkspace
from watchkeeper.workspaces.git_program import GitProgram
from watchkeeper.workspaces.worktrees import GitWorktrees

SIZES = (1_000, 10_000, 100_000)
IN_A_DIRECTORY = 100
T = TypeVar("T")
FEW = 10
AGAIN = 2_000
"""Files that a run commits and changes again."""


def main() -> None:
    """Measure each size once."""
    print(f"{'files':>8}  {'what':<44} {'s':>7} {'git':>5}")
    for count in map(int, sys.argv[1:]) if sys.argv[1:] else SIZES:
        root = Path(tempfile.mkdtemp(prefix="wk-large-"))
        try:
            _measure(root, count)
        finally:
            shutil.rmtree(root)


def _measure(root: Path, count: int) -> None:
    repository = root / "repository"
    _ = _git(root, "init", "-q", str(repository))
    _ = _git(repository, "fast-import", "--quiet", given=b"".join(_stream(count)))
    trees, workspace = GitWorktrees(root / "worktrees"), GitWorkspace()
    begin = trees.start(str(repository), "refs/heads/main", None)
    tree = Worktree(
        path=trees.place_for("one"), branch="wk/one", base=begin.base, base_name=begin.base_name, source=begin.source,
        repository=begin.repository, identity=begin.identity,
    )  # fmt: skip
    made = _timed(count, "make a worktree", lambda: trees.make(tree, "one"))
    _require(not made.problem, made.problem)
    top, names = Path(tree.path), [_name(number) for number in range(count)]

    def settled(what: str, number: int, before: dict[str, object], files: int) -> None:
        found = _timed(count, what, lambda: workspace.changes(tree.path, before, f"run{number}"))
        _require(found.known, found.why_unknown)
        _require(len(found.files) == min(files, 5000), f"{len(found.files)} files")
        if found.not_kept:
            print(f"{'':>8}  not kept: {found.not_kept}")

    def surveyed(what: str, number: int) -> dict[str, object]:
        return dict(_timed(count, what, lambda: workspace.survey(tree.path, f"run{number}")).before)

    before = surveyed("look before a launch, clean", 1)
    settled("settle, nothing changed", 1, before, 0)
    _write(top, names[:FEW], "few")
    settled(f"settle, {FEW} files changed", 1, before, FEW)
    before = surveyed(f"look before a launch, {FEW} files changed", 2)
    _commit(top)
    settled(f"settle, {FEW} files committed as they were", 2, before, 0)
    before = surveyed("look before a launch, clean", 3)
    _write(top, names, "all")
    settled("settle, all files changed", 3, before, count)
    _commit(top)
    settled("settle, all files committed", 4, before, count)
    before, again = surveyed("look before a launch, clean", 5), min(AGAIN, count)
    _write(top, names[:again], "committed")
    _commit(top)
    _write(top, names[:again], "again")
    settled(f"settle, {again} files committed and changed again", 5, before, again)


def _timed(count: int, what: str, work: Callable[[], T]) -> T:
    asked, ask = 0, GitProgram.ask

    def counted(*args: object, **more: object) -> object:
        nonlocal asked
        asked += 1
        return ask(*args, **more)  # pyright: ignore[reportArgumentType] - as it was called

    GitProgram.ask = counted  # pyright: ignore[reportAttributeAccessIssue] - for this measurement alone
    begin = time.perf_counter()
    try:
        return work()
    finally:
        print(f"{count:>8}  {what:<44} {time.perf_counter() - begin:>7.2f} {asked:>5}", flush=True)
        GitProgram.ask = ask


def _require(true: bool, problem: str) -> None:  # noqa: FBT001 - a condition
    if not true:
        sys.exit(problem)


def _stream(count: int) -> Iterator[bytes]:
    """One commit of so many files of a hundred lines each, for `git fast-import`."""
    yield b"commit refs/heads/main\ncommitter b <b@example.org> 1700000000 +0000\ndata 5\nBegin\n"
    for number in range(count):
        content = _content(_name(number), "begin")
        yield f"M 100644 inline {_name(number)}\ndata {len(content)}\n".encode() + content + b"\n"


def _name(number: int) -> str:
    return f"part-{number // IN_A_DIRECTORY:04}/file-{number:06}.txt"


def _content(name: str, word: str) -> bytes:
    return (f"{name} {word}\n" + "a line of text that does not change\n" * 30).encode()


def _write(top: Path, names: list[str], word: str) -> None:
    for name in names:
        _ = (top / name).write_bytes(_content(name, word))


def _commit(top: Path) -> None:
    _ = _git(top, "add", ".")
    _ = _git(top, "commit", "-qm", "Work")


def _git(at: Path, *arguments: str, given: bytes | None = None) -> bytes:
    command = ["git", "-C", str(at), "-c", "user.name=b", "-c", "user.email=b@example.org", "-c", "gc.auto=0"]
    return subprocess.run([*command, *arguments], check=True, input=given, capture_output=True).stdout


if __name__ == "__main__":
    main()
