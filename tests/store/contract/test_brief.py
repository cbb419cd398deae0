"""What every database tells lists of a task's wait, in one question; the whole queue in its order; and whom a claim passed over."""

from dataclasses import replace

import pytest
from support.records import NOON, add, claim, end, later, make_spec, make_task

from watchkeeper.domain.model import StopHow, StopRequest, TaskState
from watchkeeper.domain.wait import BriefWait, Wait
from watchkeeper.errors import NoSuchTask
from watchkeeper.ports.store import Store

NOTHING = BriefWait(ready=True, unmet=0, on=None, on_state=None, blocked=False, holder=None, lane_announced=None)


def put(store: Store, name: str, **spec: object) -> None:
    """Add a task with that spec."""
    store.transact("add", lambda tx: add(tx, replace(make_task(name), spec=make_spec(**spec))))


def brief(store: Store, name: str) -> BriefWait:
    return store.read(lambda tx: tx.tasks.brief(name))


def test_nothing_keeps_a_plain_task(store: Store) -> None:
    put(store, "t1")
    assert brief(store, "t1") == NOTHING
    with pytest.raises(NoSuchTask):
        brief(store, "t2")


def test_a_dependency_that_failed_is_named_before_the_others(store: Store) -> None:
    for name in ("p1", "p2", "p3"):
        put(store, name)
    put(store, "child", after=("p1", "p2", "p3"))
    assert brief(store, "child") == NOTHING._replace(unmet=3, on="p1", on_state="queued")

    def stop(tx) -> None:
        was = tx.tasks.get("p2")
        wish = StopRequest(how=StopHow.STOP, by="me", at=NOON)
        tx.tasks.save(replace(was, state=TaskState.STOPPED, stop=wish, ended_at=NOON), was)

    store.transact("stop", stop)
    assert brief(store, "child") == NOTHING._replace(unmet=3, on="p2", on_state="stopped")


def test_a_time_and_a_checkout(store: Store) -> None:
    timed = make_task("late", wake_at=later(5), wake_for=Wait.NOT_BEFORE)
    store.transact("add", lambda tx: tx.tasks.add(timed))
    assert brief(store, "late") == NOTHING._replace(ready=False)
    put(store, "holder", checkout="/src", priority=9)
    assert store.transact("claim", claim) is not None
    put(store, "next", checkout="/src")
    put(store, "elsewhere", checkout="/src", machine="m2")
    assert brief(store, "next") == NOTHING._replace(blocked=True, holder="holder")
    assert brief(store, "elsewhere").holder is None


def test_what_was_told_of_its_lane(store: Store) -> None:
    put(store, "here", machine="m1")
    put(store, "any")
    lanes = {name: store.read(lambda tx, n=name: tx.waits.facts(n).lane) for name in ("here", "any")}
    for machine, name in (("m2", "here"), ("m2", "any")):
        store.transact("tell", lambda tx, m=machine, n=name: tx.rules.announce(m, lanes[n], "paused", NOON))
    assert brief(store, "here").lane_announced is None
    assert brief(store, "any").lane_announced == "paused"


def test_the_queue_in_its_order(store: Store) -> None:
    for name, priority in (("b", 0), ("a", 0), ("low", -1), ("high", 1)):
        put(store, name, priority=priority)
    assert store.read(lambda tx: tx.queue.waiting(10)) == ["high", "b", "a", "low"]
    assert store.read(lambda tx: tx.queue.waiting(1)) == ["high"]
    claimed = store.transact("claim", claim)
    assert claimed is not None and claimed.task_id == "high"
    assert store.read(lambda tx: tx.queue.waiting(10)) == ["b", "a", "low"]


def test_whom_a_claim_passed_over_is_told_once(store: Store) -> None:
    """One that becomes ready when its checkout is taken already."""
    late = replace(make_task("late", wake_at=later(5)), spec=make_spec(checkout="/src", harness="h2"))
    store.transact("add", lambda tx: tx.tasks.add(late))
    put(store, "holder", checkout="/src")
    claimed = store.transact("claim", claim)
    assert claimed is not None

    def look() -> list[tuple[str, str]]:
        told: list[tuple[str, str]] = []

        def work(tx) -> None:
            told.clear()
            _ = tx.queue.wake(later(6))
            assert tx.queue.first(tx.queue.lanes(), "m1", lambda task, holder: told.append((task, holder))) is None

        store.transact("look", work)
        return told

    assert look() == [("late", "holder")]
    assert look() == []
    held = store.transact("end", lambda tx: end(tx, tx.runs.get(claimed.run_id)))
    assert store.read(lambda tx: tx.waits.facts("late").holders) == (held.task_id,)
    assert store.read(lambda tx: tx.waits.facts("late").held) == ()


def test_labels_by_their_beginning(store: Store) -> None:
    put(store, "a", labels=("chores", "chat"))
    put(store, "b", labels=("chores", "other"))
    assert store.read(lambda tx: tx.tasks.labels("ch", 9)) == ["chat", "chores"]
    assert store.read(lambda tx: tx.tasks.labels("", 1)) == ["chat"]
    assert store.read(lambda tx: tx.tasks.labels("x", 9)) == []
