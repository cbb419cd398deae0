"""Moving a branch to a commit that has its own among its ancestors, together with the files where it is checked out.

    git update-ref: start, update NEW OLD, prepare ─▶ the branch is locked ─▶ git read-tree -m -u OLD NEW in the checkout ─▶ commit

While the branch is locked nothing else moves it, so both change or none of them: the move is aborted if git refuses the files. If this process dies
between, git drops the lock and the files are ahead of the branch; doing it again finds them so, and moves the branch. Files that differ from the old commit
and that the move would change are named, and nothing is done; those that have the new content already are taken as they are.
"""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

from watchkeeper.crash import crashpoint
from watchkeeper.domain.worktree import Worktree
from watchkeeper.ports.integration import Landed, Target
from watchkeeper.workspaces.git_program import DIFF_OFF, GitUnknown
from watchkeeper.workspaces.plain import storable
from watchkeeper.workspaces.quiet import OPTIONS, QuietGit
from watchkeeper.workspaces.status import status_of
from watchkeeper.workspaces.trees import Trees

_HEADS = "refs/heads/"
_NAMED = 5
_BUSY = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
}
_DIFF_TREE = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--ignore-submodules=none", *DIFF_OFF)


class _Files(NamedTuple):
    """The files of one checkout that the move would change, where they differ from its commit."""

    in_the_way: list[str]
    moved_already: list[str]
    """They have the new content."""


