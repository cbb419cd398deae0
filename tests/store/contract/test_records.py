"""What every database promises of outcomes, authorisations, the journal, the outbox and machines."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from support.records import NOON, add, later, make_outcome, make_task, reserve, settle

from watchkeeper.domain.check_verdict import CheckVerdict
from watchkeeper.domain.effects import EFFECTS, EndExecution, ForgetEnvironment, RemoveExecution, StartShim
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import (
    Changes,
    Disposition,
    EndReason,
    ExitFact,
    FileChange,
    Leftover,
    OutcomeStatus,
    Proof,
    Result,
    Run,
    RunState,
    StopHow,
    TaskState,
    Usage,
)
from watchkeeper.errors import Stale
from watchkeeper.ports.store import Authorisation, MachineRecord, Store

EFFECT_LIST = (
    StartShim(run_id="t1.1", fence=1, execution_id="x"),
    EndExecution(run_id="t1.1", fence=1, execution_id="x", how=StopHow.KILL, grace_s=1.5, why=EndReason.EARLY_FAIL),
    EndExecution(run_id="t1.1", fence=1, execution_id="x", how=StopHow.STOP, why=EndReason.STOP),
    ForgetEnvironment(environment_id="e"),
    RemoveExecution(run_id="t1.1", task_id="t1", fence=1, execution_id="x", device=1, inode=1 << 63, keep_logs=True),
    RemoveExecution(run_id="t1.1", task_id="t1", fence=1, execution_id="x", device=None, inode=None, keep_logs=False),
)


@pytest.fixture
def run(store: Store) -> Run:
    """A reserved run of a task."""
    return store.transact("claim", lambda tx: reserve(tx, add(tx, make_task())))


def allow(number: int, task_id: str = "t1") -> Authorisation:
    """Somebody's word."""
    return Authorisation(id=f"a{number}", task_id=task_id, kind="person", by="me", detail="in /tmp", at=later(number))


MOVED = FileChange(path="b", change="renamed", old="a\n", insertions=2, deletions=1, is_binary=False, is_committed=True)
KEPT: dict[str, Any] = {
    "ignored": ("node_modules/",), "ignored_in_all": 2, "base": "b" * 40, "tip": "c" * 40, "repository": "/r/.git",
    "not_kept": "why", "left_out": ("large\udcff",),
}  # fmt: skip


def test_an_outcome_comes_back_as_it_was_decided(store: Store, run: Run) -> None:
    """Whatever a program says of itself is kept, absurd numbers and broken text included."""
    outcome = make_outcome(
        run, status=OutcomeStatus.FAILED, disposition=Disposition.RETRY, kind=FailureKind.OVERLOADED, reason="R", wake_at=later(9),
        proof=Proof.SWEPT, text="said \ud83d \x00", harness_session="s\udcff", model="m", turns=10**30, tool_calls=2**70,
        exit=ExitFact(status=9, reason=EndReason.KILL, at=later(1), elapsed_s=0.25, errno=5, max_rss_kib=10),
        usage=Usage(input_tokens=2**64, output_tokens=1, cached_tokens=0, cost_usd=0.125),
        changes=Changes(known=True, files=(FileChange(path="a\udcff", change="added"), MOVED), commits=("c1",), truncated=True, **KEPT),
        result=Result.COMMITTED,
        leftovers=(Leftover(pid=7, command="sleep 9"),),
    )  # fmt: skip

    def work(tx):
        ended = replace(run, state=RunState.ENDED, kind=FailureKind.LOST)
        tx.runs.save(ended, run)
        tx.runs.save(replace(ended, state=RunState.SETTLED, settled_at=NOON), ended)
        tx.outcomes.add(outcome)
        task = tx.tasks.get("t1")
        tx.tasks.save(replace(task, state=TaskState.QUEUED, run_id=None, wake_at=later(9)), task)

    assert store.read(lambda tx: tx.outcomes.get(run.id)) is None
    store.transact("settle", work)
    assert store.read(lambda tx: tx.outcomes.get(run.id)) == outcome


