"""What every database promises of transactions."""

import threading
from collections.abc import Callable

import pytest
from support.records import NOON, make_task

from watchkeeper.errors import DatabaseUnusable, WatchkeeperError
from watchkeeper.ports.store import Store


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_everything_or_nothing(store: Store, error: type[BaseException]) -> None:
    """What was written before an exception is gone, and the store continues."""

    def work(tx):
        tx.tasks.add(make_task())
        _ = tx.journal.append("task.added", NOON, task_id="t1")
        raise error

    with pytest.raises(error):
        store.transact("add", work)
    assert store.read(lambda tx: (tx.tasks.ids_like("", 9), tx.journal.last())) == ([], 0)
    store.transact("add", lambda tx: tx.tasks.add(make_task()))
    assert store.read(lambda tx: tx.tasks.ids_like("", 9)) == ["t1"]


@pytest.mark.parametrize("durable", [True, False])
def test_others_see_what_was_committed(store: Store, store_factory: Callable[[], Store], durable: bool) -> None:
    other = store_factory()
    assert store.transact("add", lambda tx: tx.tasks.add(make_task()) or "answer", durable=durable) == "answer"
    assert other.read(lambda tx: tx.tasks.get("t1")).id == "t1"


def test_a_read_sees_one_moment(store: Store, store_factory: Callable[[], Store]) -> None:
    """Others may commit meanwhile; a read does not see it and does not hinder it."""
    other = store_factory()

    def work(tx):
        before = tx.journal.last()
        other.transact("j", lambda inner: inner.journal.append("x", NOON))
        return before, tx.journal.last()

    assert store.read(work) == (0, 0)
    assert store.read(lambda tx: tx.journal.last()) == 1


def test_a_read_cannot_write(store: Store) -> None:
    with pytest.raises(WatchkeeperError):
        store.read(lambda tx: tx.tasks.add(make_task()))
    assert store.read(lambda tx: tx.tasks.ids_like("", 9)) == []


def test_a_transaction_inside_another_is_refused(store: Store) -> None:
    """It would wait for itself forever."""
    for inner in (
        lambda: store.read(lambda tx: None),
        lambda: store.transact("b", lambda tx: None),
        lambda: store.changed(0),
    ):
        with pytest.raises(RuntimeError):
            store.transact("a", lambda tx, i=inner: i())
        with pytest.raises(RuntimeError):
            store.read(lambda tx, i=inner: i())
    assert store.read(lambda tx: tx.journal.last()) == 0


def test_changes_are_noticed(store: Store, store_factory: Callable[[], Store]) -> None:
    """Whichever store made them; nothing else is taken for a change."""
    other = store_factory()
    _, mark = store.changed(-1)
    for writer in (store, other, store):
        assert store.changed(mark) == (False, mark)
        _ = writer.transact("j", lambda tx: tx.journal.append("x", NOON))
        changed, newer = store.changed(mark)
        assert changed and newer != mark
        mark = newer
    _ = store.read(lambda tx: tx.journal.last())
    store.transact("nothing", lambda tx: None)
    other.transact("nothing", lambda tx: None)
    assert store.changed(mark) == (False, mark)


def test_threads_take_turns(store: Store) -> None:
    """A daemon writes from a worker thread while it reads in another."""
    failed: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(25):
                _ = store.transact("j", lambda tx: tx.journal.append("x", NOON), durable=False)
                _ = store.read(lambda tx: tx.journal.last())
                _ = store.changed(0)
        except BaseException as error:  # noqa: BLE001 - shown below
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    assert store.read(lambda tx: tx.journal.last()) == 100


def test_a_closed_store_says_so(store: Store) -> None:
    store.close()
    store.close()
    with pytest.raises(DatabaseUnusable, match="closed"):
        store.read(lambda tx: tx.journal.last())
