"""What every database promises of runs and their claims."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from support.records import NOON, add, at_work, end, later, make_outcome, make_run, make_task, reserve, settle

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import (
    AgentIdentity,
    DirectoryIdentity,
    EarlyFail,
    EndReason,
    ExitFact,
    Proof,
    Run,
    RunState,
    StopHow,
    TaskState,
)
from watchkeeper.errors import NotFound, Stale, WatchkeeperError
from watchkeeper.ports.store import Store, Tx

DIRECTORY = DirectoryIdentity(device=2**64 - 5, inode=2**63 + 9)
AGENT = AgentIdentity(pid=4242, start_ticks=10**12, boot_id="b", started_at=later(1))
EXIT = ExitFact(status=256, reason=EndReason.EXITED, at=later(3), elapsed_s=2.25, errno=None, max_rss_kib=77)


@pytest.fixture
def run(store: Store) -> Run:
    """A reserved run of a task."""
    return store.transact("claim", lambda tx: reserve(tx, add(tx, make_task())))


def through(store: Store, run: Run, *steps: Mapping[str, object]) -> Run:
    """Save step after step, each in a transaction of its own."""
    for step in steps:
        after = replace(run, **step)
        store.transact("save", lambda tx, a=after, b=run: tx.runs.save(a, b))
        run = after
    return run


PREPARED = {"state": RunState.PREPARED, "directory": DIRECTORY}
STARTING = {"state": RunState.STARTING, "shim_started_at": later(0.5)}
RUNNING = {"state": RunState.RUNNING, "agent": AGENT, "harness_session": "conversation"}


def test_every_fact_comes_back(store: Store, run: Run) -> None:
    """A run keeps what is found out about it, step by step, to its end."""
    steps = [
        PREPARED, STARTING, RUNNING,
        {"early_fail": EarlyFail(kind=FailureKind.QUOTA, reason="used up"), "stop_told": StopHow.KILL},
        {"state": RunState.ENDED, "exit": EXIT},
        {"state": RunState.HELD, "kind": FailureKind.UNKNOWN, "reason": "?", "proof": Proof.SWEPT},
    ]  # fmt: skip
    for step in steps:
        run = through(store, run, step)
        assert store.read(lambda tx: tx.runs.get("t1.1")) == run
    assert store.read(lambda tx: tx.runs.by_execution(run.execution_id)) == run
    assert store.read(lambda tx: tx.runs.by_execution("other")) is None


def test_no_such_run(store: Store) -> None:
    with pytest.raises(NotFound):
        store.read(lambda tx: tx.runs.get("nobody"))


def test_one_live_run_per_task(store: Store, run: Run) -> None:
    """R8: a second run is refused while the first one lives, and allowed when it is settled."""
    with pytest.raises(Stale):
        store.transact("claim", lambda tx: tx.runs.add(make_run(tx.tasks.get("t1"), tx.runs.next_fence())))
    store.transact("settle", lambda tx: settle(tx, run, wake_at=NOON))
    again = store.transact("claim", lambda tx: reserve(tx, tx.tasks.get("t1")))
    assert [one.number for one in store.read(lambda tx: tx.runs.of_task("t1"))] == [1, 2]
    assert store.read(lambda tx: tx.runs.live()) == [again]


def test_a_run_of_no_task_is_refused(store: Store) -> None:
    with pytest.raises((Stale, WatchkeeperError)):
        store.transact("claim", lambda tx: tx.runs.add(make_run(make_task("ghost"), tx.runs.next_fence())))


@pytest.mark.parametrize(
    "task", [make_task(state=TaskState.NEEDS_INPUT), make_task(state=TaskState.STOPPED, ended_at=NOON)]
)
def test_only_a_queued_task_is_claimed(store: Store, task) -> None:
    with pytest.raises(WatchkeeperError, match="queued"):
        store.transact("claim", lambda tx: reserve(tx, add(tx, task)))


@pytest.mark.parametrize("field", [{"fence": 99}, {"state": RunState.RUNNING}])
def test_a_save_must_match_fence_and_state(store: Store, run: Run, field: dict[str, object]) -> None:
    """R4: a writer that believes in another fence or state writes nothing, in neither of a run's rows."""
    was = replace(run, **field)
    with pytest.raises(Stale):
        store.transact("save", lambda tx: tx.runs.save(replace(was, directory=DIRECTORY, reason="late"), was))
    assert store.read(lambda tx: tx.runs.get(run.id)) == run


