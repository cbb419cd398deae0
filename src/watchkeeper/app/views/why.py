"""Why one task is not at work, and the same for everything that waits, seen from this machine at this moment."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from watchkeeper.app.lane_conditions import lane_conditions
from watchkeeper.domain.lanes import Lane, LaneConditions, QueueRule, Reason, concerns
from watchkeeper.domain.model import Task, TaskState
from watchkeeper.domain.wait import Wait
from watchkeeper.domain.waiting import Dependency, lane_reasons, reasons
from watchkeeper.errors import RecordTorn
from watchkeeper.ports.damage import Met
from watchkeeper.ports.store import MachineRecord, Store, Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """A task with every reason for which it waits."""

    task: Task
    lane: Lane
    reasons: tuple[Reason, ...]
    dependencies: tuple[Dependency, ...]
    dependents: tuple[str, ...]
    """The tasks that wait or have waited for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneView:
    """A lane in which tasks wait, and everything that closes it here."""

    lane: Lane
    reasons: tuple[Reason, ...]
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """The queue as a whole."""

    at_work: int
    """Agents at work on this machine."""
    limit: int
    rules: tuple[QueueRule, ...]
    rules_at_work: tuple[int, ...]
    """For each rule, how many agents of its scope are running, on all machines."""
    machines: tuple[MachineRecord, ...]
    lanes: tuple[LaneView, ...]
    waiting: tuple[Why, ...]
    """In the order in which they would be claimed."""
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """The place of the caller."""

    machine: str
    """The id of this machine; empty if it never had a daemon or a task."""
    limit: int
    now: datetime


def why(store: Store, here: Here, task_id: str) -> Why:
    """One task. Raises NoSuchTask."""
    return store.read(
        lambda tx: why_at(tx, tx.tasks.get(task_id), lane_conditions(tx, here.machine, here.limit, here.now))
    )


def queue(store: Store, here: Here, most: int) -> QueueView:
    """Everything that waits, at most so many tasks of it."""
    return store.read(lambda tx: _queue(tx, lane_conditions(tx, here.machine, here.limit, here.now), most, store.met))


def why_at(tx: Tx, task: Task, conditions: LaneConditions) -> Why:
    """One task, as seen from a place."""
    facts, dependencies = tx.waits.facts(task.id), tuple(tx.waits.dependencies(task.id))
    return Why(
        task=task,
        lane=facts.lane,
        reasons=(*_torn(tx, task), *reasons(task, facts, dependencies, conditions)),
        dependencies=dependencies,
        dependents=tuple(tx.waits.dependents(task.id)),
    )


def _queue(tx: Tx, conditions: LaneConditions, most: int, met: Met) -> QueueView:
    waiting = tuple(_each(tx, tx.tasks.some(tx.queue.waiting(most)), conditions))
    return QueueView(
        at_work=sum(each.agents for each in conditions.occupied if each.machine == conditions.machine),
        limit=conditions.limit,
        rules=tuple(conditions.rules),
        rules_at_work=tuple(_at_work(rule, conditions) for rule in conditions.rules),
        machines=tuple(tx.machines.all()),
        lanes=_lanes(waiting, conditions),
        waiting=waiting,
        left_out=max(0, tx.tasks.counts().get(TaskState.QUEUED, 0) - len(waiting) - met.passed_over("task")),
    )


def _torn(tx: Tx, task: Task) -> tuple[Reason, ...]:
    """Why it is set aside, if it is queued and that is on record."""
    if task.state is not TaskState.QUEUED:
        return ()
    return tuple(
        Reason(
            wait=Wait.RECORD_TORN,
            detail=f"a record about it cannot be used ({each.name}: {each.reason}): `wk store repair`",
        )
        for each in tx.damage.of_task(task.id)
    )


def _each(tx: Tx, tasks: Sequence[Task], conditions: LaneConditions) -> Iterator[Why]:
    for task in tasks:
        try:
            yield why_at(tx, task, conditions)
        except RecordTorn as problem:
            tx.damage.note(problem)


def _at_work(rule: QueueRule, conditions: LaneConditions) -> int:
    return sum(each.agents for each in conditions.occupied if concerns(rule, each.lane, each.machine))


def _lanes(waiting: Sequence[Why], conditions: LaneConditions) -> tuple[LaneView, ...]:
    """The lanes of the tasks that wait, in the order of their first tasks."""
    lanes: dict[int, Lane] = {}
    counts: dict[int, int] = {}
    for each in waiting:
        lanes.setdefault(each.lane.id, each.lane)
        counts[each.lane.id] = counts.get(each.lane.id, 0) + 1
    return tuple(
        LaneView(lane=lane, reasons=lane_reasons(lane, conditions), waiting=counts[lane_id])
        for lane_id, lane in lanes.items()
    )
