"""Salvage of worktrees: kept before a removal, brought back by an undo, let go of by retention."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from watchkeeper.domain.salvage import Salvage


class Saved(NamedTuple):
    """What came of salvaging and removing a worktree."""

    salvage: Salvage | None = None
    """What was kept; None: there was nothing to remove, or nothing was removed."""
    problem: str = ""
    """Why it was not removed, in a sentence; empty: it is gone."""


class Salvages(Protocol):
    """Keeps what worktrees hold. Hooks, file system monitors and filters are off in all that it runs."""

    def obstacle(self, wanted: Salvage) -> str:
        """Why the worktree cannot be salvaged or removed, in a sentence; empty: it can. Changes nothing. Never raises."""
        ...

    def remove(self, wanted: Salvage) -> Saved:
        """Keep everything that a worktree holds, then remove it, and its branch if that was made for its task.

        `wanted` says of which; its id is chosen here. A removal that was cut off is completed. Never raises.
        """
        ...

    def restore(self, salvage: Salvage) -> str:
        """Bring a worktree back as it was; why not, in a sentence, else empty.

        An undoing that was cut off is completed. The record stays until `forget`. Never raises.
        """
        ...

    def forget(self, salvage: Salvage) -> str:
        """Let go of what was kept; why that failed, else empty. A second call changes nothing. Never raises."""
        ...

    def records(self) -> Sequence[Salvage]:
        """Every salvage of this machine, the oldest first. One whose record cannot be read is passed over. Never raises."""
        ...