def test_settled_is_final(store: Store, run: Run) -> None:
    """R5: nothing is written over a settled run, not even by who read it as settled."""
    store.transact("settle", lambda tx: settle(tx, run))
    settled = store.read(lambda tx: tx.runs.get(run.id))
    for was in (run, settled):
        with pytest.raises(Stale):
            store.transact("save", lambda tx, w=was: tx.runs.save(replace(w, reason="ghost"), w))
    assert store.read(lambda tx: tx.runs.get(run.id)) == settled
    assert store.read(lambda tx: tx.runs.live()) == []


@pytest.mark.parametrize(
    "step",
    [
        {"state": RunState.PREPARED},
        {"state": RunState.RUNNING, "directory": DIRECTORY},
        {"state": RunState.ENDED},
        {"state": RunState.HELD},
        {"agent": AGENT},
        {"settled_at": NOON},
    ],
    ids=["prepared without directory", "running without agent", "ended without exit", "held without kind", "agent nowhere",
         "settled too early"],
)  # fmt: skip
def test_impossible_runs_are_refused(store: Store, run: Run, step: dict[str, object]) -> None:
    with pytest.raises(WatchkeeperError, match="impossible"):
        store.transact("save", lambda tx: tx.runs.save(replace(run, **step), run))
    assert store.read(lambda tx: tx.runs.get(run.id)) == run


@pytest.mark.parametrize(
    "step", [{"directory": None}, {"directory": DirectoryIdentity(device=1, inode=1)}, {"proof": None}, {"exit": None}]
)
def test_facts_stay(store: Store, run: Run, step: dict[str, object]) -> None:
    """R5: which directory it is, how it ended and that it is dead are never taken back."""
    known = through(
        store, run, PREPARED, STARTING, RUNNING,
        {"state": RunState.ENDED, "exit": EXIT, "proof": Proof.PROVEN, "kind": FailureKind.CRASH},
    )  # fmt: skip
    with pytest.raises(WatchkeeperError, match="stay"):
        store.transact("save", lambda tx: tx.runs.save(replace(known, **step), known))


def without_the_task(tx, run: Run) -> None:
    """Settle a run and forget its task."""
    ended = end(tx, run)
    tx.runs.save(replace(ended, state=RunState.SETTLED, settled_at=NOON), ended)
    tx.outcomes.add(make_outcome(run))


def without_the_outcome(tx, run: Run) -> None:
    """Settle a run and its task, and decide nothing."""
    ended = end(tx, run)
    tx.runs.save(replace(ended, state=RunState.SETTLED, settled_at=NOON), ended)
    task = tx.tasks.get(run.task_id)
    tx.tasks.save(replace(task, state=TaskState.DONE, run_id=None, ended_at=NOON), task)


def outcome_alone(tx, run: Run) -> None:
    """Store an outcome of a run that lives."""
    tx.outcomes.add(make_outcome(run))


def task_alone(tx, run: Run) -> None:
    """Let go of the task while the run lives."""
    task = tx.tasks.get(run.task_id)
    tx.tasks.save(replace(task, state=TaskState.DONE, run_id=None, ended_at=NOON), task)


@pytest.mark.parametrize("half", [without_the_task, without_the_outcome, outcome_alone, task_alone])
def test_half_a_settlement_is_never_stored(store: Store, run: Run, half: Callable[..., None]) -> None:
    """R11: run, outcome, task and claim change together or not at all; the database sees to it at commit."""
    before = store.read(lambda tx: (tx.runs.get(run.id), tx.tasks.get("t1"), tx.outcomes.get(run.id)))
    with pytest.raises(WatchkeeperError, match="impossible"):
        store.transact("half", lambda tx: half(tx, run))
    assert store.read(lambda tx: (tx.runs.get(run.id), tx.tasks.get("t1"), tx.outcomes.get(run.id))) == before


def test_a_run_without_its_task_is_never_stored(store: Store) -> None:
    store.transact("add", lambda tx: tx.tasks.add(make_task()))
    with pytest.raises(WatchkeeperError, match="impossible"):
        store.transact("claim", lambda tx: tx.runs.add(make_run(tx.tasks.get("t1"), tx.runs.next_fence())))
    assert store.read(at_work) == 0


def test_live_runs_oldest_claim_first(store: Store) -> None:
    for name in ("b", "a", "c"):
        store.transact("claim", lambda tx, n=name: reserve(tx, add(tx, make_task(n))))
    assert [one.task_id for one in store.read(lambda tx: tx.runs.live())] == ["b", "a", "c"]


