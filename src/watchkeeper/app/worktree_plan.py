"""Whether a task gets a worktree of its own, and which: decided when it is handed over, and made before its agent starts."""

import os
from dataclasses import replace
from enum import Enum
from typing import Protocol

from watchkeeper.app.parts import Parts
from watchkeeper.domain.model import TaskSpec
from watchkeeper.domain.worktree import PREFIX, Worktree, name_of
from watchkeeper.errors import BadTask
from watchkeeper.ports.worktrees import Start
from watchkeeper.settings import Settings

WORDS = ("never", "auto", "always")
"""What the setting `run.worktree` may be."""


class Wishes(Protocol):
    """What a hand-over says about it."""

    @property
    def worktree(self) -> bool | None:
        """In a worktree, or expressly not; None: as the settings say."""
        ...

    @property
    def base(self) -> str | None:
        """The commit to start at; None: what is checked out."""
        ...

    @property
    def branch(self) -> str | None:
        """The branch to make; None: one is named after the task."""
        ...

    @property
    def include_changes(self) -> bool | None:
        """It begins with what is not committed."""
        ...

    @property
    def scratch(self) -> bool | None:
        """In an empty directory of its own."""
        ...

    @property
    def shared(self) -> bool | None:
        """It works beside others."""
        ...


class WorktreeChoice(Enum):
    """Where a task is to work."""

    CHECKOUT = "checkout"
    WORKTREE = "worktree"
    SCRATCH = "scratch"
    WORKTREE_IF_BUSY = "worktree if busy"
    """In a worktree if another task works in the checkout or waits for it. The transaction that adds the task decides."""


def wanted(parts: Parts, wishes: Wishes, settings: Settings, spec: TaskSpec) -> WorktreeChoice:
    """Where the task is to work.

    Raises:
        BadTask: the wishes contradict each other.
    """
    named = wishes.base is not None or wishes.branch is not None or bool(wishes.include_changes)
    if wishes.scratch:
        if named or wishes.shared or wishes.worktree is not None:
            raise BadTask(
                "--scratch contradicts every option that is for a checkout or a worktree.",
                hint="Leave --worktree, --here, --base, --branch, --include-changes and --shared away.",
            )
        if not _is_here(parts, spec):
            raise BadTask(
                "A scratch directory is made on this machine, and the task may run on another one.",
                hint="Leave --machine away.",
            )
        return WorktreeChoice.SCRATCH
    if wishes.worktree is False:
        if named:
            raise BadTask(
                "--here contradicts --base, --branch and --include-changes: they are for a worktree.",
                hint="Leave one of them out.",
            )
        return WorktreeChoice.CHECKOUT
    if wishes.worktree or named:
        if wishes.shared:
            raise BadTask("--shared and --worktree contradict each other.", hint="Leave one of them out.")
        if not _is_here(parts, spec):
            raise BadTask(
                "A worktree is made on this machine, and the task may run on another one.", hint="Leave --machine away."
            )
        return WorktreeChoice.WORKTREE
    if spec.checkout is None or not _is_here(parts, spec) or settings.run_worktree == "never":
        return WorktreeChoice.CHECKOUT
    return WorktreeChoice.WORKTREE if settings.run_worktree == "always" else WorktreeChoice.WORKTREE_IF_BUSY


def planned(parts: Parts, wishes: Wishes, spec: TaskSpec, task_id: str) -> tuple[TaskSpec, tuple[str, ...]]:
    """The task in a worktree of its own, and what a person should know of it, in sentences. Makes nothing.

    Raises:
        BadTask: there is no repository or no such commit, or the branch cannot be made.
        StateDirectoryUnusable: there is no place for it.
    """
    worktrees, name = parts.worktrees, name_of(task_id, spec.title)
    branch = wishes.branch or f"{PREFIX}/{name}"
    start = worktrees.start(spec.cwd, wishes.base, branch)
    path = worktrees.place_for(name)
    begins_with = None
    if wishes.include_changes and start.uncommitted:
        begins_with = worktrees.capture(start.source, start.base)
    tree = Worktree(
        path=path,
        branch=branch,
        base=start.base,
        base_name=start.base_name,
        source=start.source,
        repository=start.repository,
        identity=start.identity,
        begins_with=begins_with,
        copies=start.copies,
    )
    cwd = os.path.join(path, start.below) if start.below else path  # noqa: PTH118 - no look at the file system
    return replace(spec, cwd=cwd, checkout=path, worktree=tree), (*_said(wishes, start), *start.notes)


def _said(wishes: Wishes, start: Start) -> tuple[str, ...]:
    """What becomes of the uncommitted changes, in sentences."""
    if wishes.include_changes:
        return () if start.uncommitted else ("There is nothing uncommitted to include.",)
    if not start.uncommitted:
        return ()
    what = "1 uncommitted change stays" if start.uncommitted == 1 else f"{start.uncommitted} uncommitted changes stay"
    return (f"{what} in your checkout; --include-changes takes them along.",)


def in_scratch(parts: Parts, spec: TaskSpec, project: str | None, task_id: str) -> TaskSpec:
    """The task in an empty directory of its own. Makes nothing."""
    cwd = parts.worktrees.scratch_for(name_of(task_id, spec.title))
    return replace(spec, cwd=cwd, checkout=None, project=project or "", scratch=True)


def _is_here(parts: Parts, spec: TaskSpec) -> bool:
    return spec.machine == (parts.machine or None)