class Landing:
    """One move of one branch."""

    def __init__(self, git: QuietGit, tree: Worktree, target: Target, tip: str) -> None:
        """Do nothing yet."""
        self._git = git
        self._tree = tree
        self._target = target
        self._tip = tip

    def land(self, note: str) -> Landed:
        """Move it. Raises GitUnknown, OSError."""
        found: dict[str, _Files] = {}
        for top in self._target.checkouts:
            refusal, files = self._look(top)
            if refusal is not None:
                return refusal
            found[top] = files
        for top, files in found.items():
            self._take(top, files.moved_already)
        return self._move(note)

    def _look(self, top: str) -> tuple[Landed | None, _Files]:
        nothing = _Files([], [])
        own = self._git.git.line(top, "rev-parse", "--absolute-git-dir")
        for name, word in _BUSY.items():
            if own is not None and Path(own, name).exists():
                hint = f"End it there (`git {word} --continue` or `--abort`), then type it again."
                return Landed(problem=f"A {word} is under way in {top}, so nothing was merged.", hint=hint), nothing
        if own is not None and Path(own, "index.lock").exists():
            problem = f"{top} is locked: {Path(own, 'index.lock')} is there, so nothing was merged."
            return Landed(problem=problem, hint="If no git works there, delete that file and type it again."), nothing
        files = self._files(top)
        if files.in_the_way:
            more = f" and {len(files.in_the_way) - _NAMED} more" if len(files.in_the_way) > _NAMED else ""
            names = ", ".join(storable(path) for path in files.in_the_way[:_NAMED])
            problem = f"Uncommitted changes in {top} are in the way of the merge: {names}{more}."
            return Landed(problem=problem, hint="Commit or stash them there, then type it again."), files
        return None, files

    def _files(self, top: str) -> _Files:
        """Sort what differs there from the commit and would change, too."""
        status = status_of(self._git.git, top, self._tree.repository)
        raw = self._git.say(top, *_DIFF_TREE, self._target.commit, self._tip)
        changed = {os.fsdecode(path) for path in raw.split(b"\0") if path}
        dirty = [path for path in status.dirty if path in changed]
        if not dirty:
            return _Files([], [])
        kept = Trees(self._git.git).of_checkout(top, status.head, dirty)
        if kept.tree is None:
            raise GitUnknown(kept.why_not or f"The files in {top} could not be read.")
        raw = self._git.say(top, *_DIFF_TREE, kept.tree, self._tip)
        other = {os.fsdecode(path) for path in raw.split(b"\0") if path} | set(kept.left_out)
        staged = self._staged(top, self._target.commit) & self._staged(top, self._tip)
        in_the_way = sorted(path for path in dirty if path in other or path in staged)
        return _Files(in_the_way, [path for path in dirty if path not in in_the_way])

    def _staged(self, top: str, commit: str) -> set[str]:
        """Paths at which the index differs from a commit."""
        raw = self._git.say(top, "diff-index", "--cached", "-z", "--name-only", "--no-renames", *DIFF_OFF, commit)
        return {os.fsdecode(path) for path in raw.split(b"\0") if path}

    def _take(self, top: str, paths: Sequence[str]) -> None:
        """Put files that have the new content already into the index."""
        if paths:
            given = b"".join(os.fsencode(path) + b"\0" for path in paths)
            _ = self._git.say(top, "update-index", "--add", "--remove", "--replace", "-z", "--stdin", given=given)

    def _move(self, note: str) -> Landed:
        with tempfile.TemporaryFile() as complaints:
            process = self._start(note, complaints)
            try:
                return self._ordered(process, complaints)
            finally:
                for pipe in (process.stdin, process.stdout):
                    if pipe is not None:
                        pipe.close()
                _ = process.wait()  # without its input it ends, and what is not committed is dropped

    def _start(self, note: str, complaints: "IO[bytes]") -> "subprocess.Popen[bytes]":
        top = self._target.checkouts[0] if self._target.checkouts else None
        arguments, variables = self._git.git.command((*OPTIONS, "update-ref", "--create-reflog", "-m", note, "--stdin"))
        variables |= self._git.variables(top or self._tree.repository, None if top else self._tree)
        place = {} if top else {"GIT_DIR": self._tree.repository}
        crashpoint("merge.lock.before")
        return subprocess.Popen(
            arguments,
            cwd=top or self._tree.repository,
            env={**variables, **place},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
        )

    def _ordered(self, process: "subprocess.Popen[bytes]", complaints: "IO[bytes]") -> Landed:
        update = f"update {_HEADS}{self._target.branch} {self._tip} {self._target.commit}"
        if not _asked(process, "start", update, "prepare"):
            return self._refused(process, complaints)
        crashpoint("merge.lock.after")
        if problem := self._bring_along():
            _ = _asked(process, "abort")
            return problem
        crashpoint("merge.move.before")
        if not _asked(process, "commit"):
            return self._refused(process, complaints)
        crashpoint("merge.move.after")
        return Landed()

    def _bring_along(self) -> Landed | None:
        """Change the files where the branch is checked out; why not, if git refuses."""
        for top in self._target.checkouts:
            _ = self._git.ask(top, "update-index", "-q", "--refresh")  # its answer only says that files differ
            crashpoint("merge.files.before")
            code, _, complaint = self._git.ask(top, "read-tree", "-m", "-u", self._target.commit, self._tip)
            crashpoint("merge.files.after")
            if code:
                detail = complaint.removeprefix("error: ").removeprefix("fatal: ").rstrip(".")
                return Landed(
                    problem=f"The files in {top} could not be changed: {detail}.", hint="The branch was not moved."
                )
        return None

    def _refused(self, process: "subprocess.Popen[bytes]", complaints: "IO[bytes]") -> Landed:
        _ = process.wait()
        complaints.seek(0)
        text = complaints.read(2000).decode("utf-8", "replace").strip().splitlines()
        if self._now() != self._target.commit:
            return Landed(moved=True)
        detail = text[0].removeprefix("fatal: ").rstrip(".") if text else "git did not say why"
        return Landed(
            problem=f"The branch {self._target.branch} could not be moved: {detail}.", hint="Nothing was merged."
        )

    def _now(self) -> str:
        _, raw, _ = self._git.of_repository(
            self._tree, "rev-parse", "--verify", "--quiet", _HEADS + self._target.branch
        )
        return raw.decode("ascii", "replace").strip()


def _asked(process: "subprocess.Popen[bytes]", *orders: str) -> bool:
    """Give orders to git, and read whether it has carried out each that it answers."""
    if process.stdin is None or process.stdout is None:
        raise GitUnknown("git has no input.")
    try:
        process.stdin.write("".join(f"{order}\n" for order in orders).encode())
        process.stdin.flush()
    except BrokenPipeError:
        return False
    answered = [order for order in orders if " " not in order]
    return all(process.stdout.readline().decode("ascii", "replace").strip() == f"{order}: ok" for order in answered)