def test_live_runs_by_state_and_by_name(store: Store) -> None:
    """A name is the id of a run or of its execution."""
    runs = [store.transact("claim", lambda tx, n=name: reserve(tx, add(tx, make_task(n)))) for name in ("b", "a", "c")]
    store.transact("settle", lambda tx: settle(tx, runs[1]))
    here, state = runs[0].machine, runs[0].state
    assert store.read(lambda tx: tx.runs.ids(here, state)) == ["b.1", "c.1"]
    assert store.read(lambda tx: tx.runs.ids("elsewhere", state)) == []
    assert store.read(lambda tx: tx.runs.ids(here, RunState.RUNNING)) == []
    assert store.read(lambda tx: tx.runs.live(here, {state})) == [runs[0], runs[2]]
    assert store.read(lambda tx: tx.runs.live(here, {RunState.RUNNING})) == []
    named = {"b.1", "a.1", runs[2].execution_id}
    assert store.read(lambda tx: tx.runs.live(here, named=named)) == [runs[0], runs[2]]
    assert store.read(lambda tx: tx.runs.live(here, {state}, named={"b.1"})) == [runs[0]]
    assert store.read(lambda tx: tx.runs.live(here, named=())) == []


def test_a_fence_is_given_once(store: Store, store_factory: Callable[[], Store]) -> None:
    other = store_factory()
    given = [one.transact("fence", lambda tx: tx.runs.next_fence()) for one in (store, other, store, store, other)]
    assert given == sorted(set(given))


def _at_work(store: Store, task_id: str, place: str, machine: str = "m1", *, at: float = 0.0) -> Run:
    """A run whose agent works in that place."""

    def work(tx: Tx) -> Run:
        task = add(tx, make_task(task_id))
        run = make_run(task, tx.runs.next_fence(), machine=machine, claimed_at=later(at))
        tx.runs.add(run)
        tx.tasks.save(replace(task, state=TaskState.RUNNING, run_id=run.id, runs=1), task)
        tx.runs.set_place(run, place)
        return run

    return through(store, store.transact("work", work), PREPARED, STARTING, RUNNING)


def _settled(store: Store, run: Run, at: float) -> None:
    ended = through(store, run, {"state": RunState.ENDED, "exit": EXIT})

    def work(tx: Tx) -> None:
        tx.runs.save(replace(ended, state=RunState.SETTLED, settled_at=later(at), proof=Proof.PROVEN), ended)
        tx.outcomes.add(make_outcome(run, at=later(at)))
        task = tx.tasks.get(run.task_id)
        tx.tasks.save(replace(task, state=TaskState.DONE, run_id=None, ended_at=later(at)), task)

    store.transact("settle", work)


def _beside(store: Store, run: Run, limit: int = 20) -> list[str]:
    return store.read(lambda tx: tx.runs.beside(run, limit))


def test_who_is_at_work_in_the_same_place_is_beside(store: Store) -> None:
    """In the same checkout, on the same machine, while the run worked: no matter who began, and who has ended."""
    before, early = _at_work(store, "before", "/a", at=1), _at_work(store, "early", "/a", at=2)
    _settled(store, before, at=10)
    mine = _at_work(store, "mine", "/a", at=10)
    late = _at_work(store, "late", "/a", at=20)
    _ = _at_work(store, "elsewhere", "/b", at=20)
    _ = _at_work(store, "nested", "/a/vendor", at=20)
    _ = _at_work(store, "above", "/", at=20)
    _ = _at_work(store, "afar", "/a", "m2", at=20)
    _settled(store, early, at=11)
    assert _beside(store, mine) == ["early", "late"]
    assert _beside(store, late) == ["mine"]
    assert _beside(store, mine, 1) == ["early"]


def test_a_plain_directory_is_shared_with_what_is_in_it_and_with_plain_ones_above(store: Store) -> None:
    mine = _at_work(store, "mine", "/p/q/")
    for task_id, place in (
        ("same", "/p/q/"), ("below", "/p/q/r/"), ("repository", "/p/q/repo"), ("above", "/p/"), ("root", "/"),
        ("sibling", "/p/qq/"), ("wild", "/p/_/"),
    ):  # fmt: skip
        _ = _at_work(store, task_id, place)
    assert _beside(store, mine) == ["same", "below", "repository", "above", "root"]


def test_a_run_that_may_start_is_beside_and_one_that_never_did_is_not(store: Store) -> None:
    mine = _at_work(store, "mine", "/a")

    def work(tx: Tx) -> Run:
        other = reserve(tx, add(tx, make_task("other")))
        tx.runs.set_place(other, "/a")
        return other

    other = store.transact("claim", work)
    assert _beside(store, mine) == ["other"]
    store.transact("settle", lambda tx: settle(tx, other))
    assert _beside(store, mine) == []


def test_the_place_of_a_settled_run_stays(store: Store, run: Run) -> None:
    store.transact("settle", lambda tx: settle(tx, run))
    with pytest.raises(Stale):
        store.transact("place", lambda tx: tx.runs.set_place(run, "/a"))
