"""Merging a task's branch: what is on record of it, and into which branch it goes.

    begun ──▶ conflicts ──(--continue)──▶ landing ──▶ merged
      │           │                          │
      └───────────┴──── ended ◀──────────────┘   the branch was not touched

The right to move the branch is on record (`landing`) before it moves (R1). After a crash the next command asks git where the branch is, so it records the
merge, moves the branch, or gives the merge up.
"""

from dataclasses import dataclass
from enum import StrEnum

SHORT = 10
"""Characters of a commit's id that people read."""


class MergeState(StrEnum):
    """A step of a merge."""

    BEGUN = "begun"
    """The commits are replayed and checked in a directory of their own."""
    CONFLICTS = "conflicts"
    """A person resolves conflicts in that directory."""
    LANDING = "landing"
    """The right to move the branch is taken."""
    MERGED = "merged"
    """The branch has the commits."""
    ENDED = "ended"
    """The merge was given up, and the branch was not touched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """A merge that has begun and has not ended."""

    state: MergeState
    into: str
    """The branch that gets the commits."""
    source: str
    """The commit of the task's branch."""
    by: str
    squash: bool = False
    """Into one commit."""
    was: str = ""
    """The commit that the branch is at; empty before `landing`."""
    tip: str = ""
    """The commit that the branch gets; empty before `landing`."""
    onto: str = ""
    """The commit that the commits are replayed on."""
    resolved: bool = False
    """A person has resolved conflicts in it, so what was replayed is kept until it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The newest merge that ended well."""

    into: str
    source: str
    """The commit of the task's branch, before it was replayed."""
    tip: str
    """The commit that the branch got."""
    by: str


_BEFORE: dict[MergeState, frozenset[MergeState | None]] = {
    MergeState.BEGUN: frozenset({None, MergeState.BEGUN, MergeState.CONFLICTS, MergeState.LANDING}),
    MergeState.CONFLICTS: frozenset({MergeState.BEGUN, MergeState.CONFLICTS, MergeState.LANDING}),
    MergeState.LANDING: frozenset({MergeState.BEGUN, MergeState.CONFLICTS, MergeState.LANDING}),
    MergeState.MERGED: frozenset({MergeState.BEGUN, MergeState.CONFLICTS, MergeState.LANDING}),
    MergeState.ENDED: frozenset({MergeState.BEGUN, MergeState.CONFLICTS, MergeState.LANDING}),
}
"""By a step, what must be on record before it."""


def follows(became: MergeState, before: MergeState | None) -> bool:
    """Whether a step may follow what is on record."""
    return before in _BEFORE[became]


def target_of(*, wished: str | None, base_name: str, current: str | None, branches: frozenset[str]) -> str | None:
    """The branch to merge into; None: a person has to name one.

    Args:
        wished: what the person named.
        base_name: what the task's branch started at, as it was called.
        current: what is checked out where the task was handed over.
        branches: every branch of the repository.
    """
    if wished is not None:
        return wished
    return base_name if base_name in branches else current


def described(merged: Merged) -> str:
    """A merge in words, for lists."""
    return f"merged into {merged.into} at {merged.tip[:SHORT]}"


def unfinished(task_id: str, merge: Merge) -> tuple[str, str]:
    """A merge that has not ended in words, and what a person does about it."""
    match merge.state:
        case MergeState.CONFLICTS:
            return (
                f"its merge into {merge.into} waits for conflicts to be resolved",
                f"`wk merge {task_id} --continue` continues it, `wk merge {task_id} --abort` gives it up.",
            )
        case MergeState.LANDING:
            return (
                f"its merge into {merge.into} was cut off before its end was recorded",
                f"`wk merge {task_id}` completes it.",
            )
        case _:
            return (
                f"its merge into {merge.into} has begun and not ended",
                f"`wk merge {task_id}` begins it again, `wk merge {task_id} --abort` gives it up.",
            )
