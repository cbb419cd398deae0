"""What every database promises of how far sinks are."""

from support.records import NOON, later

from watchkeeper.domain.notice import SinkName, SinkState
from watchkeeper.ports.store import Store

TRIED = SinkState(
    machine="m1", sink=SinkName.WEBHOOK, seq=7, attempts=3, since=NOON, due_at=later(60), problem="it is döwn"
)  # fmt: skip


def test_how_far_a_sink_was_told_is_kept_for_each_machine(store: Store) -> None:
    other = SinkState(machine="m2", sink=SinkName.WEBHOOK, seq=9)
    first = SinkState(machine="m1", sink=SinkName.COMMAND, seq=0)
    for state in (TRIED, other, first):
        store.transact("put", lambda tx, state=state: tx.notices.put(state))
    assert store.read(lambda tx: tx.notices.all()) == [first, TRIED, other]
    assert store.read(lambda tx: tx.notices.of_machine("m1")) == [first, TRIED]


def test_the_newest_state_of_a_sink_holds(store: Store) -> None:
    told = SinkState(machine="m1", sink=SinkName.WEBHOOK, seq=8)
    store.transact("put", lambda tx: tx.notices.put(TRIED))
    store.transact("put", lambda tx: tx.notices.put(told))
    assert store.read(lambda tx: tx.notices.all()) == [told]


def test_a_sink_that_is_dropped_is_forgotten_on_one_machine(store: Store) -> None:
    other = SinkState(machine="m2", sink=SinkName.WEBHOOK, seq=9)
    for state in (TRIED, other):
        store.transact("put", lambda tx, state=state: tx.notices.put(state))
    store.transact("drop", lambda tx: tx.notices.drop("m1", SinkName.WEBHOOK))
    store.transact("drop", lambda tx: tx.notices.drop("m1", SinkName.COMMAND))
    assert store.read(lambda tx: tx.notices.all()) == [other]
