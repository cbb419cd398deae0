"""What may run next, at a cost that does not grow with the queue.

A task that waits for a time is not among the ready ones; whoever asks for the next task first makes those ready whose time has come, a bounded number at
once. Where more have come due than that, the best of the rest is looked up without writing, so the order is right all the same.
"""

from datetime import datetime

from watchkeeper.domain.model import Task
from watchkeeper.errors import Stale
from watchkeeper.ports.store import Claim, OperationRecord
from watchkeeper.store.rows import Row, RowConflict, Rows
from watchkeeper.store.tasks import StoredTasks
from watchkeeper.store.values import Columns, ticks

FLIP_AT_ONCE = 100
"""How many tasks whose time has come are made ready by one look."""


class StoredQueue:
    """The port's `Queue`."""

    def __init__(self, rows: Rows) -> None:
        """Work within one transaction."""
        self._rows = rows

    def next_ready(self, now: datetime) -> Task | None:
        """The first task that may be claimed, by priority, then age."""
        at = ticks(now)
        more_due = True
        if self._rows.writable:
            more_due = self._rows.run("queue_flip", now=at, limit=FLIP_AT_ONCE) == FLIP_AT_ONCE
        found = [self._rows.one("queue_first_ready")]
        if more_due:
            found.append(self._rows.one("queue_first_due", now=at))
        places = [_place(row) for row in found if row is not None]
        return StoredTasks(self._rows).get(min(places)[2]) if places else None

    def live_claims(self) -> int:
        """How many claimed tasks may have an agent at work; those held for a person do not count."""
        with Columns(self._rows.one("queue_live_claims") or (), "count") as column:
            return column.number()

    def next_wake(self) -> datetime | None:
        """When the next waiting task becomes due; a time that has passed if one is due and nobody has looked for work since."""
        row = self._rows.one("queue_next_wake")
        if row is None:
            return None
        with Columns(row, "time") as column:
            return column.time()

    def operation(self, operation_id: str) -> OperationRecord | None:
        """What this operation id was used for, if it was."""
        row = self._rows.one("queue_operation", id=operation_id)
        if row is None:
            return None
        with Columns(row, "operation") as column:
            cancelled = bool(column.number())
            task_id, run_id, fence = column.text_or_none(), column.text_or_none(), column.number_or_none()
        if task_id is None or run_id is None or fence is None:
            return OperationRecord(cancelled=cancelled, claim=None)
        return OperationRecord(cancelled=cancelled, claim=Claim(task_id=task_id, run_id=run_id, fence=fence))

    def record_operation(self, operation_id: str, claim: Claim | None, *, cancelled: bool, at: datetime) -> None:
        """Remember it. Cancelling again is harmless; what it was used for never changes.

        Raises:
            Stale: the id was used already, and this is not its cancellation.
        """
        try:
            _ = self._rows.run(
                "queue_record_operation",
                id=operation_id,
                task_id=None if claim is None else claim.task_id,
                run_id=None if claim is None else claim.run_id,
                fence=None if claim is None else claim.fence,
                cancelled=int(cancelled),
                at=ticks(at),
            )
        except RowConflict as conflict:
            earlier = self.operation(operation_id)
            if not cancelled or earlier is None or claim not in {None, earlier.claim}:
                raise Stale(f"The operation '{operation_id}' was used already: nothing was written.") from conflict
            _ = self._rows.run("queue_cancel_operation", id=operation_id)


def _place(row: Row) -> tuple[int, int, str]:
    """Where a task stands: higher priority first, then the older one."""
    with Columns(row, "task") as column:
        task_id, priority, seq = column.text(), column.number(), column.number()
        return -priority, seq, task_id
