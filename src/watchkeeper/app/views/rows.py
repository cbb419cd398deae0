"""Many tasks, one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from watchkeeper.app.views.brief import Brief, brief
from watchkeeper.app.views.standing import BesideAgent, Standing, standing
from watchkeeper.domain.task_record import FINAL_TASK_STATES, Task, TaskState
from watchkeeper.errors import NotFound, RecordTorn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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
    result: str | None = None
    """The class of the outcome of its newest run, if that has ended."""
    verdict: str | None = None
    """Whether that outcome is acceptable, as the task's checks decided; None as above, or where an older version did not record it."""


class Listing(NamedTuple):
    """What a list shows, how many tasks it leaves out, and how many are running, listed or not.

    Pinned tasks stand first, then what needs a person, what runs, what is queued, what has ended; in each of these in the order of handing over.
    """

    rows: tuple[TaskRow, ...]
    left_out: int
    """All others, whatever their states."""
    running: int = 0
    cut: int = 0
    """Those among them that were asked for and had no room."""
    unseen: int = 0
    """How many of the rows are failures that no person has looked at."""


class _StoredRow(NamedTuple):
    """What a row is made of, as one transaction read it."""

    task: Task
    brief: Brief | None
    came_to: tuple[str | None, str | None]
    beside: BesideAgent | None
    run: Run | None
    there: Whereabouts | None


def listing(
    store: Store, runtime: Callable[[], Runtime], states: Sequence[TaskState], limit: int, recent: int = 0
) -> Listing:
    """At most `limit` tasks in `states`: of each group the newest.

    With `recent` also the failures that no person has looked at, and the newest `recent` tasks that ended.
    """

    def read(tx: Tx) -> tuple[list[_StoredRow], Listing]:
        tasks = _grouped(tx, states, limit, recent)
        counts = tx.tasks.counts()
        wanted = sum(counts.get(state, 0) for state in states)
        torn = store.met.passed_over("task")
        listed = sum(task.state in states for task in tasks)
        summary = Listing(
            rows=(),
            left_out=max(0, sum(counts.values()) - len(tasks) - torn),
            running=counts.get(TaskState.RUNNING, 0),
            cut=max(0, wanted - listed - torn),
            unseen=sum(is_unseen(task) for task in tasks),
        )
        return [_stored_row(store, tx, task) for task in tasks], summary

    found, summary = store.read(read)
    # Looking at processes is slow, so it is done after the snapshot was let go.
    return summary._replace(rows=tuple(_row(each, runtime) for each in found))


def labelled(
    store: Store, runtime: Callable[[], Runtime], states: Sequence[TaskState], limit: int, labels: Sequence[str]
) -> Listing:
    """Tasks in `states` that have every one of these labels, however long ago they ended, at most the newest `limit`, as handed over."""

    def read(tx: Tx) -> tuple[list[_StoredRow], int, int]:
        ids = set(tx.tasks.labelled(labels[0]))
        for name in labels[1:]:
            ids &= set(tx.tasks.labelled(name))
        tasks = [task for task in tx.tasks.some(ids) if task.state in states]
        tasks.sort(key=lambda task: tx.tasks.number(task.id))
        rows = [_stored_row(store, tx, task) for task in tasks[-limit:]]
        return rows, max(0, len(tasks) - limit), tx.tasks.counts().get(TaskState.RUNNING, 0)

    found, cut, running = store.read(read)
    return Listing(rows=tuple(_row(each, runtime) for each in found), left_out=cut, running=running, cut=cut)


def whole(store: Store, runtime: Callable[[], Runtime], states: Sequence[TaskState]) -> Iterator[TaskRow]:
    """Every task in `states`, in the order of handing over, read page by page: what is added meanwhile comes last, and none comes twice."""
    after = 0
    while True:

        def read(tx: Tx, after: int = after) -> tuple[list[_StoredRow], int]:
            tasks, last = tx.tasks.in_order(states, _PAGE, after)
            return [_stored_row(store, tx, task) for task in tasks], last

        found, after = store.read(read)
        yield from (_row(each, runtime) for each in found)
        if len(found) < _PAGE:
            return


def newest(store: Store, runtime: Callable[[], Runtime], states: Sequence[TaskState], limit: int) -> Listing:
    """The newest `limit` tasks in `states`, whatever group they belong to, in the order of handing over."""

    def read(tx: Tx) -> tuple[list[_StoredRow], int]:
        tasks = _newest(tx, states, limit)[::-1]
        counts = tx.tasks.counts()
        cut = max(0, sum(counts.get(state, 0) for state in states) - len(tasks) - store.met.passed_over("task"))
        return [_stored_row(store, tx, task) for task in tasks], cut

    found, cut = store.read(read)
    return Listing(rows=tuple(_row(each, runtime) for each in found), left_out=cut, cut=cut)