def test_lists_read_the_class_of_an_outcome(store: Store, run: Run) -> None:
    """Of the run of that number; an outcome of an older version has none."""

    def settled(each: Run, **given: Any) -> None:
        def work(tx):
            ended = replace(each, state=RunState.ENDED, kind=FailureKind.LOST)
            tx.runs.save(ended, each)
            tx.runs.save(replace(ended, state=RunState.SETTLED, settled_at=NOON), ended)
            tx.outcomes.add(make_outcome(each, **given))
            task = tx.tasks.get("t1")
            tx.tasks.save(replace(task, state=TaskState.QUEUED, run_id=None), task)

        store.transact("settle", work)

    assert store.read(lambda tx: tx.tasks.came_to("t1", 1)) == (None, None)
    settled(run, verdict=CheckVerdict.FAILED, result=Result.UNCHANGED)
    settled(store.transact("claim", lambda tx: reserve(tx, tx.tasks.get("t1"))))
    assert [store.read(lambda tx, at=at: tx.tasks.came_to("t1", at)) for at in (1, 2, 3)] == [
        ("unchanged", "failed"),
        (None, None),
        (None, None),
    ]


def test_not_a_number_is_unknown(store: Store, run: Run) -> None:
    """A program that prints NaN for its cost must not keep its run from being settled."""
    outcome = make_outcome(run, usage=Usage(cost_usd=float("nan")))

    def work(tx):
        tx.outcomes.add(outcome)
        ended = replace(run, state=RunState.ENDED, kind=FailureKind.LOST)
        tx.runs.save(ended, run)
        tx.runs.save(replace(ended, state=RunState.SETTLED, settled_at=NOON), ended)
        task = tx.tasks.get("t1")
        tx.tasks.save(replace(task, state=TaskState.DONE, run_id=None, ended_at=NOON), task)

    store.transact("settle", work)
    stored = store.read(lambda tx: tx.outcomes.get(run.id))
    assert stored is not None and stored.usage == Usage()


def test_an_outcome_is_decided_once(store: Store, run: Run) -> None:
    """R11."""
    store.transact("settle", lambda tx: settle(tx, run))
    before = store.read(lambda tx: tx.outcomes.get(run.id))
    with pytest.raises(Stale):
        store.transact("settle", lambda tx: tx.outcomes.add(make_outcome(run, reason="second thoughts")))
    assert store.read(lambda tx: tx.outcomes.get(run.id)) == before


def test_the_newest_authorisation_counts(store: Store) -> None:
    store.transact("add", lambda tx: tx.tasks.add(make_task()))
    assert store.read(lambda tx: tx.outcomes.authorisation("t1")) is None
    for number in (2, 1):
        store.transact("allow", lambda tx, n=number: tx.outcomes.authorise(allow(n)))
    assert store.read(lambda tx: tx.outcomes.authorisation("t1")) == allow(1)


@pytest.mark.parametrize("wrong", [allow(1), allow(2, task_id="ghost")], ids=["id taken", "no such task"])
def test_an_authorisation_that_cannot_be(store: Store, wrong: Authorisation) -> None:
    store.transact("add", lambda tx: (tx.tasks.add(make_task()), tx.outcomes.authorise(allow(1))))
    with pytest.raises(Stale):
        store.transact("allow", lambda tx: tx.outcomes.authorise(wrong))


def test_a_launch_is_counted_once(store: Store, run: Run) -> None:
    """R9: one launch per run, and only under an authorisation that is there."""
    store.transact("allow", lambda tx: tx.outcomes.authorise(allow(1)))
    with pytest.raises(Stale):
        store.transact("launch", lambda tx: tx.outcomes.record_launch(run, "ghost"))
    store.transact("launch", lambda tx: tx.outcomes.record_launch(run, "a1"))
    with pytest.raises(Stale):
        store.transact("launch", lambda tx: tx.outcomes.record_launch(run, "a1"))


