"""What may run next, at a cost that does not grow with the queue.

A task that waits for a time is not among the ready ones; a claim first wakes those whose time has come, a bounded number in one transaction.

A task whose checkout is taken is blocked when a claim meets it, and stays so until something changes there. What is kept, and audited:

    a blocked task  =>  a run works in its checkout, or a ready task of its lane stands before it there, not blocked

So at most a few tasks of each checkout and lane stand among the ready ones, however many wait. Whatever ends the reason (the claim is released, the one
before is stopped, edited, taken back by a task it waits for) unblocks the best of each lane there, in the same transaction; one unblocked in vain is blocked
again when it is met.

A checkout is taken on one machine. A task that any machine may run is blocked for all of them; one whose own checkout is free unblocks it when it would
claim it in the same transaction, so no two machines block and unblock it in turn.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from watchkeeper.domain.lanes import Lane, Occupied
from watchkeeper.domain.model import Task
from watchkeeper.errors import Stale
from watchkeeper.ports.store import BatchLimitReached, Claim, OperationRecord
from watchkeeper.store.rows import Row, RowConflict, Rows
from watchkeeper.store.tasks import StoredTasks
from watchkeeper.store.values import Columns, readable, ticks, to_json

WAKE_AT_ONCE = 500
"""How many tasks whose time has come are made ready in one transaction."""

BLOCK_AT_ONCE = 200
"""How many tasks are passed over for their checkout in one transaction."""


class StoredQueue:
    """The port's `Queue`."""

    def __init__(self, rows: Rows) -> None:
        """Work within one transaction."""
        self._rows = rows

    def wake(self, now: datetime) -> bool:
        return self._rows.run("queue_wake", now=ticks(now), limit=WAKE_AT_ONCE) == WAKE_AT_ONCE

    def next_wake(self) -> datetime | None:
        row = self._rows.one("queue_next_wake")
        if row is None:
            return None
        with Columns(row, "time") as column:
            return column.time()

    def lanes(self) -> list[Lane]:
        return readable(self._rows, self._rows.all("queue_lanes"), lane_from)

    def occupied(self) -> list[Occupied]:
        return readable(self._rows, self._rows.all("queue_occupied"), _occupied)

    def waiting(self, limit: int) -> list[str]:
        return [str(row[0]) for row in self._rows.all("queue_waiting", limit=limit)]

    def first(
        self,
        lanes: Sequence[Lane],
        machine: str,
        on_block: Callable[[str, str], None] | None = None,
        probed: Collection[str] = (),
    ) -> Task | BatchLimitReached | None:
        ids = to_json([lane.id for lane in lanes if lane.account not in probed])
        probes = to_json([lane.id for lane in lanes if lane.account in probed]) if probed else None
        for _ in range(BLOCK_AT_ONCE):
            row = self._best(ids, probes)
            if row is None:
                return None
            with Columns(row, "task") as column:
                task_id, checkout = column.text(), column.text_or_none()
            holder = None if checkout is None else self._rows.one("queue_holder", machine=machine, checkout=checkout)
            if holder is None:
                return StoredTasks(self._rows).get(task_id)
            if self._rows.run("queue_block", id=task_id) and on_block is not None:
                on_block(task_id, str(holder[0]))
        return BatchLimitReached()

    def firsts(self, lanes: Sequence[Lane]) -> list[Task]:
        rows = [self._rows.one("queue_first", lanes=to_json([lane.id])) for lane in lanes]
        return StoredTasks(self._rows).some(str(row[0]) for row in rows if row is not None)

    def _best(self, lanes: str, probes: str | None) -> Row | None:
        """The first ready task: of these lanes, or of those of which one is wanted as a probe."""
        found = [self._rows.one("queue_first", lanes=lanes)]
        if probes is not None:
            found.append(
                self._rows.one("queue_first_untried", lanes=probes) or self._rows.one("queue_first_tried", lanes=probes)
            )
        return min((row for row in found if row is not None), key=_rank, default=None)

    def blocked_for_others(self, machine: str) -> list[tuple[str, Lane]]:
        found = self._rows.all("queue_blocked_for_others", machine=machine)
        return readable(self._rows, found, lambda row: (str(row[0]), lane_from(row[1:])))

    def unblock(self, checkout: str, lane: Lane) -> None:
        _ = self._rows.run("queue_unblock_lane", checkout=checkout, lane=lane.id)

    def operation(self, operation_id: str) -> OperationRecord | None:
        row = self._rows.one("queue_operation", id=operation_id)
        if row is None:
            return None
        with Columns(row, "operation") as column:
            task_id, run_id, fence = column.text_or_none(), column.text_or_none(), column.number_or_none()
        if task_id is None or run_id is None or fence is None:
            return OperationRecord(claim=None)
        return OperationRecord(claim=Claim(task_id=task_id, run_id=run_id, fence=fence))

    def record_operation(self, operation_id: str, claim: Claim | None, *, at: datetime) -> None:
        """Remember what an operation was used for. It never changes.

        Raises:
            Stale: the id was used already.
        """
        try:
            _ = self._rows.run(
                "queue_record_operation",
                id=operation_id,
                task_id=None if claim is None else claim.task_id,
                run_id=None if claim is None else claim.run_id,
                fence=None if claim is None else claim.fence,
                at=ticks(at),
            )
        except RowConflict as conflict:
            raise Stale(f"The operation '{operation_id}' was used already: nothing was written.") from conflict


def _rank(row: Row) -> tuple[int, int]:
    """A task's place in the queue: the higher priority, then the older one."""
    with Columns(row, "task") as column:
        _, _ = column.text(), column.text_or_none()
        return -column.number(), column.number()


def lane_from(row: Row) -> Lane:
    """A lane out of its five columns."""
    with Columns(row, "lane") as column:
        return _lane(column)


def _lane(column: Columns) -> Lane:
    return Lane(
        id=column.number(),
        machine=column.text() or None,
        harness=column.text(),
        account=column.text(),
        project=column.text(),
    )


def _occupied(row: Row) -> Occupied:
    with Columns(row, "lane") as column:
        return Occupied(lane=_lane(column), machine=column.text(), agents=column.number())
