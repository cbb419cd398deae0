"""The branches of a repository: where a task's commits go, and the lock by which one merge at a time runs in a repository.

The lock is on a file in the directory that all checkouts share, so it holds for every state directory and user; the kernel drops it however its holder dies.
"""

import os
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from watchkeeper.crash import crashpoint
from watchkeeper.domain.merge import target_of
from watchkeeper.domain.plain_text import clean
from watchkeeper.domain.worktree import Worktree
from watchkeeper.errors import Refused
from watchkeeper.flock import try_lock
from watchkeeper.ports.integration import Landed, Target
from watchkeeper.workspaces.git_program import GitUnknown
from watchkeeper.workspaces.landing import Landing
from watchkeeper.workspaces.quiet import TIMEOUT_S, QuietGit
from watchkeeper.workspaces.replay import why

LOCK = "watchkeeper-merge.lock"
_HEADS = "refs/heads/"
_MOST = 200


class GitBranches:
    """The port's `Branches`."""

    def __init__(self, environ: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S) -> None:
        """`environ`: the caller's, whose name the commits get."""
        self._git = QuietGit(environ, timeout_s)

    @contextmanager
    def alone(self, tree: Worktree, task_id: str) -> Generator[None]:
        """Let no second merge into the repository run meanwhile. Raises Refused."""
        path = Path(tree.repository, LOCK)
        try:
            self._git.require(tree)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        except (GitUnknown, OSError) as error:
            raise Refused(
                f"No merge can begin in {tree.repository}: {why(error)}", hint="Nothing was changed."
            ) from error
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise Refused(
                    f"{path} is not a regular file, so no merge can begin.", hint="Look at it, and delete it."
                )
            if not try_lock(fd):
                holder = clean(os.pread(fd, _MOST, 0).decode("utf-8", "replace").strip()) or "another process"
                raise Refused(
                    f"A merge into this repository is under way: {holder}.", hint="Type it again when that has ended."
                )
            os.ftruncate(fd, 0)
            _ = os.pwrite(fd, f"task {task_id}, process {os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(fd)

    def target(self, tree: Worktree, into: str | None) -> Target:
        """The branch to merge into. Raises Refused."""
        with self._said("The branch to merge into cannot be found"):
            raw = self._say(tree, "for-each-ref", "--format=%(objectname) %(refname)", _HEADS)
            pairs = (line.split(" ", 1) for line in raw.decode("utf-8", "replace").splitlines())
            branches = {name.removeprefix(_HEADS): commit for commit, name in pairs}
            current = self._current(tree)
            chosen = target_of(wished=into, base_name=tree.base_name, current=current, branches=frozenset(branches))
            if chosen is None:
                raise Refused(
                    f"No branch is checked out in {tree.source}, so it is not known where to merge.",
                    hint="Name the branch with --into.",
                )
            if chosen == tree.branch:
                raise Refused(f"'{clean(chosen)}' is the task's own branch.", hint="Name another branch with --into.")
            if chosen not in branches:
                raise Refused(
                    f"There is no branch '{clean(chosen)[:_MOST]}'.", hint="`git branch` lists them; --into names one."
                )
            return Target(chosen, branches[chosen], self._checkouts(tree, chosen))

    def _current(self, tree: Worktree) -> str | None:
        """The branch that is checked out where the task was handed over."""
        if not Path(tree.source).is_dir():
            return None
        ref = self._git.git.line(tree.source, "symbolic-ref", "--quiet", "HEAD")
        return None if ref is None else ref.removeprefix(_HEADS)

    def _checkouts(self, tree: Worktree, branch: str) -> tuple[str, ...]:
        """The directories that have a branch checked out, and that are there."""
        found: list[str] = []
        for block in self._say(tree, "worktree", "list", "--porcelain", "-z").split(b"\0\0"):
            lines = [os.fsdecode(line) for line in block.split(b"\0")]
            if f"branch {_HEADS}{branch}" in lines and "bare" not in lines:
                found += [line.removeprefix("worktree ") for line in lines if line.startswith("worktree ")]
        return tuple(path for path in found if Path(path, ".git").exists())

    def source(self, tree: Worktree, onto: str) -> str:
        """The commit of the task's branch. Raises Refused."""
        with self._said("The task's branch cannot be read"):
            ask = partial(self._git.of_repository, tree)
            code, raw, _ = ask("rev-parse", "--verify", "--quiet", f"{_HEADS}{tree.branch}^{{commit}}")
            if code:
                raise Refused(
                    f"The task's branch {tree.branch} is not there any more.",
                    hint=f"`git branch {tree.branch} COMMIT` brings it back; `git fsck --lost-found` finds commits.",
                )
            commit = raw.decode("ascii").strip()
            if ask("merge-base", commit, onto)[0]:
                raise Refused(
                    f"{tree.branch} and the branch to merge into have no commit in common.",
                    hint="Name another branch with --into.",
                )
            return commit

    def commit(self, tree: Worktree, message: str) -> None:
        """Commit all changes in the task's worktree. Raises Refused."""
        with self._said(f"The changes in {tree.path} could not be committed"):
            if needed := self._git.filter_needed(tree.path, tree.repository):
                raise GitUnknown(f"files need the filter '{needed}', which the repository's own configuration names.")
            crashpoint("merge.commit.before")
            _ = self._git.say(tree.path, "add", "--all")
            _ = self._git.say(
                tree.path, "commit", "--quiet", "--no-verify", "--no-gpg-sign", "-F", "-", given=message.encode()
            )
            crashpoint("merge.commit.after")

    def has(self, tree: Worktree, branch: str, commit: str) -> bool:
        """Whether a branch has a commit. Raises Refused."""
        with self._said(f"The branch {branch} cannot be read"):
            return self._git.of_repository(tree, "merge-base", "--is-ancestor", commit, _HEADS + branch)[0] == 0

    def land(self, tree: Worktree, target: Target, tip: str, note: str) -> Landed:
        """Move the branch, and the files where it is checked out."""
        try:
            self._git.require(tree)
            return Landing(self._git, tree, target, tip).land(note)
        except (GitUnknown, OSError, ValueError) as error:
            return Landed(
                problem=f"The branch {target.branch} could not be moved: {why(error)}", hint="Nothing was merged."
            )

    def _say(self, tree: Worktree, *arguments: str) -> bytes:
        code, raw, complaint = self._git.of_repository(tree, *arguments)
        if code:
            raise GitUnknown(complaint)
        return raw

    @contextmanager
    def _said(self, what: str) -> Generator[None]:
        try:
            yield
        except (GitUnknown, OSError, ValueError) as error:
            raise Refused(f"{what}: {why(error)}", hint="Nothing was merged, and nothing is lost.") from error
