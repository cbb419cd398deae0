"""Bringing the commits of a task's branch into another branch: replayed in a directory of its own, then by moving the branch and nothing else."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from watchkeeper.domain.worktree import Worktree


class Target(NamedTuple):
    """The branch that gets the commits."""

    branch: str
    commit: str
    checkouts: tuple[str, ...]
    """The directories that have it checked out."""


class Replayed(NamedTuple):
    """What came of replaying commits."""

    tip: str = ""
    """The newest of the new commits; empty: there are conflicts."""
    conflicts: tuple[str, ...] = ()
    """The files that conflict."""


class Landed(NamedTuple):
    """What came of moving a branch."""

    moved: bool = False
    """The branch is not where it was, so nothing was done."""
    problem: str = ""
    """Why nothing was done, in a sentence."""
    hint: str = ""
    """What to do about it."""


class CheckEnd(NamedTuple):
    """How a check ended."""

    problem: str = ""
    """Why it did not pass, as the rest of a sentence; empty: it passed."""


class Branches(Protocol):
    """The branches of a repository that agents can write to. Hooks, monitors and the repository's own filters and merge drivers never run."""

    def alone(self, tree: Worktree, task_id: str) -> AbstractContextManager[None]:
        """Let no second merge into the repository run meanwhile. Raises Refused, naming the one that runs."""
        ...

    def target(self, tree: Worktree, into: str | None) -> Target:
        """The branch to merge into. Raises Refused if the repository has no such branch."""
        ...

    def source(self, tree: Worktree, onto: str) -> str:
        """The commit of the task's branch. Raises Refused if the branch is gone, or shares no commit with `onto`."""
        ...

    def commit(self, tree: Worktree, message: str) -> None:
        """Commit all changes in the task's worktree, as the caller. Raises Refused."""
        ...

    def has(self, tree: Worktree, branch: str, commit: str) -> bool:
        """Whether a branch has a commit. Raises Refused."""
        ...

    def land(self, tree: Worktree, target: Target, tip: str, note: str) -> Landed:
        """Move the branch from the commit of `target` to `tip`, and the files where it is checked out. All of it or nothing; doing it again is harmless."""
        ...


class Replays(Protocol):
    """Replays commits in directories of their own, never in a person's."""

    def place_for(self, task_id: str) -> str:
        """The directory for the merges of a task."""
        ...

    def replay(self, tree: Worktree, place: str, *, source: str, upstream: str, onto: str) -> Replayed:
        """Replay the commits of `source` that `upstream` lacks on `onto`. What was left in the place is removed first. Raises Refused."""
        ...

    def again(self, tree: Worktree, place: str, *, upstream: str, onto: str) -> Replayed:
        """Replay on `onto` what was replayed there on `upstream`. Raises Refused."""
        ...

    def proceed(self, tree: Worktree, place: str) -> Replayed:
        """Continue after a person has resolved conflicts. Raises Refused."""
        ...

    def squash(self, tree: Worktree, place: str, *, onto: str, message: str) -> str:
        """Make one commit of all that were replayed, and return it. Raises Refused."""
        ...

    def discard(self, tree: Worktree, place: str) -> None:
        """Remove the directory. Raises Refused."""
        ...


class TipChecks(Protocol):
    """Runs the checks of a task at the commit that a branch is to get."""

    def log_for(self, task_id: str) -> str:
        """The file that takes what the checks of a task's merge print."""
        ...

    def run(
        self, task_id: str, command: str, directory: str, environ: Mapping[str, str], deadline_s: float
    ) -> CheckEnd:
        """Run one check to its end or to its deadline, in seconds. Nothing of it stays alive."""
        ...

    def end(self, task_id: str) -> Sequence[str]:
        """End what a merge that was cut off has left running, and name it."""
        ...
