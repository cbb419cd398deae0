"""Worktrees of tasks: planned at hand-over, made before a launch, looked at when a task has ended."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.domain.worktree import Worktree, WorktreeSeen


class Start(NamedTuple):
    """Where a worktree would start, as it was found at hand-over."""

    source: str
    """The top of the checkout, without symlinks."""
    repository: str
    """The directory that all checkouts of the repository share."""
    identity: tuple[int, int, int | None]
    """Device, inode and generation of that directory."""
    base: str
    """The commit, by its whole id."""
    base_name: str
    """What people call it."""
    below: str
    """Where in the checkout the working directory is; empty: at its top."""
    notes: tuple[str, ...] = ()
    """What a person should know before it is made, in sentences."""
    uncommitted: int = 0
    """How many paths of the checkout differ from its commit, or are not tracked."""
    copies: str = ""
    """The patterns of its `.worktreeinclude`; empty: it has none."""


class Made(NamedTuple):
    """What came of making a worktree."""

    place: WorkingDirectory | None = None
    """Its top as it is now; None: it was not made."""
    problem: str = ""
    """Why not, in a sentence."""
    passing: bool = False
    """Another try may succeed without a person."""


class Kept(NamedTuple):
    """A worktree that was found on the disk."""

    task_id: str
    tree: Worktree


class Worktrees(Protocol):
    """Makes worktrees and looks at them. Hooks, file system monitors and the repository's own filters are off in all that it runs."""

    def place_for(self, name: str) -> str:
        """The directory of a worktree of that name, which may not exist yet."""
        ...

    def start(self, cwd: str, base: str | None, branch: str | None) -> Start:
        """Where a worktree for a task in `cwd` would start; `base` None: at what is checked out. Changes nothing.

        Raises:
            BadTask: there is no repository or no such commit, or the branch cannot be made.
        """
        ...

    def capture(self, source: str, base: str) -> str:
        """The files of a checkout as they are now, as a tree of its repository. Its index, its branches and its files stay as they are.

        Raises:
            BadTask: another commit than `base` is checked out there, or something cannot be taken along; names it.
        """
        ...

    def keep(self, tree: Worktree, owner: str) -> str:
        """Name what the worktree begins with, so that git does not remove it. Doing so again is harmless; `make` does it, too.

        Returns why that failed, in a sentence; empty: it is named, or there is nothing to name. Never raises.
        """
        ...

    def drop(self, tree: Worktree, owner: str) -> str:
        """Take that name away. Returns why that failed; empty: it is gone. Never raises."""
        ...

    def make(self, tree: Worktree, owner: str) -> Made:
        """Make a planned worktree for the task `owner`, or complete one that was begun. Never raises."""
        ...

    def look(self, tree: Worktree, owner: str, *, sized: bool = False) -> WorktreeSeen:
        """What a removal would lose; with `sized` what it takes on the disk, too. Never raises."""
        ...

    def scratch_for(self, name: str) -> str:
        """The scratch directory of that name, which may not exist yet."""
        ...

    def make_scratch(self, path: str) -> str:
        """Make a scratch directory, unless it is there.

        Returns why it cannot be made, in a sentence; empty: it is there. Never raises.
        """
        ...

    def in_scratch(self, path: str) -> Sequence[str]:
        """What a scratch directory holds, by name, in order; nothing if it is gone. Raises OSError."""
        ...

    def remove_scratch(self, path: str) -> None:
        """Remove a scratch directory that is empty; it may be gone already. Raises OSError."""
        ...

    def kept(self) -> Sequence[Kept]:
        """Every worktree that is there, by the name of its directory. Never raises."""
        ...
