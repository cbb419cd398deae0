"""Whether the awaited tasks can still make progress, or whether a person must act first."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from watchkeeper.app.lane_conditions import lane_conditions
from watchkeeper.app.views.rows import one
from watchkeeper.app.views.whereabouts import everyone
from watchkeeper.app.views.why import why_at
from watchkeeper.domain.model import RESTING_TASK_STATES, TaskState
from watchkeeper.domain.wait import Wait
from watchkeeper.domain.waiting import NEEDS_A_PERSON, stuck

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from watchkeeper.app.views.why import Here
    from watchkeeper.domain.lanes import Reason
    from watchkeeper.domain.model import Task
    from watchkeeper.ports.runtime import Runtime
    from watchkeeper.ports.store import Store, Tx

_ALIVE = frozenset({"running", "stopping"})
"""Words for a task whose agent works, with or without a daemon."""


class Standstill(NamedTuple):
    """Why nothing more happens to a task unless a person acts."""

    task_id: str
    wait: Wait | None
    """The word for its wait; None: only a daemon is missing."""
    detail: str


def standstill(
    store: Store, here: Here, runtime: Callable[[], Runtime], tasks: Sequence[Task], *, acts: bool
) -> list[Standstill] | None:
    """Why none of these tasks makes progress until a person acts, for each that is not at rest; None while one may continue by itself.

    `acts`: a daemon runs on this machine.
    """
    waiting = [task for task in tasks if task.state not in RESTING_TASK_STATES]
    daemons = {each.machine: each.reachable for each in everyone(store)} | {here.machine: acts}
    acting = _acting(store, daemons, acts=acts)
    others = [machine for machine, is_there in daemons.items() if is_there and machine != here.machine]
    machines = ([here.machine] if acts or not others else []) + others
    if any(task.state is TaskState.RUNNING and acting(task) for task in waiting):
        return None
    kept = store.read(lambda tx: _stuck(tx, here, machines, waiting, acting))
    if kept is None:
        return None
    found: list[Standstill] = []
    for task in waiting:
        if task.id in kept:
            found.append(kept[task.id])
        elif (alone := _without_a_daemon(store, runtime, task)) is not None:
            found.append(alone)
        else:
            return None
    return found


def _acting(store: Store, daemons: Mapping[str, bool], *, acts: bool) -> Callable[[Task], bool]:
    """Whether a daemon runs that can do something for a task, wherever that is."""
    if not store.is_shared:
        return lambda _task: acts

    def acting(task: Task) -> bool:
        if task.state is TaskState.RUNNING and task.run_id is not None:
            run_id = task.run_id
            return daemons.get(store.read(lambda tx: tx.runs.get(run_id)).machine, False)
        return any(daemons.values()) if task.spec.machine is None else daemons.get(task.spec.machine, False)

    return acting


def _stuck(
    tx: Tx, here: Here, machines: Sequence[str], waiting: Sequence[Task], acting: Callable[[Task], bool]
) -> dict[str, Standstill] | None:
    """What keeps the queued tasks that a person must act for; None if one of them may continue by itself.

    `machines`: where a daemon may claim a task that any machine may run. What closes its way on one of them does not keep it while another is open.
    """
    own = lane_conditions(tx, here.machine, here.limit, here.now)
    anywhere = [own if each == here.machine else lane_conditions(tx, each, here.limit, here.now) for each in machines]

    @cache
    def read(task_id: str) -> tuple[Task, Sequence[Reason]]:
        task = tx.tasks.get(task_id)
        found = [why_at(tx, task, at).reasons for at in (anywhere if task.spec.machine is None else (own,))]
        return task, min(found, key=_lasting)

    kept: dict[str, Standstill] = {}
    for task in waiting:
        if task.state is not TaskState.QUEUED:
            continue
        found = stuck(task.id, read)
        if found is not None:
            other = "" if found.task_id == task.id else f"task {found.task_id} must be done first, which waits: "
            kept[task.id] = Standstill(task.id, found.reason.wait, f"{other}{found.reason.detail}")
        elif acting(task):
            return None
    return kept


def _lasting(reasons: Sequence[Reason]) -> tuple[bool, bool]:
    """How much a task is kept at a place: by what a person must do, then by a checkout, which may be held there."""
    waits = {reason.wait for reason in reasons}
    return not waits.isdisjoint(NEEDS_A_PERSON), Wait.CHECKOUT_BUSY in waits


def _without_a_daemon(store: Store, runtime: Callable[[], Runtime], task: Task) -> Standstill | None:
    """What is said of a task that only a daemon could bring on; None while its agent works."""
    standing = one(store, runtime, task.id).standing
    if standing.word in _ALIVE and standing.verdict is not None:
        return None
    where = f" ({standing.why})" if standing.word == "unreachable" else ""
    return Standstill(task.id, None, f"no daemon runs that could start or settle it{where}")
