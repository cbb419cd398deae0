"""Deletion: tasks that are removed, and history that retention lets go."""

from datetime import datetime
from typing import Protocol

from watchkeeper.domain.task_record import TaskState


class Deletion(Protocol):
    """Letting go of rows, within one transaction."""

    def remove_task(self, task_id: str) -> None:
        """Delete a task that has ended with everything that is only about it: runs, executions, outcomes, approvals, relations. Its history stays.

        Raises:
            NoSuchTask: there is none.
            Stale: something still refers to it, such as the claim of a run that is not settled.
        """
        ...

    def removed_like(self, prefix: str, limit: int) -> list[str]:
        """Ids of removed tasks that start so, at most `limit`. They are remembered for as long as the database is there."""
        ...

    def ended(self, state: TaskState, before: datetime, limit: int, after: int = 0) -> list[tuple[int, str]]:
        """Tasks in a final state that ended before a time and are not pinned, in the order in which they were handed over: place and id.

        `after` is the place of the last one of the page before.
        """
        ...

    def forget_history(self, before: datetime, limit: int, after: int = 0) -> tuple[int, int | None]:
        """Delete history from before a time that is about no task, or about one that was removed.

        Looks at no more than `limit` entries behind number `after`. Returns how many were deleted, and after which number to continue; None: that was all.
        """
        ...

    def forgotten(self) -> int:
        """The largest number that was deleted from the journal; up to it the history has gaps. 0: none."""
        ...

    def forget_operations(self, before: datetime, limit: int) -> int:
        """Delete the notes that prevent a claim from being made twice, once no repeat can come. Returns how many."""
        ...
