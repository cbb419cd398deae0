"""Decisions that share a transaction: few commits, and the failure of one is its own."""

import threading
from collections.abc import Callable
from typing import TypeVar, cast

import pytest
from app.stage import Verbs
from runtimes.stage import AT
from support.waiting import wait_until

from watchkeeper.app import together
from watchkeeper.app.record_stop import record_stops
from watchkeeper.app.together import JoinedStore, transact_all
from watchkeeper.domain.model import RunState, StopHow, StopRequest, TaskState
from watchkeeper.errors import DatabaseFull, DatabaseUnusable, NoSuchTask, RecordTorn, Refused
from watchkeeper.ports.store import Store, Tx

T = TypeVar("T")

REQUEST = StopRequest(how=StopHow.STOP, by="ada", at=AT, grace_s=None)


class CountingStore:
    """A database that counts transactions, and whose write lock a test may hold."""

    def __init__(self, verbs: Verbs) -> None:
        self._store = verbs.store
        self.tries = 0
        self.let_go = threading.Event()
        self.let_go.set()
        self.away: DatabaseUnusable | None = None

    def transact(self, name: str, work: Callable[[Tx], T], *, durable: bool = True) -> T:
        self.tries += 1
        assert self.let_go.wait(20)
        if self.away is not None:
            raise self.away
        return self._store.transact(name, work, durable=durable)


@pytest.fixture
def counting(verbs: Verbs, monkeypatch: pytest.MonkeyPatch) -> CountingStore:
    monkeypatch.setattr(together, "LONGEST_S", 60.0)  # also on a busy machine
    return CountingStore(verbs)


def _tell(kind: str, problem: Exception | None = None) -> Callable[[Tx], str]:
    """Write an entry, and fail after that if there is a problem."""

    def work(tx: Tx) -> str:
        _ = tx.journal.append(kind, AT)
        if problem is not None:
            raise problem
        return kind

    return work


def _transact(store: CountingStore, works: list[Callable[[Tx], str]]) -> list[object]:
    results = transact_all(cast("Store", store), "test", works)
    return [result.value if result.problem is None else result.problem for result in results]


def test_many_decisions_are_one_transaction(verbs: Verbs, counting: CountingStore) -> None:
    assert _transact(counting, [_tell("a"), _tell("b"), _tell("c")]) == ["a", "b", "c"]
    assert verbs.kinds() == ["a", "b", "c"]
    assert counting.tries == 1


@pytest.mark.parametrize(
    "problem",
    [
        Refused("It is not allowed."),
        RecordTorn(place="run", key="r", reason="it is torn", task_id="t"),
        ValueError("a bug"),
    ],
    ids=["refused", "torn", "bug"],
)
def test_one_that_fails_keeps_no_other_from_being_recorded(
    verbs: Verbs, counting: CountingStore, problem: Exception
) -> None:
    """And nothing of it is recorded, though it has written before it failed."""
    assert _transact(counting, [_tell("a"), _tell("b", problem), _tell("c")]) == ["a", problem, "c"]
    assert verbs.kinds() == ["a", "c"]


def test_a_database_that_is_away_is_asked_once(verbs: Verbs, counting: CountingStore) -> None:
    """Each attempt may wait for ten seconds."""
    counting.away = DatabaseFull("The disk is full.")
    assert _transact(counting, [_tell("a"), _tell("b"), _tell("c")]) == [counting.away] * 3
    assert counting.tries == 1
    assert verbs.kinds() == []


def test_a_transaction_that_has_taken_its_time_takes_up_no_more(
    verbs: Verbs, counting: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "LONGEST_S", 0.0)
    assert _transact(counting, [_tell("a"), _tell("b"), _tell("c")]) == ["a", "b", "c"]
    assert counting.tries == 3
    assert verbs.kinds() == ["a", "b", "c"]


def test_threads_that_wait_at_the_same_time_share_a_transaction(verbs: Verbs, counting: CountingStore) -> None:
    """Each gets its own result, and its own failure."""
    joined = JoinedStore(cast("Store", counting))
    found: dict[str, object] = {}

    def record(kind: str, problem: Exception | None = None) -> None:
        try:
            found[kind] = joined.transact("test", _tell(kind, problem))
        except Refused as refusal:
            found[kind] = refusal

    refusal = Refused("It is not allowed.")
    counting.let_go.clear()
    first = threading.Thread(target=record, args=("first",))
    first.start()
    wait_until(lambda: counting.tries == 1, within_s=10, what="the first one has its turn")
    others = [threading.Thread(target=record, args=(f"other {number}",)) for number in range(6)]
    others.append(threading.Thread(target=record, args=("bad", refusal)))
    for other in others:
        other.start()
    wait_until(lambda: joined.waiting == len(others), within_s=10, what="all others wait")
    counting.let_go.set()
    for thread in (first, *others):
        thread.join()
    kinds = {"first", *(f"other {number}" for number in range(6))}
    assert found == {**{kind: kind for kind in kinds}, "bad": refusal}
    assert sorted(verbs.kinds()) == sorted(kinds)
    assert counting.tries == 1 + 1 + len(others), "the shared one was refused because of one of them"


def test_many_stops_are_few_transactions(verbs: Verbs, counting: CountingStore) -> None:
    """A task that is not there keeps no other from being stopped."""
    run = verbs.prepared("t1")
    verbs.held("t2")
    results = record_stops(cast("Store", counting), verbs.clock, ["t1", "t2"], REQUEST)
    assert [result.get().stop is not None for result in results] == [True, True]
    assert counting.tries == 1
    assert verbs.state(run.id) is RunState.PREPARED
    assert verbs.task("t2").state is TaskState.STOPPED
    verbs.prepared("t3")
    results = record_stops(cast("Store", counting), verbs.clock, ["gone", "t3"], REQUEST)
    assert isinstance(results[0].problem, NoSuchTask)
    assert results[1].get().stop == verbs.task("t3").stop == REQUEST
