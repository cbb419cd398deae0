"""Rows of tasks."""

from collections.abc import Sequence
from heapq import merge
from itertools import islice

from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.task_record import OnLost, StopHow, StopRequest, Task, TaskSpec, TaskState
from watchkeeper.errors import NoSuchTask, Stale
from watchkeeper.store.rows import Row, RowConflict, Rows, Value
from watchkeeper.store.values import Columns, plain_text, plain_texts, record, ticks, ticks_or_none, to_json

_BEYOND = "\U0010ffff"
_NEWEST = (1 << 63) - 1


class StoredTasks:
    """The port's `Tasks`."""

    def __init__(self, rows: Rows) -> None:
        """Work within one transaction."""
        self._rows = rows

    def add(self, task: Task) -> None:
        """Insert a new task at the end of the queue. Raises Stale if the id is taken."""
        try:
            _ = self._rows.run(
                "tasks_add",
                priority=task.spec.priority,
                created_at=ticks(task.created_at),
                version=task.version,
                **_columns(task),
            )
            _ = self._rows.run("tasks_add_spec", task_id=task.id, body=to_json(task.spec))
        except RowConflict as conflict:
            raise Stale(f"There is a task '{task.id}' already: nothing was added.") from conflict

    def get(self, task_id: str) -> Task:
        """One task by its whole id. Raises NoSuchTask."""
        row = self._rows.one("tasks_get", id=task_id)
        if row is None:
            raise NoSuchTask(f"There is no task '{task_id}'.")
        return _task(row)

    def save(self, task: Task, was: Task) -> None:
        """Write `task` over `was`. Raises Stale unless exactly the row that was read is still there."""
        if task.id != was.id:
            raise Stale("A task cannot be written over another one.")
        if self._rows.run("tasks_save", version=was.version, **_columns(task)) != 1:
            raise Stale(f"Task '{task.id}' has moved on since it was read: nothing was written.")

    def ids_like(self, prefix: str, limit: int) -> list[str]:
        """Ids that start with `prefix`, newest first."""
        found = self._rows.all("tasks_ids_like", first=prefix, beyond=prefix + _BEYOND, limit=limit)
        return [str(row[0]) for row in found]

    def in_states(self, states: Sequence[TaskState], limit: int, before: str | None = None) -> list[Task]:
        """Newest first. Raises NoSuchTask if `before` is no task."""
        below: Value = _NEWEST
        if before is not None:
            row = self._rows.one("tasks_seq", id=before)
            if row is None:
                raise NoSuchTask(f"There is no task '{before}'.")
            below = row[0]
        # One short walk down an index per state, merged: a page costs the same however many tasks there are.
        walks = [
            [_place(row) for row in self._rows.all("tasks_in_state", state=state.value, before=below, limit=limit)]
            for state in dict.fromkeys(states)
        ]
        return [self.get(task_id) for _, task_id in islice(merge(*walks, reverse=True), limit)]

    def environment_in_use(self, environment_id: str) -> bool:
        """Whether a task that has not ended names this environment."""
        return self._rows.one("tasks_environment_in_use", environment_id=environment_id) is not None

    def counts(self) -> dict[TaskState, int]:
        """How many tasks there are in each state, those without any included."""
        counts = dict.fromkeys(TaskState, 0)
        for row in self._rows.all("tasks_counts"):
            with Columns(row, "count") as column:
                state, tasks = column.choice(TaskState), column.number()
                counts[state] = tasks
        return counts


def _place(row: Row) -> tuple[int, str]:
    with Columns(row, "task") as column:
        return column.number(), column.text()


def _columns(task: Task) -> dict[str, Value]:
    """What changes in a task's row. A task that waits for a time is not ready until the queue finds the time has come."""
    stop = task.stop
    return {
        "id": task.id,
        "state": task.state.value,
        "ready": 1 if task.wake_at is None else 0,
        "wake_at": ticks_or_none(task.wake_at),
        "runs": task.runs,
        "attempts": task.attempts,
        "unlaunched": task.unlaunched,
        "run_id": task.run_id,
        "stop_how": None if stop is None else stop.how.value,
        "stop_by": None if stop is None else stop.by,
        "stop_at": None if stop is None else ticks(stop.at),
        "stop_grace_s": None if stop is None else stop.grace_s,
        "environment_id": task.environment_id,
        "reason": task.reason,
        "kind": None if task.kind is None else task.kind.value,
        "updated_at": ticks(task.updated_at),
        "ended_at": ticks_or_none(task.ended_at),
    }


def _task(row: Row) -> Task:
    with Columns(row, "task") as column:
        return Task(
            id=column.text(),
            state=column.choice(TaskState),
            version=column.number(),
            created_at=column.time(),
            updated_at=column.time(),
            runs=column.number(),
            attempts=column.number(),
            unlaunched=column.number(),
            run_id=column.text_or_none(),
            wake_at=column.time_or_none(),
            stop=_stop(column),
            environment_id=column.text(),
            reason=column.text(),
            kind=column.choice_or_none(FailureKind),
            ended_at=column.time_or_none(),
            spec=spec_from(column.text()),
        )


def _stop(column: Columns) -> StopRequest | None:
    how = column.choice_or_none(StopHow)
    by, at, grace_s = column.text_or_none(), column.time_or_none(), column.real_or_none()
    if how is None or by is None or at is None:
        return None
    return StopRequest(how=how, by=by, at=at, grace_s=grace_s)


def spec_from(text: str) -> TaskSpec:
    """What was asked for. A field that is not known makes it unreadable: leaving it out would run something else (R13)."""
    data = record(text)
    data["argv"] = plain_texts(data.get("argv", []))
    data["environment_names"] = plain_texts(data.get("environment_names", []))
    data["on_lost"] = OnLost(plain_text(data.get("on_lost", OnLost.HOLD.value)))
    return TaskSpec(**data)  # pyright: ignore[reportArgumentType] - names are checked by the call, values were ours
