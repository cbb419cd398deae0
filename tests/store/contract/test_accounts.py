"""What every database promises of accounts, and of what is known of them."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.records import NOON, add, later, make_spec, make_task, reserve, settle

from watchkeeper.domain.account import Account, AccountState, SignIn, SignInSeen, observed
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.lanes import HarnessState
from watchkeeper.domain.model import Run, RunState, Task, TaskState
from watchkeeper.domain.service import ProbeStarted, QuotaSeen, ServiceAnswered, ServiceFailed
from watchkeeper.errors import Stale
from watchkeeper.ports.store import Store, Tx

WORK = Account(
    harness="claude", name="work", home="/home/me/wörk", variables=("A", "B=C"), created_at=NOON, by="me"
)  # fmt: skip


def test_an_account_is_stored_as_it_was_added(store: Store) -> None:
    store.transact("add", lambda tx: tx.accounts.add(WORK))
    assert store.read(lambda tx: tx.accounts.all()) == [WORK]


def test_an_account_is_added_once(store: Store) -> None:
    store.transact("add", lambda tx: tx.accounts.add(WORK))
    with pytest.raises(Stale):
        store.transact("add", lambda tx: tx.accounts.add(WORK))


def test_a_removed_account_takes_what_is_known_of_it_along(store: Store) -> None:
    store.transact("add", lambda tx: tx.accounts.add(WORK))
    store.transact("see", lambda tx: tx.accounts.observe(WORK.id, "m1", SignInSeen(sign_in=SignIn.OUT, at=NOON)))
    assert store.transact("remove", lambda tx: tx.accounts.remove(WORK.id))
    assert not store.transact("remove", lambda tx: tx.accounts.remove(WORK.id))
    assert store.read(lambda tx: (tx.accounts.all(), tx.accounts.states("m1"))) == ([], {})


def test_the_open_tasks_of_each_account_are_counted(store: Store) -> None:
    """Those that have ended are not."""

    def work(tx: Tx) -> None:
        for number, state in enumerate((TaskState.QUEUED, TaskState.NEEDS_INPUT, TaskState.DONE)):
            ended_at = NOON if state is TaskState.DONE else None
            _ = add(tx, make_task(f"t{number}", state=state, ended_at=ended_at))
        _ = add(tx, make_task("t9", spec=replace(make_task("t9").spec, account="work")))

    store.transact("add", work)
    harness = make_task("t0").spec.harness
    assert store.read(lambda tx: tx.accounts.open_tasks()) == {f"{harness}:own": 2, f"{harness}:work": 1}


def test_what_is_known_is_known_of_one_machine(store: Store) -> None:
    assert store.transact("see", lambda tx: tx.accounts.observe("c:a", "m1", SignInSeen(sign_in=SignIn.OUT, at=NOON)))
    assert store.read(lambda tx: tx.accounts.states("m2")) == {}
    known = store.read(lambda tx: tx.accounts.states("m1"))
    assert known == {"c:a": AccountState(account="c:a", machine="m1", sign_in=SignIn.OUT, sign_in_at=NOON)}


def test_only_news_is_news(store: Store) -> None:
    """The same again is recorded with its time, and no news is reported; an older observation changes nothing."""
    see = lambda seen: store.transact("see", lambda tx: tx.accounts.observe("c:a", "m1", seen))  # noqa: E731 - said often
    assert see(SignInSeen(sign_in=SignIn.OUT, at=later(5)))
    assert not see(SignInSeen(sign_in=SignIn.OUT, at=later(6)))
    assert not see(SignInSeen(sign_in=SignIn.IN, at=later(1)))
    assert see(QuotaSeen(until=later(60), at=later(2), now=later(2)))
    state = store.read(lambda tx: tx.accounts.states("m1"))["c:a"]
    assert (state.sign_in, state.sign_in_at, state.quota_until) == (SignIn.OUT, later(6), later(60))
    assert see(SignInSeen(sign_in=SignIn.IN, at=later(7), detail="fine", mark="m"))


def test_a_program_that_was_found_later_is_there(store: Store) -> None:
    def state(seconds: float, *, present: bool) -> HarnessState:
        return HarnessState(harness="claude", machine="m1", present=present, detail=str(present), at=later(seconds))

    assert store.transact("find", lambda tx: tx.accounts.record_harness(state(2, present=False)))
    assert not store.transact("find", lambda tx: tx.accounts.record_harness(state(3, present=False)))
    assert not store.transact("find", lambda tx: tx.accounts.record_harness(state(1, present=True)))
    assert store.transact("find", lambda tx: tx.accounts.record_harness(state(4, present=True)))
    assert store.read(lambda tx: tx.accounts.harnesses("m1")) == {"claude": state(4, present=True)}
    assert store.read(lambda tx: tx.accounts.harnesses("m2")) == {}


def fails(run_id: str, seconds: float) -> ServiceFailed:
    """A run that the service failed."""
    return ServiceFailed(
        run_id=run_id, kind=FailureKind.NETWORK, detail="nobody “there”", at=later(seconds), now=later(seconds)
    )


def test_what_is_known_of_a_service_is_stored_as_it_was_seen(store: Store) -> None:
    """With all its times; an answer clears it."""
    assert store.transact("see", lambda tx: tx.accounts.observe("c:a", "m1", fails("t9.1", 5)))
    assert not store.transact("see", lambda tx: tx.accounts.observe("c:a", "m1", fails("t8.1", 7)))
    assert store.read(lambda tx: tx.accounts.states("m1"))["c:a"] == AccountState(
        account="c:a", machine="m1", trouble=FailureKind.NETWORK, trouble_detail="nobody “there”", trouble_since=later(5),
        trouble_at=later(7), probe_at=later(35),
    )  # fmt: skip
    answer = ServiceAnswered(run_id="t7.1", at=later(8), now=later(9))
    assert store.transact("see", lambda tx: tx.accounts.observe("c:a", "m1", answer))
    assert store.read(lambda tx: tx.accounts.states("m1"))["c:a"] == AccountState(
        account="c:a", machine="m1", answered_at=later(8)
    )


def test_a_run_is_the_probe_only_as_long_as_it_is_at_work(store: Store) -> None:
    """One that is held, settled or removed is not the probe, without a separate observation."""

    def work(tx: Tx) -> Run:
        run = reserve(tx, add(tx, make_task("t1")))
        _ = tx.accounts.observe("command:own", "m1", fails("t9.1", 0))
        _ = tx.accounts.observe("command:own", "m1", ProbeStarted(run_id=run.id))
        return tx.runs.get(run.id)

    def probe() -> str | None:
        return store.read(lambda tx: tx.accounts.states("m1"))["command:own"].probe_run

    run = store.transact("probe", work)
    assert probe() == run.id
    held = replace(run, state=RunState.HELD, kind=FailureKind.UNKNOWN, reason="It is missing.")
    store.transact("hold", lambda tx: tx.runs.save(held, run))
    assert probe() is None
    store.transact("settle", lambda tx: settle(tx, tx.runs.get(run.id)))
    assert probe() is None
    store.transact("remove", lambda tx: tx.deletion.remove_task("t1"))
    assert probe() is None


def test_a_probe_of_another_account_is_a_fault(store: Store) -> None:
    """That `wk doctor` finds."""

    def work(tx: Tx) -> list[str]:
        run = reserve(tx, add(tx, make_task("t1")))
        _ = tx.accounts.observe("claude:own", "m1", fails("t9.1", 0))
        _ = tx.accounts.observe("claude:own", "m1", ProbeStarted(run_id=run.id))
        return tx.waits.audit()

    assert store.transact("probe", work) == [
        "The probe of account claude:own is t1.1, which is a run of another account or machine."
    ]


def test_as_a_probe_a_task_comes_first_that_was_not_failed_by_the_service(store: Store) -> None:
    """Then the one that was failed longest ago, whatever their priorities; other lanes take their turn by priority and age."""

    def work(tx: Tx) -> None:
        for name, priority, kind, seconds in (
            ("t1", 9, FailureKind.OVERLOADED, 8), ("t2", 5, FailureKind.QUOTA, 7), ("t3", 0, None, 1), ("t4", 1, FailureKind.CRASH, 9),
        ):  # fmt: skip
            task = add(tx, make_task(name, spec=make_spec(priority=priority)))
            tx.tasks.save(replace(task, kind=kind, updated_at=later(seconds)), task)
        _ = add(tx, make_task("other", spec=make_spec(account="work", priority=3)))

    def first(*probed: str) -> str:
        found = store.read(lambda tx: tx.queue.first(tx.queue.lanes(), "m1", None, probed))
        assert isinstance(found, Task)
        return found.id

    store.transact("add", work)
    assert first() == "t1"
    assert first("command:own") == "other"
    for name in ("other", "t4", "t3", "t2", "t1"):
        probed = ("command:own",) if name == "other" else ("command:own", "command:work")
        assert first(*probed) == name
        _ = store.transact("take", lambda tx, name=name: reserve(tx, tx.tasks.get(name)))


sign_ins = st.builds(SignInSeen, sign_in=st.sampled_from(SignIn), at=st.integers(0, 9).map(later))


@given(st.lists(sign_ins, max_size=12))
@settings(deadline=None)
def test_the_newest_observation_holds_in_whatever_order_they_come(seen: list[SignInSeen]) -> None:
    """The newest one decides; of two at one time the one that was reported later."""
    state = AccountState(account="c:a", machine="m1")
    for each in seen:
        state = observed(state, each)
    newest = max(((each.at, place) for place, each in enumerate(seen)), default=None)
    if newest is not None:
        expected = seen[newest[1]]
        assert (state.sign_in, state.sign_in_at) == (expected.sign_in, expected.at)
