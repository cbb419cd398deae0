"""What is kept of a worktree before it is removed, so that `wk undo` can bring it back: its record, and the rules about it.

    saving ──everything is kept──▶ saved ──the worktree is out of its place──▶ gone ──undo──▶ restoring ──▶ (no record)

A record that is `saving` stands for nothing: nothing was removed yet. One that is `saved` may stand for a removal that was cut off, which the next command
completes. So at every moment the files are in the worktree, or in the salvage, or in both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from watchkeeper.domain.worktree import Worktree

REFS = "refs/watchkeeper/salvage"
"""Where a repository keeps what was salvaged, one reference for each."""

FOR_EVER_DAYS = 36500
"""A retention of this length means forever."""

_SHOWN = 3
_STEP = 1024


class SalvageState(StrEnum):
    """How far a removal, or its undoing, has come."""

    SAVING = "saving"
    SAVED = "saved"
    GONE = "gone"
    RESTORING = "restoring"


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvage:
    """What was kept of one worktree."""

    id: str
    """The task's id, and a number."""
    task_id: str
    """The task that the worktree was made for."""
    title: str
    """Of that task; empty if it was removed before."""
    tree: Worktree
    at: datetime
    """When it was removed."""
    by: str
    state: SalvageState
    name: str = ""
    """What git calls the worktree: the directory in the repository's `worktrees`."""
    present: bool = True
    """The directory was there; else only what the repository kept of it was."""
    commit: str = ""
    """The commit under our reference that holds the files, and whose ancestors are all commits of the worktree."""
    tip: str | None = None
    """The commit that its branch was at; None: there was no such branch."""
    branch_dropped: bool = False
    """The branch was deleted with it."""
    files: int = 0
    """How many files there were."""
    size_bytes: int = 0
    """What was added to the repository and to the archive, before any compression."""
    pushed_by: tuple[str, ...] = ()
    """Remotes that a push would send our references to, by their configuration."""
    left_out: tuple[str, ...] = ()
    """Sockets, which hold nothing and cannot be kept."""

    @property
    def ref(self) -> str:
        """Its reference."""
        return f"{REFS}/{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """A path with its size in bytes."""

    path: str
    size: int


def too_large(found: Sequence[Sized], cap: int) -> str:
    """Why files that git does not keep are not salvaged, in a sentence that names the largest; empty if they fit."""
    total = sum(each.size for each in found)
    if total <= cap:
        return ""
    largest = sorted(found, key=lambda each: (-each.size, each.path))[:_SHOWN]
    named = ", ".join(f"{each.path} ({in_words(each.size)})" for each in largest)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return (
        f"Its ignored files and nested repositories take {in_words(total)}, and at most {in_words(cap)} of them are kept "
        f"(`worktree.salvage`): {named}{more}."
    )


def in_words(size: int) -> str:
    """A number of bytes, for people."""
    value, units = float(size), ["B", "KiB", "MiB", "GiB"]
    while value >= _STEP and len(units) > 1:
        value /= _STEP
        units.pop(0)
    return f"{value:.0f} {units[0]}" if value >= 10 or units[0] == "B" else f"{value:.1f} {units[0]}"


def latest(records: Sequence[Salvage], named: str | None) -> Salvage | None:
    """The removal that `wk undo` means: of one task, of one salvage, or the last of all; None: there is no such."""
    found = [
        each
        for each in records
        if each.state is not SalvageState.SAVING and (named is None or named in {each.id, each.task_id})
    ]
    return max(found, key=lambda each: (each.at, _number(each)), default=None)


def _number(salvage: Salvage) -> int:
    return int(salvage.id.rpartition("-")[2])


def expired(records: Sequence[Salvage], before: datetime) -> list[Salvage]:
    """The salvages that retention lets go of: the removal is complete, and longer ago than it says."""
    return [each for each in records if each.state is SalvageState.GONE and each.at < before]


def expires(salvage: Salvage, keep_days: float) -> datetime | None:
    """When retention lets go of it; None: never."""
    return None if keep_days >= FOR_EVER_DAYS else salvage.at + timedelta(days=keep_days)
