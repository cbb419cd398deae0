"""Messages and turns are kept as they were, by either database, and guarded like every other row."""

from dataclasses import replace
from datetime import timedelta

import pytest
from support.records import NOON, add, make_task, reserve

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.message import Message, MessageState, Turn
from watchkeeper.errors import Stale
from watchkeeper.ports.store import Store, Tx

FIRST = Message(task_id="t1", number=1, text="Go on, \x1b é 語 \U0001f600 '; --", by="me", at=NOON)


def begun(store: Store) -> None:
    """A task with a run and a message."""

    def work(tx: Tx) -> None:
        _ = reserve(tx, add(tx, make_task("t1")))
        tx.messages.add(FIRST, "k")

    store.transact("test", work)


def test_a_message_is_kept_as_it_was_sent_and_found_by_its_key(store: Store) -> None:
    begun(store)
    assert store.read(lambda tx: (tx.messages.of_task("t1"), tx.messages.waiting("t1"))) == ([FIRST], [FIRST])
    assert store.read(lambda tx: tx.messages.keyed("t1", "k")) == FIRST
    assert store.read(lambda tx: (tx.messages.keyed("t1", "x"), tx.messages.keyed("t2", "k"))) == (None, None)
    assert store.read(lambda tx: (tx.messages.count("t1"), tx.messages.count("t2"))) == (1, 0)


@pytest.mark.parametrize(("number", "key"), [(1, "other"), (2, "k")])
def test_a_number_or_a_key_stands_for_one_message(store: Store, number: int, key: str) -> None:
    begun(store)
    with pytest.raises(Stale):
        store.transact("test", lambda tx: tx.messages.add(replace(FIRST, number=number), key))
    assert store.read(lambda tx: tx.messages.of_task("t1")) == [FIRST]


def test_a_message_is_written_over_only_what_was_read_and_never_after_its_end(store: Store) -> None:
    begun(store)
    taken = replace(FIRST, state=MessageState.TAKEN, run_id="t1.1", tries=1, kind=FailureKind.CRASH, continues=True)
    store.transact("test", lambda tx: tx.messages.save(taken, FIRST))
    assert store.read(lambda tx: (tx.messages.waiting("t1"), tx.messages.taken("t1"))) == ([], [taken])
    with pytest.raises(Stale):
        store.transact("test", lambda tx: tx.messages.save(replace(FIRST, text="Another."), FIRST))
    ended = replace(taken, state=MessageState.ANSWERED, kind=None, settled_at=NOON + timedelta(seconds=1))
    store.transact("test", lambda tx: tx.messages.save(ended, taken))
    assert store.read(lambda tx: tx.messages.of_task("t1")) == [ended]
    with pytest.raises(Stale):
        store.transact("test", lambda tx: tx.messages.save(FIRST, ended))


def test_what_a_run_is_given_is_recorded_once(store: Store) -> None:
    begun(store)
    turn = Turn(run_id="t1.1", task_id="t1", session="s-1", machine="m", numbers=(1, 2))
    store.transact("test", lambda tx: tx.messages.add_turn(turn))
    assert store.read(lambda tx: (tx.messages.turn("t1.1"), tx.messages.turn("t1.2"))) == (turn, None)
    with pytest.raises(Stale):
        store.transact("test", lambda tx: tx.messages.add_turn(replace(turn, session=None)))
    assert store.read(lambda tx: tx.messages.turn("t1.1")) == turn
