"""What became of a task's worktree is recorded whatever the task does; the plan never changes while it works."""

from dataclasses import replace

import pytest
from support.records import NOON, add, make_spec, make_task, reserve

from watchkeeper.app.record import apply_task
from watchkeeper.domain.samples import a_worktree
from watchkeeper.domain.task import WorktreeMade
from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.domain.worktree import WorktreeState
from watchkeeper.errors import WatchkeeperError
from watchkeeper.ports.store import Store, Tx

PLACE = WorkingDirectory(path='/w "made":{}\udcff', device=1, inode=2, repository=(1, 2, None))


def test_a_worktree_is_kept_as_it_was_planned_and_made(store: Store) -> None:
    """Also beside a title and a prompt that look like a part of the record."""
    spec = make_spec(prompt='"worktree":{"state":"made","made":null}', worktree=a_worktree())

    def work(tx: Tx) -> None:
        _ = add(tx, make_task("t2", spec=make_spec(prompt='x "worktree":{')))
        _ = reserve(tx, add(tx, make_task("t1", spec=spec)))
        _ = apply_task(tx, tx.tasks.get("t1"), WorktreeMade(place=PLACE, at=NOON), NOON)

    store.transact("test", work)
    task = store.read(lambda tx: tx.tasks.get("t1"))
    assert task.spec.worktree == replace(a_worktree(WorktreeState.MADE), made=PLACE)
    assert task.spec == replace(spec, worktree=task.spec.worktree)
    assert store.read(lambda tx: tx.tasks.with_worktrees()) == ["t1"]


def test_the_plan_of_a_task_that_works_stays(store: Store) -> None:
    def begin(tx: Tx) -> None:
        _ = reserve(tx, add(tx, make_task("t1", spec=make_spec(worktree=a_worktree()))))

    store.transact("test", begin)

    def move(tx: Tx) -> None:
        task = tx.tasks.get("t1")
        moved = replace(a_worktree(), path="/elsewhere")
        tx.tasks.save(replace(task, spec=replace(task.spec, worktree=moved)), task)

    with pytest.raises(WatchkeeperError):
        store.transact("test", move)


def test_a_checkout_is_wanted_by_a_task_that_waits_or_works_there(store: Store) -> None:
    assert not store.read(lambda tx: tx.waits.is_wanted("/c"))
    store.transact("test", lambda tx: add(tx, make_task("t1", spec=make_spec(checkout="/c"))))
    assert store.read(lambda tx: tx.waits.is_wanted("/c"))
    store.transact("test", lambda tx: reserve(tx, tx.tasks.get("t1")))
    assert store.read(lambda tx: tx.waits.is_wanted("/c"))
    assert not store.read(lambda tx: tx.waits.is_wanted("/d"))
