"""Letting go of rows: nothing is left of what is removed, and nothing else goes with it."""

from dataclasses import replace

import pytest
from support.records import NOON, add, claim, later, make_spec, make_task, settle
from support.stores import check

from watchkeeper.app.views.lookup import resolve
from watchkeeper.domain.model import Task, TaskState
from watchkeeper.errors import AmbiguousId, NoSuchTask, NotFound, Stale
from watchkeeper.ports.store import Authorisation, Claim, Store


def done(store: Store, task_id: str, **given: object) -> Task:
    """A task that ran twice and is done, with everything that is about it."""

    def work(tx) -> Task:
        _ = add(tx, make_task(task_id, spec=make_spec(**given)))
        tx.outcomes.authorise(
            Authorisation(id=f"a-{task_id}", task_id=task_id, kind="person", by="me", detail="It may.", at=NOON)
        )
        for wake_at in (NOON, None):
            claimed = claim(tx, NOON, f"op-{task_id}-{wake_at}")
            assert claimed is not None
            run = tx.runs.get(claimed.run_id)
            tx.outcomes.record_launch(run, f"a-{task_id}")
            _ = tx.journal.append("run.claimed", NOON, task_id=task_id, run=run)
            task = settle(tx, run, wake_at)
        return task

    return store.transact("done", work)


def test_a_task_goes_with_everything_that_is_about_it(store: Store) -> None:
    """Its neighbour stays as it was, and the history of both stays too."""
    done(store, "t1", labels=("x",))
    done(store, "t2", labels=("x",))
    before = store.read(lambda tx: (tx.tasks.get("t2"), tx.runs.of_task("t2"), tx.journal.after(0, 100)))
    store.transact("remove", lambda tx: tx.deletion.remove_task("t1"))
    with pytest.raises(NoSuchTask):
        store.read(lambda tx: tx.tasks.get("t1"))
    with pytest.raises(NotFound):
        store.read(lambda tx: tx.runs.get("t1.1"))
    assert store.read(lambda tx: (tx.runs.of_task("t1"), tx.outcomes.get("t1.1"), tx.outcomes.authorisation("t1"))) == (
        [], None, None,
    )  # fmt: skip
    assert store.read(lambda tx: tx.tasks.labelled("x")) == ["t2"]
    assert store.read(lambda tx: tx.tasks.counts())[TaskState.DONE] == 1
    assert store.read(lambda tx: (tx.tasks.get("t2"), tx.runs.of_task("t2"), tx.journal.after(0, 100))) == before
    check(store)


def test_what_is_not_there_cannot_be_removed(store: Store) -> None:
    with pytest.raises(NoSuchTask):
        store.transact("remove", lambda tx: tx.deletion.remove_task("t1"))


def test_a_claimed_task_cannot_be_removed(store: Store) -> None:
    """Whatever was decided: the rows hold each other."""
    store.transact("add", lambda tx: tx.tasks.add(make_task("t1")))
    claimed = store.transact("claim", claim)
    assert isinstance(claimed, Claim)
    with pytest.raises(Stale):
        store.transact("remove", lambda tx: tx.deletion.remove_task("t1"))
    assert store.read(lambda tx: tx.tasks.get("t1")).run_id == claimed.run_id
    check(store)


def test_relations_go_with_either_end(store: Store) -> None:
    done(store, "t1")
    done(store, "t2", after=("t1",))
    store.transact("remove", lambda tx: tx.deletion.remove_task("t1"))
    assert store.read(lambda tx: tx.waits.dependencies("t2")) == []
    store.transact("remove", lambda tx: tx.deletion.remove_task("t2"))
    check(store)


def test_a_task_that_is_tried_again_waits_for_nothing_that_was_removed(store: Store) -> None:
    """It was done when one that it had waited for was tried again and failed; that one, removed, keeps no task waiting."""
    done(store, "t1")
    done(store, "t0")
    done(store, "t2", after=("t1", "t0"))

    def again(task_id: str, **changes: object) -> None:
        def work(tx) -> None:
            was = tx.tasks.get(task_id)
            tx.tasks.save(replace(was, **changes), was)

        store.transact("save", work)

    again("t1", state=TaskState.STOPPED, ended_at=NOON)
    again("t0", state=TaskState.STOPPED, ended_at=NOON)
    store.transact("remove", lambda tx: tx.deletion.remove_task("t1"))
    check(store)
    again("t2", state=TaskState.QUEUED, ended_at=None)
    assert store.transact("claim", lambda tx: claim(tx, NOON, "early")) is None
    store.transact("remove", lambda tx: tx.deletion.remove_task("t0"))
    check(store)
    assert store.transact("claim", lambda tx: claim(tx, NOON, "op")) is not None


def test_removed_places_are_not_given_again(store: Store) -> None:
    """A task that is added later comes later, also after the newest one was removed."""
    done(store, "t1")
    place = store.read(lambda tx: tx.deletion.ended(TaskState.DONE, later(1), 9))
    store.transact("remove", lambda tx: tx.deletion.remove_task("t1"))
    done(store, "t2")
    assert store.read(lambda tx: tx.deletion.ended(TaskState.DONE, later(1), 9)) > place