def test_the_journal_goes_in_order(store: Store, run: Run) -> None:
    assert store.read(lambda tx: tx.journal.last()) == 0
    data = {"text": "ü\udcff", "number": 1, "list": [1, None]}
    first = store.transact("j", lambda tx: tx.journal.append("run.seen", NOON, run=run, data=data))
    second = store.transact("j", lambda tx: tx.journal.append("daemon.started", later(1)))
    third = store.transact("j", lambda tx: tx.journal.append("task.added", later(2), task_id="t1"))
    assert first < second < third == store.read(lambda tx: tx.journal.last())
    entries = store.read(lambda tx: tx.journal.after(0, 10))
    assert [(e.seq, e.kind, e.task_id, e.run_id, e.fence) for e in entries] == [
        (first, "run.seen", "t1", run.id, run.fence),
        (second, "daemon.started", None, None, None),
        (third, "task.added", "t1", None, None),
    ]
    assert (entries[0].data, entries[1].data, entries[1].at) == (data, {}, later(1))
    assert [e.seq for e in store.read(lambda tx: tx.journal.after(0, 10, "t1"))] == [first, third]
    assert [e.seq for e in store.read(lambda tx: tx.journal.after(first, 1))] == [second]


def test_a_number_of_the_journal_is_not_given_twice(store: Store) -> None:
    def fails(tx):
        _ = tx.journal.append("a", NOON)
        raise KeyError

    with pytest.raises(KeyError):
        store.transact("j", fails)
    assert store.transact("j", lambda tx: tx.journal.append("b", NOON)) == 1
    assert [e.kind for e in store.read(lambda tx: tx.journal.after(0, 9))] == ["b"]


def test_the_effects_of_the_test_are_all_there_are() -> None:
    assert {type(effect) for effect in EFFECT_LIST} == set(EFFECTS)


def test_effects_wait_until_they_are_done(store: Store) -> None:
    store.transact("put", lambda tx: tx.outbox.put(EFFECT_LIST, NOON))
    assert store.read(lambda tx: tx.outbox.due(later(-1), 10)) == []
    rows = store.read(lambda tx: tx.outbox.due(NOON, 10))
    assert [row.effect for row in rows] == list(EFFECT_LIST)
    assert [row.id for row in store.read(lambda tx: tx.outbox.due(NOON, 2))] == [row.id for row in rows[:2]]
    store.transact("again", lambda tx: tx.outbox.again(rows[0].id, later(5)))
    store.transact("done", lambda tx: tx.outbox.done(rows[1].id))
    store.transact("done", lambda tx: tx.outbox.done(rows[1].id))
    assert [row.id for row in store.read(lambda tx: tx.outbox.due(NOON, 10))] == [row.id for row in rows[2:]]
    assert store.read(lambda tx: tx.outbox.due(later(5), 1))[0] == replace(rows[0], attempts=1, not_before=later(5))
    assert store.read(lambda tx: (tx.outbox.pending(), tx.outbox.next_due())) == (len(rows) - 1, NOON)


def test_a_clock_that_was_set_back_delays_no_effect(store: Store) -> None:
    """An effect was put, and put off, by a clock an hour ahead: it is due at once; one that waits its few seconds is not."""
    store.transact("put", lambda tx: tx.outbox.put(EFFECT_LIST[:2], later(3600)))
    rows = store.read(lambda tx: tx.outbox.due(NOON, 10))
    assert [row.effect for row in rows] == list(EFFECT_LIST[:2])
    store.transact("again", lambda tx: tx.outbox.again(rows[0].id, later(30)))
    assert [row.id for row in store.read(lambda tx: tx.outbox.due(NOON, 10))] == [rows[1].id]


def test_an_empty_outbox(store: Store) -> None:
    assert store.read(lambda tx: (tx.outbox.pending(), tx.outbox.next_due(), tx.outbox.due(NOON, 5))) == (0, None, [])


def test_machines_count_their_daemons(store: Store, store_factory: Callable[[], Store]) -> None:
    assert store.read(lambda tx: tx.machines.get("m1")) is None
    first = store.transact("m", lambda tx: tx.machines.begin_incarnation("m1", "b1", NOON))
    second = store.transact("m", lambda tx: tx.machines.begin_incarnation("m1", "b2", later(1)))
    assert (first.incarnation, second) == (1, MachineRecord(id="m1", incarnation=2, boot_id="b2", started_at=later(1)))
    other = store_factory()
    assert other.read(lambda tx: tx.machines.get("m1")) == second
    assert other.transact("m", lambda tx: tx.machines.begin_incarnation("m2", "b2", NOON)).incarnation == 1
    ids = [one.read(lambda tx: tx.machines.database_id()) for one in (store, other)]
    assert ids[0] == ids[1]
    assert len(ids[0]) >= 32
