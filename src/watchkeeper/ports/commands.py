"""The part of a transaction that holds the command lines around runs."""

from collections.abc import Sequence
from typing import Protocol

from watchkeeper.domain.outcome_record import Changes
from watchkeeper.domain.side_command import CommandKind, SideCommand


class Commands(Protocol):
    """The command lines around runs: checks and set-ups, each with an execution of its own."""

    def reserve(self, commands: Sequence[SideCommand]) -> None:
        """Record the right to run them. Raises Stale if one of them is there already."""
        ...

    def save(self, command: SideCommand, was: SideCommand) -> None:
        """Write what one became. Raises Stale if it has moved on since it was read."""
        ...

    def of_run(self, run_id: str, kind: CommandKind | None = None) -> list[SideCommand]:
        """Those of a run, of one kind or of every kind, in the order in which they run."""
        ...

    def of_task(self, task_id: str) -> list[SideCommand]:
        """Those of all runs of a task."""
        ...

    def by_execution(self, execution_id: str) -> SideCommand | None:
        """The one that an execution directory belongs to."""
        ...

    def keep_changes(self, run_id: str, changes: Changes | None) -> None:
        """Keep what a run changed, before its checks run. Raises Stale if that is kept already."""
        ...

    def changes(self, run_id: str) -> Changes | None:
        """What was kept of it; None: no agent ran, or nothing is kept."""
        ...
