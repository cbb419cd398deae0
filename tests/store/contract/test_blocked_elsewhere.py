"""A checkout is taken on one machine: on another one a task that any may run is not kept by it."""

from support.records import NOON, add, make_spec, make_task, reserve, settle

from watchkeeper.app.claim import unblock_free_checkouts
from watchkeeper.app.lane_conditions import lane_conditions
from watchkeeper.domain.lanes import QueueRule, open_lanes
from watchkeeper.domain.model import Task
from watchkeeper.ports.store import BatchLimitReached, Store, Tx


def claimed(tx: Tx, machine: str) -> str | None:
    """What a machine claims, as a daemon's claim does it."""
    here = lane_conditions(tx, machine, 2, NOON)
    unblock_free_checkouts(tx, here)
    found = tx.queue.first(open_lanes(tx.queue.lanes(), here), machine)
    assert not isinstance(found, BatchLimitReached)
    return None if found is None else reserve(tx, found, machine).task_id


def on(store: Store, machine: str) -> str | None:
    return store.transact("claim", lambda tx: claimed(tx, machine))


def three(store: Store, machine: str | None) -> None:
    def work(tx: Tx) -> list[Task]:
        spec = make_spec(checkout="/x", machine=machine)
        return [add(tx, make_task(name, spec=spec)) for name in ("t1", "t2", "t3")]

    _ = store.transact("add", work)


def test_each_machine_works_in_its_own_checkout(store: Store) -> None:
    three(store, None)
    assert [on(store, each) for each in ("m1", "m1", "m2", "m2", "m1", "m3")] == ["t1", None, "t2", None, None, "t3"]
    assert store.read(lambda tx: tx.waits.audit()) == []


def test_a_task_of_one_machine_waits_for_its_own_checkout(store: Store) -> None:
    three(store, "m1")
    assert [on(store, each) for each in ("m1", "m2", "m1")] == ["t1", None, None]
    store.transact("settle", lambda tx: settle(tx, tx.runs.get("t1.1")))
    assert on(store, "m1") == "t2"


def test_a_machine_that_may_not_run_it_brings_nothing_back(store: Store) -> None:
    """Else it and the one that blocks would write in turn for as long as they wait."""
    three(store, None)
    assert on(store, "m1") == "t1"
    paused = QueueRule(scope="machine", name="m2", paused=True, by="me", at=NOON)
    store.transact("pause", lambda tx: tx.rules.put(paused))
    assert on(store, "m2") is None
    assert store.read(lambda tx: [tx.waits.facts(each).blocked for each in ("t2", "t3")]) == [True, True]
