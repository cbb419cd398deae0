"""Rows of tasks."""

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import cast

from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.task_record import OnLost, StopHow, StopRequest, Task, TaskSpec, TaskState
from watchkeeper.domain.wait import BriefWait, Wait
from watchkeeper.errors import NoSuchTask, RecordTorn, Stale
from watchkeeper.store.checked import checked
from watchkeeper.store.rows import Row, RowConflict, Rows, SqlValue
from watchkeeper.store.values import (
    Columns,
    moment,
    plain_text,
    plain_texts,
    readable,
    record,
    ticks,
    ticks_or_none,
    to_json,
    torn,
)

_BEYOND = "\U0010ffff"
_NEWEST = (1 << 63) - 1


class StoredTasks:
    """The port's `Tasks`."""

    def __init__(self, rows: Rows) -> None:
        """Work within one transaction."""
        self._rows = rows

    def add(self, task: Task) -> None:
        """Insert a new task at the end of the queue. Raises Stale if the id is taken, or a task that it waits for is not there."""
        try:
            _ = self._rows.run(
                "tasks_add",
                created_at=ticks(task.created_at),
                version=task.version,
                **_columns(task),
                **self._queue_columns(task.spec),
            )
            _ = self._rows.run("tasks_add_spec", task_id=task.id, body=spec_text(task.spec))
        except RowConflict as conflict:
            raise Stale(f"There is a task '{task.id}' already: nothing was added.") from conflict
        self._relate(task)
        self._block_if_taken(task)

    def take_key(self, task_id: str, key: str, digest: str) -> None:
        """Let the caller's key stand for a task. Raises Stale if it stands for one."""
        try:
            _ = self._rows.run("tasks_take_key", id=task_id, key=key, key_digest=digest)
        except RowConflict as conflict:
            raise Stale("The key stands for another task already: nothing was added.") from conflict

    def keyed(self, key: str) -> tuple[str, str] | None:
        """The id of the task that a key stands for, and the digest of what was handed over."""
        row = self._rows.one("tasks_keyed", key=key)
        return None if row is None else (str(row[0]), str(row[1]))

    def key_of(self, task_id: str) -> str | None:
        """The key that stands for a task."""
        row = self._rows.one("tasks_key_of", id=task_id)
        return None if row is None or row[0] is None else str(row[0])

    def get(self, task_id: str) -> Task:
        row = self._rows.one("tasks_get", id=task_id)
        if row is None:
            if self._rows.one("tasks_seq", id=task_id) is not None:
                raise torn("task", task_id, "what was asked for is missing", task_id)
            raise NoSuchTask(f"There is no task '{task_id}'.")
        return _task(row)

    def some(self, task_ids: Iterable[str]) -> list[Task]:
        found: list[Task] = []
        for task_id in task_ids:
            try:
                found.append(self.get(task_id))
            except RecordTorn as problem:
                self._rows.met.note(problem)
            except NoSuchTask:
                continue  # it went while the ids were collected
        return found

    def save(self, task: Task, was: Task) -> None:
        if task.id != was.id:
            raise Stale("A task cannot be written over another one.")
        if self._rows.run("tasks_save", version=was.version, **_columns(task)) != 1:
            raise Stale(f"Task '{task.id}' has moved on since it was read: nothing was written.")
        if task.spec != was.spec:
            self._respecify(task, was.spec)
        is_done, was_done = task.state is TaskState.DONE, was.state is TaskState.DONE
        if is_done is not was_done:
            self._count_dependents(task.id, more=1 if was_done else -1)
        if was.state is TaskState.QUEUED and task.state is not TaskState.RUNNING:
            self._unblock(was.spec.checkout)

    def _respecify(self, task: Task, was: TaskSpec) -> None:
        _ = self._rows.run("tasks_save_spec", task_id=task.id, body=spec_text(task.spec))
        place = self._queue_columns(task.spec)
        if place != self._queue_columns(was):
            _ = self._rows.run("tasks_save_place", id=task.id, **place)
        if (task.spec.after, task.spec.labels) != (was.after, was.labels):
            _ = self._rows.run("tasks_drop_dependencies", task_id=task.id)
            _ = self._rows.run("tasks_drop_labels", task_id=task.id)
            self._relate(task)
            _ = self._rows.run("tasks_count_unmet", id=task.id)

    def place_anew(self, task: Task) -> None:
        """Find its place in the queue again from what was asked for."""
        _ = self._rows.run("tasks_save_place", id=task.id, **self._queue_columns(task.spec))

    def _queue_columns(self, spec: TaskSpec) -> dict[str, SqlValue]:
        """Where a task stands in the queue: its priority, its lane, its checkout."""
        lane: dict[str, SqlValue] = {
            "machine": spec.machine or "", "harness": spec.harness, "account": spec.account_id, "project": spec.project,
        }  # fmt: skip
        row = self._rows.one("queue_lane_id", **lane)
        if row is None:
            _ = self._rows.run("queue_lane", **lane)
            row = self._rows.one("queue_lane_id", **lane)
        return {"priority": spec.priority, "lane": None if row is None else row[0], "checkout": spec.checkout}

    def _relate(self, task: Task) -> None:
        """The rows that stand for what it waits for and how it is labelled."""
        try:
            for other in dict.fromkeys(task.spec.after):
                _ = self._rows.run("tasks_add_dependency", task_id=task.id, on_id=other)
        except RowConflict as conflict:
            raise Stale(f"A task that '{task.id}' should wait for is not there: nothing was written.") from conflict
        for name in dict.fromkeys(task.spec.labels):
            _ = self._rows.run("tasks_add_label", task_id=task.id, name=name)
        if task.spec.after:
            _ = self._rows.run("tasks_count_unmet", id=task.id)

    def _count_dependents(self, task_id: str, *, more: int) -> None:
        if not self._rows.run("tasks_tell_dependents", on_id=task_id, more=more) or more < 0:
            return
        for row in self._rows.all("tasks_checkouts_of_dependents", on_id=task_id):
            self._unblock(str(row[0]))

    def _block_if_taken(self, task: Task) -> None:
        """A new task whose checkout is taken, or that has one of its lane before it there, is not looked at before that changes."""
        checkout = task.spec.checkout
        if checkout is None:
            return
        place = self._queue_columns(task.spec)
        holders = self._rows.all("waits_holders", checkout=checkout)
        taken = any(task.spec.machine in {None, machine} for machine, *_ in holders)
        if taken or self._rows.one("waits_before", id=task.id, **place) is not None:
            _ = self._rows.run("queue_block", id=task.id)

    def _unblock(self, checkout: str | None) -> None:
        if checkout is not None:
            _ = self._rows.run("queue_unblock", checkout=checkout)

    def labelled(self, name: str) -> list[str]:
        return [str(row[0]) for row in self._rows.all("tasks_labelled", name=name)]

    def labels(self, prefix: str, limit: int) -> list[str]:
        found = self._rows.all("tasks_labels", first=prefix, beyond=prefix + _BEYOND, limit=limit)
        return [str(row[0]) for row in found]

    def brief(self, task_id: str) -> BriefWait:
        row = self._rows.one("tasks_brief", id=task_id)
        if row is None:
            _ = self.number(task_id)
            raise torn("lane", task_id, "the task's lane is missing", task_id)
        if row[6] is not None:
            return BriefWait(
                ready=True,
                unmet=0,
                on=None,
                on_state=None,
                blocked=False,
                holder=None,
                lane_announced=None,
                torn=str(row[6]),
            )
        with Columns(row, "task") as column:
            ready, unmet, on = bool(column.number()), column.number(), column.text_or_none()
            on_id, _, state = (on or "").partition(" ")
            return BriefWait(
                ready=ready,
                unmet=unmet,
                on=on_id or None,
                on_state=state or None,
                blocked=bool(column.number()),
                holder=column.text_or_none(),
                lane_announced=column.text_or_none(),
            )

    def with_worktrees(self) -> list[str]:
        return [str(row[0]) for row in self._rows.all("tasks_with_worktrees")]

    def pinned(self) -> list[str]:
        return [str(row[0]) for row in self._rows.all("tasks_pinned")]

    def ids_like(self, prefix: str, limit: int) -> list[str]:
        """Ids that start with `prefix`, newest first."""
        found = self._rows.all("tasks_ids_like", first=prefix, beyond=prefix + _BEYOND, limit=limit)
        return [str(row[0]) for row in found]

    def in_states(self, states: Sequence[TaskState], limit: int, before: str | None = None) -> list[Task]:
        """Newest first. Raises NoSuchTask if `before` is not a task."""
        below: SqlValue = _NEWEST
        if before is not None:
            below = self.number(before)
        found: list[Task] = []
        while len(found) < limit:
            # One short walk down an index per state, merged: a page costs the same however many tasks there are.
            walks = [
                [_rank(row) for row in self._rows.all("tasks_in_state", state=state.value, before=below, limit=limit)]
                for state in dict.fromkeys(states)
            ]
            page = list(islice(merge(*walks, reverse=True), limit))
            found += self.some(task_id for _, task_id in page)
            if len(page) < limit:
                break
            below = page[-1][0]  # what could not be read is made up for, so that a page that is short is the last one
        return found[:limit]

    def in_order(self, states: Sequence[TaskState], limit: int, after: int = 0) -> tuple[list[Task], int]:
        found: list[Task] = []
        while len(found) < limit:
            most = limit - len(found)
            walks = [
                [
                    _rank(row)
                    for row in self._rows.all("tasks_in_state_after", state=state.value, after=after, limit=most)
                ]
                for state in dict.fromkeys(states)
            ]
            page = list(islice(merge(*walks), most))
            found += self.some(task_id for _, task_id in page)
            after = page[-1][0] if page else after
            if len(page) < most:
                break
        return found, after

    def number(self, task_id: str) -> int:
        row = self._rows.one("tasks_seq", id=task_id)
        if row is None:
            raise NoSuchTask(f"There is no task '{task_id}'.")
        with Columns(row, "task") as column:
            return column.number()

    def unseen(self, limit: int) -> list[Task]:
        return self.some(str(row[0]) for row in self._rows.all("tasks_unseen", limit=limit))

    def waiting_for_failed(self, limit: int) -> list[Task]:
        return self.some(str(row[0]) for row in self._rows.all("tasks_waiting_for_failed", limit=limit))

    def see(self, task: Task, at: datetime) -> bool:
        """Guarded by the version that was read; leaves that as it is, because nothing is decided by it."""
        return self._rows.run("tasks_see", id=task.id, version=task.version, at=ticks(at)) == 1

    def see_all(self, at: datetime) -> int:
        return self._rows.run("tasks_see_all", at=ticks(at))

    def came_to(self, task_id: str, number: int) -> tuple[str | None, str | None]:
        row = self._rows.one("tasks_result", run_id=f"{task_id}.{number}")
        if row is None:
            return None, None
        with Columns(row, "outcome", task_id=task_id) as column:
            _, said = column.text(), record(column.text())
            result, verdict = (said.get(name) for name in ("result", "verdict"))
            return None if result is None else plain_text(result), None if verdict is None else plain_text(verdict)

    def environment_in_use(self, environment_id: str) -> bool:
        return self._rows.one("tasks_environment_in_use", environment_id=environment_id) is not None

    def counts(self) -> dict[TaskState, int]:
        """How many tasks there are in each state, those without any included."""
        counts = dict.fromkeys(TaskState, 0)
        return counts | dict(readable(self._rows, self._rows.all("tasks_counts"), count_from))


