"""What every database promises of the queue."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.records import NOON, add, at_work, claim, first, later, make_task, settle
from support.stores import KINDS, fresh_place, open_place

from watchkeeper.domain.model import StopHow, StopRequest
from watchkeeper.errors import Stale
from watchkeeper.ports.store import Claim, OperationRecord, Store
from watchkeeper.store.queue import WAKE_AT_ONCE


def next_id(store: Store, seconds: float = 0) -> str | None:
    """Which task is next at that time."""
    task = store.transact("look", lambda tx: first(tx, later(seconds)))
    return None if task is None else task.id


def test_nothing_is_ready_in_an_empty_queue(store: Store) -> None:
    assert next_id(store) is None
    assert store.read(lambda tx: tx.queue.next_wake()) is None
    assert store.read(at_work) == 0


def test_priority_then_age(store: Store) -> None:
    for name, priority in (("old", 0), ("low", -5), ("high", 9), ("high2", 9)):
        store.transact("add", lambda tx, n=name, p=priority: tx.tasks.add(make_task(n, priority=p)))
    order = []
    while (claimed := store.transact("claim", claim)) is not None:
        order.append(claimed.task_id)
    assert order == ["high", "high2", "old", "low"]
    assert store.read(at_work) == 4


def test_a_waiting_task_is_not_ready_before_its_time(store: Store) -> None:
    store.transact("add", lambda tx: tx.tasks.add(make_task(wake_at=later(10))))
    assert store.read(lambda tx: tx.queue.next_wake()) == later(10)
    assert next_id(store, 9.999999) is None
    assert next_id(store, 10) == "t1"


def test_becoming_ready_changes_nothing_that_anybody_sees(store: Store) -> None:
    """A task that was read before its time came can be saved afterwards."""
    was = store.transact("add", lambda tx: add(tx, make_task(wake_at=later(10))))
    assert next_id(store, 10) == "t1"
    assert store.read(lambda tx: tx.tasks.get("t1")) == was
    store.transact("save", lambda tx: tx.tasks.save(replace(was, wake_at=later(20)), was))
    assert next_id(store, 15) is None
    assert store.read(lambda tx: tx.queue.next_wake()) == later(20)


def test_a_stopped_task_is_never_ready(store: Store) -> None:
    was = store.transact("add", lambda tx: add(tx, make_task()))
    stop = StopRequest(how=StopHow.STOP, by="me", at=NOON)
    store.transact("stop", lambda tx: tx.tasks.save(replace(was, stop=stop), was))
    assert next_id(store, 100) is None
    assert store.read(lambda tx: tx.queue.next_wake()) is None


def test_more_due_at_once_than_are_made_ready_at_once(store: Store) -> None:
    """The best of many that come due together is first, though only some are made ready by one look."""
    many = WAKE_AT_ONCE * 2 + 5

    def work(tx):
        for number in range(many):
            tx.tasks.add(make_task(f"n{number:04}", priority=number % 7, wake_at=later(number / 1000)))

    store.transact("add", work, durable=False)
    best = [store.transact("claim", lambda tx: claim(tx, later(10)), durable=False) for _ in range(many)]
    tasks = [store.read(lambda tx, c=one: tx.tasks.get(c.task_id)) for one in best if one]
    order = [(-task.spec.priority, task.id) for task in tasks]
    assert len(order) == many
    assert order == sorted(order)


@pytest.mark.parametrize("where", KINDS)
@settings(max_examples=25)
@given(
    tasks=st.lists(st.tuples(st.integers(-2, 2), st.one_of(st.none(), st.integers(0, 6))), max_size=12),
    now=st.integers(0, 6),
)
def test_the_next_is_the_best_of_the_due(where: str, tasks, now) -> None:
    with fresh_place(where) as place:
        store = open_place(place)
        due = []
        for number, (priority, wake) in enumerate(tasks):
            task = make_task(f"n{number:02}", priority=priority, wake_at=None if wake is None else later(wake))
            store.transact("add", lambda tx, t=task: tx.tasks.add(t), durable=False)
            if wake is None or wake <= now:
                due.append((-priority, task.id))
        assert next_id(store, now) == (min(due)[1] if due else None)
        store.close()


def test_a_retry_waits_and_comes_back_at_its_old_place(store: Store) -> None:
    for name in ("a", "b"):
        store.transact("add", lambda tx, n=name: tx.tasks.add(make_task(n)))
    claimed = store.transact("claim", claim)
    assert claimed is not None
    store.transact("settle", lambda tx: settle(tx, tx.runs.get(claimed.run_id), wake_at=later(5)))
    assert next_id(store, 4) == "b"
    assert next_id(store, 5) == "a"


def test_an_operation_claims_once(store: Store) -> None:
    """Asking again with the same id gives the same claim, so an answer that was lost costs nothing."""
    for name in ("a", "b"):
        store.transact("add", lambda tx, n=name: tx.tasks.add(make_task(n)))
    first = store.transact("claim", lambda tx: claim(tx, NOON, "op1"))
    assert store.transact("claim", lambda tx: claim(tx, NOON, "op1")) == first
    assert store.read(lambda tx: tx.queue.operation("op1")) == OperationRecord(claim=first)
    assert store.read(lambda tx: tx.queue.operation("op2")) is None
    second = store.transact("claim", lambda tx: claim(tx, NOON, "op2"))
    fences = [one.fence for one in (first, second) if one]
    assert len(fences) == 2
    assert all(older < newer for older, newer in pairwise(fences))


def test_what_an_operation_was_used_for_never_changes(store: Store) -> None:
    store.transact("add", lambda tx: tx.tasks.add(make_task()))
    first = store.transact("claim", lambda tx: claim(tx, NOON, "op1"))
    for again in (first, Claim(task_id="x", run_id="x.1", fence=77), None):
        with pytest.raises(Stale):
            store.transact("use", lambda tx, a=again: tx.queue.record_operation("op1", a, at=NOON))
    assert store.read(lambda tx: tx.queue.operation("op1")) == OperationRecord(claim=first)
