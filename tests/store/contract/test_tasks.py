"""What every database promises of tasks."""

from dataclasses import replace
from datetime import UTC
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.records import NOON, add, later, make_spec, make_task, reserve, settle

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import OnLost, StopHow, StopRequest, TaskSpec, TaskState
from watchkeeper.errors import NoSuchTask, Stale, WatchkeeperError
from watchkeeper.ports.store import Store
from watchkeeper.store.tasks import spec_from
from watchkeeper.store.values import moment, signed, ticks, to_json, unsigned


def test_a_task_comes_back_as_it_went_in(store: Store) -> None:
    spec = TaskSpec(
        prompt="naïve \udcff broken \x00 text", title="t", harness="claude", model="m", cwd="/tmp/\udcfe", argv=("a", "b"),
        environment_names=("X",), deadline_s=1.5, max_attempts=7, on_lost=OnLost.RETRY, leftovers="wait", priority=-3,
    )  # fmt: skip
    stop = StopRequest(how=StopHow.KILL, by="me", at=later(1), grace_s=2.5)
    task = make_task(
        spec=spec, state=TaskState.STOPPED, stop=stop, runs=3, attempts=2, unlaunched=1, reason="R", kind=FailureKind.STOPPED,
        ended_at=later(2), updated_at=later(2),
    )  # fmt: skip
    assert store.transact("add", lambda tx: add(tx, task)) == task
    assert store.read(lambda tx: tx.tasks.get(task.id)) == task


def test_an_id_is_taken_once(store: Store) -> None:
    store.transact("add", lambda tx: tx.tasks.add(make_task()))
    with pytest.raises(Stale, match="t1"):
        store.transact("add", lambda tx: tx.tasks.add(make_task(reason="other")))
    assert store.read(lambda tx: tx.tasks.get("t1")).reason == ""


def test_an_id_is_taken_once_whatever_else_is_said(store: Store) -> None:
    """Broken text in another column makes no other error of it."""
    store.transact("add", lambda tx: tx.tasks.add(make_task()))
    with pytest.raises(Stale, match="t1"):
        store.transact("add", lambda tx: tx.tasks.add(make_task(reason="no '\udcff'")))


def test_no_such_task(store: Store) -> None:
    with pytest.raises(NoSuchTask, match="nobody"):
        store.read(lambda tx: tx.tasks.get("nobody"))


def test_saving_raises_the_version(store: Store) -> None:
    was = store.transact("add", lambda tx: add(tx, make_task()))
    store.transact("save", lambda tx: tx.tasks.save(replace(was, reason="new"), was))
    assert store.read(lambda tx: tx.tasks.get("t1")) == replace(was, reason="new", version=was.version + 1)


def test_a_stale_save_changes_nothing(store: Store) -> None:
    """Who read an older version gets an error, and everything in the same transaction is undone."""
    was = store.transact("add", lambda tx: add(tx, make_task()))
    store.transact("save", lambda tx: tx.tasks.save(replace(was, reason="new"), was))

    def work(tx):
        tx.tasks.add(make_task("t2"))
        tx.tasks.save(replace(was, reason="late"), was)

    with pytest.raises(Stale):
        store.transact("save", work)
    assert store.read(lambda tx: tx.tasks.get("t1")).reason == "new"
    assert store.read(lambda tx: tx.tasks.ids_like("", 10)) == ["t1"]


def test_saving_what_is_not_there_is_stale(store: Store) -> None:
    with pytest.raises(Stale):
        store.transact("save", lambda tx: tx.tasks.save(make_task(), make_task()))
    store.transact("add", lambda tx: tx.tasks.add(make_task()))
    with pytest.raises(Stale, match="another"):
        store.transact("save", lambda tx: tx.tasks.save(make_task("t2"), make_task("t1")))


def test_ids_by_prefix_newest_first(store: Store) -> None:
    for task_id in ("ab1", "ab2", "b", "ab3", "aB"):
        store.transact("add", lambda tx, i=task_id: tx.tasks.add(make_task(i)))
    assert store.read(lambda tx: tx.tasks.ids_like("ab", 10)) == ["ab3", "ab2", "ab1"]
    assert store.read(lambda tx: tx.tasks.ids_like("ab", 2)) == ["ab3", "ab2"]
    assert store.read(lambda tx: tx.tasks.ids_like("", 3)) == ["aB", "ab3", "b"]
    assert store.read(lambda tx: tx.tasks.ids_like("%", 3)) == []