def is_unseen(task: Task) -> bool:
    """Whether it failed and no person has looked at it."""
    return task.state is TaskState.FAILED and task.seen_at is None


def one(store: Store, runtime: Callable[[], Runtime], task_id: str) -> TaskRow:
    """One task. Raises NoSuchTask."""
    return _row(store.read(lambda tx: _stored_row(store, tx, tx.tasks.get(task_id))), runtime)


def _stored_row(store: Store, tx: Tx, task: Task) -> _StoredRow:
    run, there = owner(store, tx, task)
    return _StoredRow(task, brief(tx, task), came_to(tx, task), beside_agent(tx, task, run), run, there)


def came_to(tx: Tx, task: Task) -> tuple[str | None, str | None]:
    """The class and the verdict of the outcome of a task's newest run, once it has ended."""
    if not task.runs or task.run_id is not None:
        return None, None
    try:
        return tx.tasks.came_to(task.id, task.runs)
    except RecordTorn as problem:
        tx.damage.note(problem)
        return None, None


def beside_agent(tx: Tx, task: Task, run: Run | None) -> BesideAgent | None:
    """The set-up or check that a run is at, before its agent or after it; None: none."""
    if run is None or not (task.spec.checks or task.spec.setup):
        return None
    from watchkeeper.app.views.checking import at_command  # noqa: PLC0415 - most tasks have none

    return at_command(tx, task, run)


def _row(found: _StoredRow, runtime: Callable[[], Runtime]) -> TaskRow:
    result, verdict = found.came_to
    made = row(found.task, found.run, runtime, found.there, found.beside)
    return made._replace(brief=found.brief, result=result, verdict=verdict)


def row(
    task: Task,
    run: Run | None,
    runtime: Callable[[], Runtime],
    there: Whereabouts | None = None,
    beside: BesideAgent | None = None,
) -> TaskRow:
    """A row with its evidence; the runtime is made only for a live run."""
    found = standing(task, run, runtime() if run is not None else None, there)
    if beside is not None and found.word in {"starting", "ending"}:
        found = found._replace(word=beside.word, why=beside.why)
    return TaskRow(task=task, run=run, standing=found)


def owner(store: Store, tx: Tx, task: Task) -> tuple[Run | None, Whereabouts | None]:
    """The run that owns a task now, and where that is if machines share the database."""
    if task.run_id is None:
        return None, None
    try:
        run = tx.runs.get(task.run_id)
    except (NotFound, RecordTorn):
        return None, None
    if not store.is_shared:
        return run, None
    from watchkeeper.app.views.whereabouts import of_run  # noqa: PLC0415 - most lists are of one machine

    return run, of_run(store, tx, run)


_NEED_A_PERSON = (TaskState.NEEDS_INPUT, TaskState.HELD)


def _grouped(tx: Tx, states: Sequence[TaskState], limit: int, recent: int) -> list[Task]:
    """The tasks of a list, group by group. What needs a person has room before what runs, and that before what waits or has ended."""

    def newest_of(group: Sequence[TaskState], most: int) -> list[Task]:
        return _newest(tx, tuple(state for state in group if state in states), most)

    def unseen(most: int) -> list[Task]:
        return tx.tasks.unseen(most) if recent or TaskState.FAILED in states else []

    def behind_failed(most: int) -> list[Task]:
        return tx.tasks.waiting_for_failed(most) if TaskState.QUEUED in states else []

    def ended(most: int) -> list[Task]:
        final = tuple(FINAL_TASK_STATES)
        return newest_of(final, most) + (_newest(tx, final, min(most, recent)) if recent else [])

    known = set[str]()
    found: list[Task] = []
    pinned = [task for task in tx.tasks.some(tx.tasks.pinned()) if recent or task.state in states]
    groups: tuple[tuple[Callable[[int], list[Task]], ...], ...] = (
        (lambda most: newest_of(_NEED_A_PERSON, most), unseen, behind_failed),
        (lambda most: newest_of((TaskState.RUNNING,), most),),
        (lambda most: newest_of((TaskState.QUEUED,), most),),
        (ended,),
    )
    found += pinned[:limit]
    known |= {task.id for task in found}
    for group in groups:
        tasks: dict[str, Task] = {}
        for read in group:
            room = limit - len(found) - len(tasks)
            more = read(room + len(known)) if room > 0 else []
            tasks |= {task.id: task for task in [each for each in more if each.id not in known | tasks.keys()][:room]}
        known |= tasks.keys()
        found += sorted(tasks.values(), key=lambda task: tx.tasks.number(task.id))
    return found


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
