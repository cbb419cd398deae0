"""Journal each change of why a single task waits, once, in the transaction that makes it. The claim journals what closes whole lanes.

`task.waiting` names the first of the task's own reasons; `task.ready` says that none is left: from then on its lane alone decides.
"""

from datetime import datetime

from watchkeeper.domain.lanes import Reason
from watchkeeper.domain.model import Task, TaskState
from watchkeeper.domain.wait import Wait
from watchkeeper.domain.waiting import busy, own_reasons
from watchkeeper.errors import RecordTorn
from watchkeeper.ports.store import Tx

_DEAD = frozenset({TaskState.FAILED, TaskState.STOPPED})


def first_own(tx: Tx, task: Task, at: datetime) -> Reason | None:
    """The first of the reasons that are a queued task's own."""
    if task.state is not TaskState.QUEUED:
        return None
    found = own_reasons(task, tx.waits.facts(task.id), tx.waits.dependencies(task.id), at)
    return found[0] if found else None


def announce_added(tx: Tx, task: Task, at: datetime) -> None:
    """A new task: tell why it does not start at once, if that is its own affair."""
    reason = first_own(tx, task, at)
    if reason is not None:
        _announce(tx, task.id, reason, at)


def announce_edited(tx: Tx, task: Task, before: Reason | None, at: datetime) -> None:
    """Another wish: tell what it waits for now, if that is something else."""
    now = first_own(tx, task, at)
    if now != before:
        _announce(tx, task.id, now, at)


def announce_blocked(tx: Tx, at: datetime, task_id: str, holder: str) -> None:
    """A claim passed over the task, because another one works in its checkout."""
    _announce(tx, task_id, busy((holder,)), at)


def announce_dependents(tx: Tx, was: Task, task: Task, at: datetime) -> None:
    """A task is done, has failed or was stopped, or no longer is: update the tasks that wait for it."""
    if _class(was.state) == _class(task.state):
        return
    for other in tx.tasks.some(tx.waits.dependents(task.id)):
        if other.state is not TaskState.QUEUED:
            continue
        try:
            reason = first_own(tx, other, at)
        except RecordTorn as problem:
            tx.damage.note(problem)
            continue
        on_others = reason is not None and reason.wait is Wait.DEPENDENCY and reason.tasks != (task.id,)
        # One of several that it waits for came, or went, and the others keep it: nothing has changed.
        if not on_others or task.state in _DEAD:
            _announce(tx, other.id, reason, at)


def _class(state: TaskState) -> str:
    if state is TaskState.DONE:
        return "done"
    return "dead" if state in _DEAD else "open"


def _announce(tx: Tx, task_id: str, reason: Reason | None, at: datetime) -> None:
    if reason is None:
        _ = tx.journal.append("task.ready", at, task_id=task_id)
        return
    data = {"wait": reason.wait.value, "detail": reason.detail}
    if reason.until is not None:
        data["until"] = reason.until.isoformat()
    _ = tx.journal.append("task.waiting", at, task_id=task_id, data=data)
