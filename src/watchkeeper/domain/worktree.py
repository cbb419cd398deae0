"""A git worktree of a task's own: where it is planned, what was made, and what stands against removing it.

The task's spec holds the plan from the moment of the hand-over: directory, branch, commit, repository. So the intent is committed before anything is made
(R1), and a crash between the making and its record leaves a plan that is compared with what git shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from watchkeeper.domain.merge import Merge, Merged
from watchkeeper.domain.working_directory import WorkingDirectory

PREFIX = "wk"
"""The first part of the name of a branch that a person does not name."""

_SLUG = 32
_SHOWN = 3
"""So many paths are named."""


class WorktreeState(StrEnum):
    """Where a task's worktree stands."""

    PLANNED = "planned"
    """Not on record as made. Once a run was reserved, it may be there in part."""
    MADE = "made"
    REMOVING = "removing"
    """The right to remove it is taken."""
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worktree:
    """A worktree of one task."""

    path: str
    """Its top, absolute."""
    branch: str
    """The branch that is made with it, as people name it."""
    base: str
    """The commit that the branch starts at."""
    base_name: str
    """What the person called that commit, or the branch of the checkout."""
    source: str
    """The top of the checkout that the task was handed over from."""
    repository: str
    """The directory that all checkouts of the repository share."""
    identity: tuple[int, int, int | None]
    """Device, inode and generation of that directory."""
    begins_with: str | None = None
    """The tree that it begins with: the commit with the uncommitted changes that the person includes. None: the commit alone."""
    copies: str = ""
    """Patterns of the ignored files that are copied from the checkout, as its `.worktreeinclude` had them at hand-over."""
    state: WorktreeState = WorktreeState.PLANNED
    made: WorkingDirectory | None = None
    """The task's working directory in it, as it was when it was made."""
    merge: Merge | None = None
    """The merge of its branch that has begun and has not ended."""
    merged: Merged | None = None
    """The newest merge of its branch that ended well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorktreeSeen:
    """One look at a worktree, before it is removed."""

    problem: str = ""
    """Why nothing more can be said of it, in a sentence; empty if it can."""
    present: bool = False
    """The directory is there."""
    branch: str | None = None
    """What is checked out there; None: a commit without a branch, or nothing."""
    changed: tuple[str, ...] = ()
    """Paths that differ from the commit, or are not tracked."""
    ignored: tuple[str, ...] = ()
    """Paths that git ignores, and that are there."""
    hidden: tuple[str, ...] = ()
    """Paths that git was told not to compare, so that changes in them stay unseen."""
    commits: int = 0
    """Commits that are reachable from its branch, its HEAD or their reflogs, and from no other branch or tag."""
    size_bytes: int | None = None
    """What it takes on the disk; None: not counted."""


def slug(title: str) -> str:
    """A few words of a title, fit for the names of files and branches; empty if it has none."""
    letters = "".join(letter if letter.isascii() and letter.isalnum() else " " for letter in title.lower())
    text = ""
    for word in letters.split():
        if len(text) + len(word) > _SLUG:
            break
        text = f"{text}-{word}" if text else word
    return text


def name_of(task_id: str, title: str) -> str:
    """What the worktree of a task is called."""
    words = slug(title)
    return f"{task_id}-{words}" if words else task_id


def obstacles(tree: Worktree, seen: WorktreeSeen) -> tuple[str, ...]:
    """What would be lost if the worktree were removed, each as a part of a sentence; empty: nothing."""
    if seen.problem:
        return (seen.problem.rstrip("."),)
    found: list[str] = []
    if tree.merge is not None:
        found.append(f"a merge into {tree.merge.into} that has not ended")
    if seen.changed:
        found.append(f"{_counted(seen.changed, 'uncommitted change')} in {tree.path} ({_named(seen.changed)})")
    if seen.hidden:
        found.append(f"{_counted(seen.hidden, 'path')} there that git does not compare ({_named(seen.hidden)})")
    if seen.ignored:
        found.append(f"{_counted(seen.ignored, 'ignored path')} in {tree.path} ({_named(seen.ignored)})")
    if seen.commits:
        commits = "1 commit" if seen.commits == 1 else f"{seen.commits} commits"
        found.append(f"{commits} of {tree.branch} that no other branch or tag has")
    return tuple(found)


def advice(tree: Worktree, seen: WorktreeSeen) -> str:
    """What a person does about the obstacles."""
    if seen.problem:
        return f"Look at {tree.path}; --keep-worktree leaves it as it is."
    parts: list[str] = []
    if tree.merge is not None:
        parts.append("end the merge (`wk merge ID --continue` or `--abort`)")
    if seen.changed or seen.hidden:
        parts.append("commit or delete the changes")
    if seen.ignored:
        parts.append("delete the ignored files (`git clean -Xdi` there)")
    if seen.commits:
        parts.append(f"merge (`wk merge`) or push {tree.branch}")
    return f"First {', '.join(parts)}; or --discard removes it, and `wk undo` brings it back." if parts else ""


def _counted(paths: Sequence[str], word: str) -> str:
    return f"1 {word}" if len(paths) == 1 else f"{len(paths)} {word}s"


def _named(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return f"{', '.join(paths[:_SHOWN])}{more}"
