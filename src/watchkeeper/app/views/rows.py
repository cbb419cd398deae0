"""Many tasks, one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from watchkeeper.app.views.brief import Brief, brief
from watchkeeper.app.views.standing import Standing, standing
from watchkeeper.domain.task_record import FINAL_TASK_STATES, Task, TaskState
from watchkeeper.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from watchkeeper.app.views.whereabouts import Whereabouts
    from watchkeeper.domain.run_record import Run
    from watchkeeper.ports.runtime import Runtime
    from watchkeeper.ports.store import Store, Tx

ACTIVE_STATES = tuple(state for state in TaskState if state not in FINAL_TASK_STATES)
"""What `wk ls` always shows."""

_PAGE = 500


# A named tuple, as in `settings`: every command waits for the class.
class TaskRow(NamedTuple):
    """A task, the run that owns it now, and where it really stands."""

    task: Task
    run: Run | None
    standing: Standing
    brief: Brief | None = None
    """Why it waits, if it is queued and that is known."""


class Listing(NamedTuple):
    """What a list shows, pinned tasks and then the newest first, how many tasks it leaves out, and how many are running, listed or not."""

    rows: tuple[TaskRow, ...]
    left_out: int
    running: int = 0


def listing(
    store: Store, runtime: Callable[[], Runtime], states: Sequence[TaskState], limit: int, recent: int = 0
) -> Listing:
    """Tasks in `states`, and with them the newest `recent` of those that ended; of all together the newest `limit`, pinned ones on top."""

    def read(tx: Tx) -> tuple[list[tuple[Task, Brief | None, Run | None, Whereabouts | None]], int, int]:
        tasks = _newest(tx, states, limit)
        if recent:
            ended = _newest(tx, tuple(FINAL_TASK_STATES), recent)
            tasks = sorted([*tasks, *ended], key=lambda task: (task.created_at, task.id), reverse=True)
        tasks = _pinned_first(tx, tasks, tuple(TaskState) if recent else states)[:limit]
        counts = tx.tasks.counts()
        left_out = sum(counts.values()) - len(tasks)
        rows = [(task, brief(tx, task), *owner(store, tx, task)) for task in tasks]
        return rows, left_out, counts.get(TaskState.RUNNING, 0)

    found, left_out, running = store.read(read)
    # Looking at processes is slow, so it is done after the snapshot was let go.
    rows = tuple(row(task, run, runtime, there)._replace(brief=why) for task, why, run, there in found)
    return Listing(rows=rows, left_out=left_out, running=running)


def labelled(
    store: Store, runtime: Callable[[], Runtime], states: Sequence[TaskState], limit: int, labels: Sequence[str]
) -> Listing:
    """Tasks in `states` that have every one of these labels, however long ago they ended, at most the newest `limit`."""

    def read(tx: Tx) -> tuple[list[tuple[Task, Brief | None, Run | None, Whereabouts | None]], int, int]:
        ids = set(tx.tasks.labelled(labels[0]))
        for name in labels[1:]:
            ids &= set(tx.tasks.labelled(name))
        tasks = [task for task in map(tx.tasks.get, ids) if task.state in states]
        tasks.sort(key=lambda task: (task.created_at, task.id), reverse=True)
        rows = [(task, brief(tx, task), *owner(store, tx, task)) for task in tasks[:limit]]
        return rows, max(0, len(tasks) - limit), tx.tasks.counts().get(TaskState.RUNNING, 0)

    found, left_out, running = store.read(read)
    rows = tuple(row(task, run, runtime, there)._replace(brief=why) for task, why, run, there in found)
    return Listing(rows=rows, left_out=left_out, running=running)


def one(store: Store, runtime: Callable[[], Runtime], task_id: str) -> TaskRow:
    """One task. Raises NoSuchTask."""

    def read(tx: Tx) -> tuple[Task, Brief | None, Run | None, Whereabouts | None]:
        task = tx.tasks.get(task_id)
        return task, brief(tx, task), *owner(store, tx, task)

    task, why, run, there = store.read(read)
    return row(task, run, runtime, there)._replace(brief=why)


def row(task: Task, run: Run | None, runtime: Callable[[], Runtime], there: Whereabouts | None = None) -> TaskRow:
    """A row with its evidence; the runtime is made only for a live run."""
    return TaskRow(task=task, run=run, standing=standing(task, run, runtime() if run is not None else None, there))


def owner(store: Store, tx: Tx, task: Task) -> tuple[Run | None, Whereabouts | None]:
    """The run that owns a task now, and where that is if machines share the database."""
    if task.run_id is None:
        return None, None
    try:
        run = tx.runs.get(task.run_id)
    except NotFound:
        return None, None
    if not store.is_shared:
        return run, None
    from watchkeeper.app.views.whereabouts import of_run  # noqa: PLC0415 - most lists are of one machine

    return run, of_run(store, tx, run)


def _pinned_first(tx: Tx, tasks: list[Task], states: Sequence[TaskState]) -> list[Task]:
    """The pinned tasks that are in some of the states, the last pinned one on top, and then the others."""
    pinned = [task for task in map(tx.tasks.get, tx.tasks.pinned()) if task.state in states]
    if not pinned:
        return tasks
    known = {task.id for task in pinned}
    return [*pinned, *(task for task in tasks if task.id not in known)]


def _newest(tx: Tx, states: Sequence[TaskState], limit: int) -> list[Task]:
    """The newest tasks in some states, read in pages."""
    tasks: list[Task] = []
    while len(tasks) < limit:
        most = min(_PAGE, limit - len(tasks))
        page = tx.tasks.in_states(states, most, tasks[-1].id if tasks else None)
        tasks += page
        if len(page) < most:
            break
    return tasks