def test_what_ended_before_is_found_page_by_page(store: Store) -> None:
    """Not what is pinned, nor what ended later or not at all."""
    names = [f"t{number}" for number in range(5)]
    for name in names:
        task = done(store, name)
        if name == "t2":
            store.transact("pin", lambda tx, task=task: tx.tasks.save(replace(task, pinned_at=NOON), task))
    store.transact("add", lambda tx: tx.tasks.add(make_task("waits")))
    assert store.read(lambda tx: tx.deletion.ended(TaskState.DONE, NOON, 9)) == []
    first = store.read(lambda tx: tx.deletion.ended(TaskState.DONE, later(1), 3))
    rest = store.read(lambda tx: tx.deletion.ended(TaskState.DONE, later(1), 3, first[-1][0]))
    assert [name for _, name in first + rest] == ["t0", "t1", "t3", "t4"]
    assert store.read(lambda tx: tx.deletion.ended(TaskState.FAILED, later(1), 9)) == []


def test_history_of_what_was_removed_is_forgotten_when_it_is_old(store: Store) -> None:
    """That of a task that is there stays, however old; and it is known up to where there are gaps."""
    done(store, "t1")
    done(store, "t2")

    def say(tx) -> list[int]:
        return [
            tx.journal.append("daemon.started", NOON),
            tx.journal.append("task.removed", NOON, task_id="t1"),
            tx.journal.append("daemon.started", later(60)),
        ]

    old, about_t1, young = store.transact("say", say)
    store.transact("remove", lambda tx: tx.deletion.remove_task("t1"))
    assert store.read(lambda tx: tx.deletion.forgotten()) == 0
    assert store.transact("forget", lambda tx: tx.deletion.forget_history(NOON, 100)) == (0, None)
    after: int | None = 0
    gone = 0
    while after is not None:
        count, after = store.transact("forget", lambda tx, at=after: tx.deletion.forget_history(later(1), 2, at))
        gone += count
    left = store.read(lambda tx: tx.journal.after(0, 100))
    assert [(entry.task_id, entry.seq) for entry in left if entry.task_id is None] == [(None, young)]
    assert {entry.task_id for entry in left} == {"t2", None}
    assert old not in {entry.seq for entry in left}
    assert gone == 4
    assert store.read(lambda tx: tx.deletion.forgotten()) == about_t1
    assert store.transact("say", lambda tx: tx.journal.append("x", later(61))) > young


def test_numbers_of_forgotten_history_are_not_given_again(store: Store) -> None:
    last = store.transact("say", lambda tx: tx.journal.append("daemon.started", NOON))
    assert store.transact("forget", lambda tx: tx.deletion.forget_history(later(1), 10)) == (1, None)
    assert store.read(lambda tx: tx.journal.after(0, 10)) == []
    assert store.transact("say", lambda tx: tx.journal.append("daemon.started", NOON)) > last


def test_notes_of_claims_are_forgotten_some_at_a_time(store: Store) -> None:
    def note(tx) -> None:
        for number in range(5):
            tx.queue.record_operation(f"op{number}", None, at=later(number))

    store.transact("note", note)
    assert store.transact("forget", lambda tx: tx.deletion.forget_operations(later(3), 2)) == 2
    assert store.transact("forget", lambda tx: tx.deletion.forget_operations(later(3), 2)) == 1
    assert [store.read(lambda tx, n=n: tx.queue.operation(f"op{n}")) is not None for n in range(5)] == [
        False, False, False, True, True,
    ]  # fmt: skip


def test_a_beginning_that_meant_a_removed_task_means_no_other_without_a_word(store: Store) -> None:
    """The removed one is named; with letters enough, or its whole id, a task is found."""
    for name in ("abcd", "abde", "xy"):
        store.transact("add", lambda tx, name=name: add(tx, make_task(name, state=TaskState.DONE, ended_at=NOON)))
    assert store.read(lambda tx: resolve(tx, "abd")) == "abde"
    store.transact("remove", lambda tx: tx.deletion.remove_task("abcd"))
    with pytest.raises(AmbiguousId, match="fits abde, and also task abcd, which was removed") as refusal:
        store.read(lambda tx: resolve(tx, "ab"))
    assert refusal.value.candidates == ["abde"] and refusal.value.hint
    assert [store.read(lambda tx, typed=typed: resolve(tx, typed)) for typed in ("abd", "abde", "x")] == [
        "abde",
        "abde",
        "xy",
    ]
    for typed in ("abc", "abcd"):
        with pytest.raises(NoSuchTask, match="Task abcd was removed"):
            store.read(lambda tx, typed=typed: resolve(tx, typed))
    assert store.read(lambda tx: tx.deletion.removed_like("", 9)) == ["abcd"]