def test_pages_of_states(store: Store) -> None:
    """Pages continue where the one before ended, over several states, also when newer tasks come in between."""
    for number in range(7):
        state = TaskState.QUEUED if number % 2 else TaskState.NEEDS_INPUT
        store.transact("add", lambda tx, n=number, s=state: tx.tasks.add(make_task(f"t{n}", state=s)))
    both = [TaskState.QUEUED, TaskState.NEEDS_INPUT, TaskState.QUEUED]
    first = store.read(lambda tx: tx.tasks.in_states(both, 3))
    store.transact("add", lambda tx: tx.tasks.add(make_task("t7")))
    second = store.read(lambda tx: tx.tasks.in_states(both, 10, before=first[-1].id))
    assert [task.id for task in first + second] == ["t6", "t5", "t4", "t3", "t2", "t1", "t0"]
    assert [task.id for task in store.read(lambda tx: tx.tasks.in_states([TaskState.QUEUED], 2))] == ["t7", "t5"]
    assert store.read(lambda tx: tx.tasks.in_states([], 5)) == []
    with pytest.raises(NoSuchTask):
        store.read(lambda tx: tx.tasks.in_states(both, 1, before="nobody"))


def test_counts_follow_every_move(store: Store) -> None:
    run = store.transact("a", lambda tx: reserve(tx, add(tx, make_task("t1"))))
    store.transact("b", lambda tx: tx.tasks.add(make_task("t2")))
    counts = store.read(lambda tx: tx.tasks.counts())
    assert counts == dict.fromkeys(TaskState, 0) | {TaskState.RUNNING: 1, TaskState.QUEUED: 1}
    store.transact("c", lambda tx: settle(tx, run))
    assert store.read(lambda tx: tx.tasks.counts())[TaskState.DONE] == 1


def test_an_environment_is_in_use_until_the_end(store: Store) -> None:
    run = store.transact("a", lambda tx: reserve(tx, add(tx, make_task("t1"))))
    assert store.read(lambda tx: tx.tasks.environment_in_use("env-t1"))
    assert not store.read(lambda tx: tx.tasks.environment_in_use("env-t2"))
    store.transact("c", lambda tx: settle(tx, run))
    assert not store.read(lambda tx: tx.tasks.environment_in_use("env-t1"))


@pytest.mark.parametrize(
    "task",
    [
        make_task(state=TaskState.DONE),
        make_task(ended_at=NOON),
        make_task(state=TaskState.HELD, wake_at=NOON),
        make_task(attempts=-1),
        make_task(state=TaskState.RUNNING),
        make_task(run_id="t1.1"),
        make_task(state=TaskState.HELD, run_id="t1.1"),
    ],
    ids=["done without an end", "queued with an end", "held with a wake", "negative", "running without a run", "queued with a run",
         "a run that is not there"],
)  # fmt: skip
def test_impossible_tasks_are_refused(store: Store, task) -> None:
    with pytest.raises(WatchkeeperError, match="impossible"):
        store.transact("add", lambda tx: tx.tasks.add(task))
    assert store.read(lambda tx: tx.tasks.ids_like("", 1)) == []


def test_a_message_with_broken_text_is_stored(store: Store) -> None:
    """A file name that is not UTF-8 must not keep a task from being settled."""
    task = store.transact("add", lambda tx: add(tx, make_task(reason="no '\udcff'")))
    assert task.reason == "no '\\udcff'"


_FIRST, _LAST = NOON.replace(year=11, tzinfo=None), NOON.replace(year=9960, tzinfo=None)


@given(st.datetimes(_FIRST, _LAST, timezones=st.just(UTC)))
def test_times_are_exact(at) -> None:
    assert moment(ticks(at)) == at


@given(st.integers(0, 2**64 - 1))
def test_inodes_of_64_bits_fit(number: int) -> None:
    assert unsigned(signed(number)) == number
    assert -(2**63) <= signed(number) < 2**63


