"""A backup is made fit: what may have run since is stopped, what began since is taken over, and the rest waits for a person."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.stage import Verbs
from support.records import NOON, add, make_spec, make_task, reserve

from watchkeeper.app.restore import BY, MAY_HAVE_RUN, make_fit, reconcile_copy
from watchkeeper.domain.lanes import QueueRule
from watchkeeper.domain.lock_state import LockState
from watchkeeper.domain.model import DirectoryIdentity, Run, RunState, TaskState
from watchkeeper.ports.backup import BackupFacts, DescribedExecution
from watchkeeper.ports.store import Store

FACTS = BackupFacts(path=Path("b"), size=1, database_id="db1", schema=5, tasks=1, newest=NOON)
DIRECTORY = DirectoryIdentity(device=5, inode=6)


@dataclass
class StagedCopy:
    """A staged backup whose copy is the database of the test."""

    store: Store
    facts: BackupFacts = FACTS
    skipped: list[int] = field(default_factory=list)

    def skip_numbers(self, seen: int) -> None:
        self.skipped.append(seen)

    def put_in_place(self, stamp: str) -> Path | None:
        raise AssertionError(stamp)


def reserved(verbs: Verbs, task_id: str) -> Run:
    """A run that the backup knows as reserved."""
    return verbs.store.transact("test", lambda tx: reserve(tx, add(tx, make_task(task_id))))


def queued(verbs: Verbs, task_id: str, **given: Any) -> None:
    _ = verbs.store.transact("test", lambda tx: add(tx, make_task(task_id, **given)))


def described(
    execution: str, task_id: str, fence: int, lock: LockState = LockState.FREE, **given: Any
) -> DescribedExecution:
    fields: dict[str, Any] = {
        "execution_id": execution, "database_id": "db1", "task_id": task_id, "run_id": f"{task_id}.1", "fence": fence, "lock": lock,
    }  # fmt: skip
    return DescribedExecution(**(fields | given))


def test_directories_tell_what_ran_since(verbs: Verbs) -> None:
    run = reserved(verbs, "t1")
    lost = reserved(verbs, "t2")
    queued(verbs, "t3")
    queued(verbs, "t4")
    queued(verbs, "t5", state=TaskState.DONE, ended_at=NOON)
    known = described(run.execution_id, "t1", run.fence, begun=DIRECTORY)
    newer = described("x-t3-1", "t3", 9, LockState.HELD)
    ended = described("x-t5-1", "t5", 4)
    foreign = described("x-t4-1", "t4", 99, database_id="db2")
    since = reconcile_copy(verbs.store, FACTS, [known, newer, ended, foreign])
    assert since.unknown == (newer, ended) and since.alive == (newer,)
    assert since.begun == (known,)
    assert sorted(since.may_have_run) == ["t2", "t3"], (
        f"{lost.execution_id} has no directory, and t3 has an unknown one"
    )
    assert (since.waiting, since.largest_fence) == (4, 9)
    nothing = reconcile_copy(verbs.store, FACTS, [])
    assert (nothing.unknown, nothing.alive, nothing.begun, nothing.largest_fence) == ((), (), (), 0)


def test_what_may_have_run_is_stopped_and_the_queue_is_paused(verbs: Verbs) -> None:
    run = reserved(verbs, "t1")
    queued(verbs, "t2")
    queued(verbs, "t3")
    newer = described("x-t2-1", "t2", 12)
    begun = described(run.execution_id, "t1", run.fence, begun=DIRECTORY)
    staged = StagedCopy(verbs.store)
    _ = verbs.store.transact("test", lambda tx: tx.rules.put(QueueRule(scope="all", name="", max_running=3, by="ada")))
    verbs.clock.step(60)
    make_fit(staged, reconcile_copy(verbs.store, FACTS, [newer, begun]), verbs.clock)
    assert staged.skipped == [12]
    assert verbs.run().state is RunState.PREPARED and verbs.run().directory == DIRECTORY
    task = verbs.task("t2")
    assert (task.state, task.reason) == (TaskState.STOPPED, MAY_HAVE_RUN)
    assert task.stop is not None and (task.stop.by, task.stop.at) == ("wk restore", verbs.clock.now())
    assert verbs.task("t3").state is TaskState.QUEUED and verbs.task("t3").reason == ""
    (rule,) = verbs.store.read(lambda tx: tx.rules.all())
    assert (rule.scope, rule.paused, rule.max_running, rule.by, rule.at) == ("all", True, 3, BY, verbs.clock.now())
    last = verbs.store.read(lambda tx: tx.journal.after(0, 1000))[-1]
    assert (last.kind, last.at) == ("database.restored", verbs.clock.now())
    assert dict(last.data) == {"backup_of": NOON.isoformat(), "may_have_run": ["t2"]}


def test_a_backup_without_open_tasks_pauses_nothing(verbs: Verbs) -> None:
    queued(verbs, "t1", state=TaskState.DONE, ended_at=NOON)
    staged = StagedCopy(verbs.store)
    make_fit(staged, reconcile_copy(verbs.store, FACTS, []), verbs.clock)
    assert verbs.store.read(lambda tx: tx.rules.all()) == [] and staged.skipped == [0]


def test_a_held_task_stays_held(verbs: Verbs) -> None:
    """A person resolves it; that it ran is known."""
    run = verbs.held()
    newer = described("x-t1-2", "t1", 12)
    make_fit(StagedCopy(verbs.store), reconcile_copy(verbs.store, FACTS, [newer]), verbs.clock)
    assert verbs.task().state is TaskState.HELD and verbs.run(run.id).state is RunState.HELD


def test_a_directory_of_another_run_takes_nothing_over(verbs: Verbs) -> None:
    """Of another fence, of another run, and of a run that is prepared already."""
    run = reserved(verbs, "t1")
    prepared = verbs.prepared("t2")
    wrong = [
        described(run.execution_id, "t1", run.fence + 1, begun=DIRECTORY),
        described(run.execution_id, "t1", run.fence, begun=DIRECTORY, run_id="t1.2"),
        described(prepared.execution_id, "t2", prepared.fence, begun=DIRECTORY),
    ]
    make_fit(StagedCopy(verbs.store), reconcile_copy(verbs.store, FACTS, wrong), verbs.clock)
    assert verbs.run().state is RunState.RESERVED
    assert verbs.run("t2.1").directory == prepared.directory


def test_a_reserved_run_without_a_directory_may_have_run(verbs: Verbs) -> None:
    """Its directory may have been removed since."""
    for number in range(3):
        queued(verbs, f"q{number}", spec=make_spec(cwd=f"/tmp/{number}"))
    run = reserved(verbs, "t1")
    assert reconcile_copy(verbs.store, FACTS, []).may_have_run == ("t1",)
    there = described(run.execution_id, "t1", run.fence)
    assert reconcile_copy(verbs.store, FACTS, [there]).may_have_run == ()
    assert reconcile_copy(verbs.store, FACTS, [there]).waiting == 4