def count_from(row: Row) -> tuple[TaskState, int]:
    """What a row holds. Raises RecordTorn."""
    with Columns(row, "tally") as column:
        state, tasks = column.choice(TaskState), column.number()
        if tasks < 0:
            raise ValueError("fewer than no tasks")
        return state, tasks


def _rank(row: Row) -> tuple[int, str]:
    """Number and id. Whether there is a task of that id, the next look tells."""
    with Columns(row, "task") as column:
        return column.number(), str(column.value())


def _columns(task: Task) -> dict[str, SqlValue]:
    """What changes in a task's row. A task that waits for a time is not ready until the queue finds the time has come."""
    stop = task.stop
    return {
        "id": task.id,
        "state": task.state.value,
        "ready": 1 if task.wake_at is None else 0,
        "wake_at": ticks_or_none(task.wake_at),
        "wake_for": None if task.wake_for is None else task.wake_for.value,
        "runs": task.runs,
        "attempts": task.attempts,
        "unlaunched": task.unlaunched,
        "run_id": task.run_id,
        "stop_how": None if stop is None else stop.how.value,
        "stop_by": None if stop is None else stop.by,
        "stop_at": None if stop is None else ticks(stop.at),
        "stop_grace_s": None if stop is None else stop.grace_s,
        "environment_id": task.environment_id,
        "environment_machine": task.environment_machine,
        "reason": task.reason,
        "kind": None if task.kind is None else task.kind.value,
        "updated_at": ticks(task.updated_at),
        "ended_at": ticks_or_none(task.ended_at),
        "pinned_at": ticks_or_none(task.pinned_at),
        "seen_at": ticks_or_none(task.seen_at),
        "service_failures": task.service_failures,
    }