@given(st.text(st.characters(exclude_categories=()), max_size=20), st.lists(st.text(max_size=5), max_size=3))
def test_every_spec_comes_back(prompt: str, argv: list[str]) -> None:
    spec = make_spec(prompt=prompt, argv=tuple(argv))
    assert spec_from(to_json(spec)) == spec


def test_in_the_order_of_handing_over_page_by_page(store: Store) -> None:
    """What is removed between two pages makes nothing be passed over."""
    store.transact("add", lambda tx: [tx.tasks.add(make_task(f"t{9 - each}")) for each in range(7)])
    ended: dict[str, Any] = {"state": TaskState.DONE, "ended_at": NOON}
    store.transact("add", lambda tx: tx.tasks.add(make_task("d1", **ended)))
    states, after, found = (TaskState.QUEUED, TaskState.DONE), 0, list[str]()
    while page := store.read(lambda tx, at=after: tx.tasks.in_order(states, 3, at)):
        tasks, after = page
        found += [task.id for task in tasks]
        if not tasks:
            break
    assert found == ["t9", "t8", "t7", "t6", "t5", "t4", "t3", "d1"]
    assert store.read(lambda tx: tx.tasks.in_order([TaskState.DONE], 3))[0][0].id == "d1"
    numbers = store.read(lambda tx: [tx.tasks.number(task_id) for task_id in found])
    assert numbers == sorted(numbers)
    with pytest.raises(NoSuchTask):
        store.read(lambda tx: tx.tasks.number("nobody"))


def test_failures_that_nobody_has_looked_at(store: Store) -> None:
    """A look counts for what was read, changes nothing else, and for failures alone when all are looked at."""
    ended: dict[str, Any] = {"ended_at": NOON}

    def begin(tx):
        for task_id in ("f1", "f2", "f3"):
            tx.tasks.add(make_task(task_id, state=TaskState.FAILED, **ended))
        tx.tasks.add(make_task("d1", state=TaskState.DONE, **ended))
        tx.tasks.add(make_task("q1"))
        return [tx.tasks.get(each) for each in ("f1", "f2", "q1")]

    first, second, queued = store.transact("begin", begin)

    def unseen() -> list[str]:
        return [task.id for task in store.read(lambda tx: tx.tasks.unseen(9))]

    assert unseen() == ["f3", "f2", "f1"]
    assert store.transact("see", lambda tx: tx.tasks.see(first, later(1))) is True
    assert store.read(lambda tx: tx.tasks.get("f1")) == replace(first, seen_at=later(1))
    assert store.transact("see", lambda tx: tx.tasks.see(first, later(2))) is False
    assert store.transact("see", lambda tx: tx.tasks.see(queued, later(2))) is False
    store.transact("save", lambda tx: tx.tasks.save(replace(second, reason="again"), second))
    assert store.transact("see", lambda tx: tx.tasks.see(second, later(2))) is False
    assert unseen() == ["f3", "f2"]
    assert store.transact("see", lambda tx: tx.tasks.see_all(later(3))) == 2
    assert unseen() == [] and store.read(lambda tx: tx.tasks.get("d1")).seen_at is None


def test_what_waits_for_something_that_failed(store: Store) -> None:
    ended: dict[str, Any] = {"ended_at": NOON}

    def begin(tx):
        tx.tasks.add(make_task("f1", state=TaskState.FAILED, **ended))
        tx.tasks.add(make_task("s1", state=TaskState.STOPPED, **ended))
        tx.tasks.add(make_task("d1", state=TaskState.DONE, **ended))
        for number, after in enumerate((("f1",), ("d1", "s1"), ("d1",), ("q0", "f1"), ("q0",))):
            tx.tasks.add(make_task(f"q{number}", spec=make_spec(after=after)))
        tx.tasks.add(make_task("q9", spec=make_spec(after=("f1",)), state=TaskState.STOPPED, **ended))

    with pytest.raises(Stale):
        store.transact("begin", lambda tx: tx.tasks.add(make_task("q0", spec=make_spec(after=("f1",)))))
    store.transact("begin", begin)
    assert [task.id for task in store.read(lambda tx: tx.tasks.waiting_for_failed(9))] == ["q3", "q1", "q0"]
    assert [task.id for task in store.read(lambda tx: tx.tasks.waiting_for_failed(1))] == ["q3"]
