"""Make a backup fit to be the database again, before it is put in place.

A backup is older than the world. What it says of runs that were live does no harm: their directories tell what became of them, and the same function judges
that as after any crash. Two things are:

- Numbers. Fences and numbers of the journal that were given after the backup must not be given again, so a great many are skipped.
- Work that is missing in the backup. A task that was waiting may have run since; started again it would do its work twice (R8). Where a directory proves
  that it ran, the task is stopped; `wk retry` starts it again. Directories may have been removed since, so whatever else would start by itself waits for a
  person: the queue is paused.
"""

from dataclasses import dataclass, replace

from watchkeeper.app.record import apply_run
from watchkeeper.app.record_stop import record_stop
from watchkeeper.domain.lanes import QueueRule
from watchkeeper.domain.lock_state import LockState
from watchkeeper.domain.model import FINAL_TASK_STATES, RunState, StopHow, StopRequest, TaskState
from watchkeeper.domain.run_events import Prepared
from watchkeeper.errors import NotFound, RecordTorn
from watchkeeper.ports.backup import BackupFacts, DescribedExecution, Staged
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.store import Store, Tx

BY = "wk restore"
"""In whose name tasks are stopped."""

MAY_HAVE_RUN = (
    "It may have run after the backup was made, so `wk restore` stopped it; its directory is in `executions`."
)

UNREADABLE = ""
"""Stands for an execution whose record cannot be read."""

_PAGE = 500
_NOT_ENDED = tuple(state for state in TaskState if state not in FINAL_TASK_STATES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    """What the execution directories tell of the time after a backup."""

    unknown: tuple[DescribedExecution, ...]
    """Executions of this database that are missing in the backup."""
    begun: tuple[DescribedExecution, ...]
    """Those that have begun; the backup may know some of them only as reserved."""
    may_have_run: tuple[str, ...]
    """Tasks that have not ended in the backup, and that ran, or may have run, since."""
    waiting: int
    """How many tasks have not ended in the backup."""
    largest_fence: int

    @property
    def alive(self) -> tuple[DescribedExecution, ...]:
        """Agents that may be running, and that no daemon would watch."""
        return tuple(one for one in self.unknown if one.lock is not LockState.FREE)


def reconcile_copy(store: Store, facts: BackupFacts, described: list[DescribedExecution]) -> Since:
    """Compare a backup with the directories that are there. Changes nothing."""
    ours = [one for one in described if one.database_id == facts.database_id]
    unknown = tuple(one for one in ours if not store.read(lambda tx, one=one: _is_known(tx, one.execution_id)))
    there = {one.execution_id for one in ours}
    ran = {one.task_id for one in unknown}
    open_tasks = store.read(_not_ended)
    doubtful = [
        task_id
        for task_id, reserved in open_tasks
        if task_id in ran or (reserved is not None and reserved not in there)
    ]
    return Since(
        unknown=unknown,
        begun=tuple(one for one in ours if one.begun is not None),
        may_have_run=tuple(doubtful),
        waiting=len(open_tasks),
        largest_fence=max((one.fence for one in ours), default=0),
    )


def make_fit(staged: Staged, since: Since, clock: Clock) -> None:
    """Skip numbers, take over what began since, stop what may have run since, pause the queue, and journal it."""
    staged.skip_numbers(since.largest_fence)
    store = staged.store
    for one in since.begun:
        store.transact("restored_begun", lambda tx, one=one: _take_over(tx, one, clock))
    for task_id in since.may_have_run:
        if store.read(lambda tx, name=task_id: tx.tasks.get(name)).state is not TaskState.HELD:
            _ = record_stop(store, clock, task_id, StopRequest(how=StopHow.STOP, by=BY, at=clock.now()))
            store.transact("restored_reason", lambda tx, name=task_id: _say_why(tx, name))

    def journal(tx: Tx) -> None:
        newest, at = staged.facts.newest, clock.now()
        if since.waiting:
            known = [rule for rule in tx.rules.all() if rule.scope == "all"]
            rule = known[0] if known else QueueRule(scope="all", name="")
            tx.rules.put(replace(rule, paused=True, by=BY, at=at))
        data = {"backup_of": newest and newest.isoformat(), "may_have_run": list(since.may_have_run)}
        _ = tx.journal.append("database.restored", at, data=data)

    store.transact("restored", journal)


def _take_over(tx: Tx, one: DescribedExecution, clock: Clock) -> None:
    """Record a run as prepared that the backup knows as reserved: what became of it is in its directory, and no stop may call it never launched."""
    try:
        run = tx.runs.by_execution(one.execution_id)
    except RecordTorn:
        return  # its task is set aside until it is repaired
    reserved = run is not None and run.state is RunState.RESERVED
    if run is not None and reserved and one.begun is not None and (run.id, run.fence) == (one.run_id, one.fence):
        _ = apply_run(tx, run, Prepared(directory=one.begun), clock.now())


def _say_why(tx: Tx, task_id: str) -> None:
    """What the backup tells of it, that it never ran, is not what is known."""
    task = tx.tasks.get(task_id)
    if task.state is TaskState.STOPPED:
        tx.tasks.save(replace(task, reason=MAY_HAVE_RUN), task)


def _not_ended(tx: Tx) -> list[tuple[str, str | None]]:
    """Every task that has not ended, each with the execution that was reserved for it and not yet recorded as prepared."""
    found: list[tuple[str, str | None]] = []
    before: str | None = None
    while page := tx.tasks.in_states(_NOT_ENDED, _PAGE, before):
        found += [(task.id, _reserved(tx, task.run_id)) for task in page]
        before = page[-1].id
    return found


def _is_known(tx: Tx, execution_id: str) -> bool:
    try:
        return tx.runs.by_execution(execution_id) is not None or tx.commands.by_execution(execution_id) is not None
    except RecordTorn:
        return True


def _reserved(tx: Tx, run_id: str | None) -> str | None:
    if run_id is None:
        return None
    try:
        run = tx.runs.get(run_id)
    except (RecordTorn, NotFound):
        return UNREADABLE  # no directory has this name: it may have run
    return run.execution_id if run.state is RunState.RESERVED else None