def _task(row: Row) -> Task:
    with Columns(row, "task", task_id=str(row[0])) as column:
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
            wake_for=column.choice_or_none(Wait),
            stop=_stop(column),
            environment_id=column.text(),
            environment_machine=column.text(),
            reason=column.text(),
            kind=column.choice_or_none(FailureKind),
            ended_at=column.time_or_none(),
            pinned_at=column.time_or_none(),
            seen_at=column.time_or_none(),
            service_failures=column.number(),
            spec=spec_from(column.text()),
        )


def _stop(column: Columns) -> StopRequest | None:
    how = column.choice_or_none(StopHow)
    by, at, grace_s = column.text_or_none(), column.time_or_none(), column.real_or_none()
    if how is None or by is None or at is None:
        return None
    return StopRequest(how=how, by=by, at=at, grace_s=grace_s)


_NEWER = ("checks", "check_deadline_s", "setup", "teardown")
"""Fields that are stored only where they are set, so that a spec of an earlier version is written as it was."""


def spec_text(spec: TaskSpec) -> str:
    """What was asked for, as JSON."""
    names = [field.name for field in fields(spec) if field.name not in _NEWER or getattr(spec, field.name)]
    return to_json({name: cast("object", getattr(spec, name)) for name in names})


def spec_from(text: str) -> TaskSpec:
    """What was asked for. A field that is not known makes it unreadable: leaving it out would run something else (R13)."""
    data = record(text)
    data["argv"] = plain_texts(data.get("argv", []))
    data["environment_names"] = plain_texts(data.get("environment_names", []))
    data["after"] = plain_texts(data.get("after", []))
    data["labels"] = plain_texts(data.get("labels", []))
    data["checks"] = plain_texts(data.get("checks", []))
    data["setup"] = plain_texts(data.get("setup", []))
    data["teardown"] = plain_texts(data.get("teardown", []))
    not_before = data.get("not_before")
    data["not_before"] = None if not_before is None else moment(not_before)
    data["on_lost"] = OnLost(plain_text(data.get("on_lost", OnLost.HOLD.value)))
    tree = data.pop("worktree", None)
    spec = checked(TaskSpec, data)
    if tree is None:
        return spec
    from watchkeeper.store.facts import worktree_from  # noqa: PLC0415 - lists wait for imports, and few tasks have one

    return replace(spec, worktree=worktree_from(cast("dict[str, object]", tree)))
