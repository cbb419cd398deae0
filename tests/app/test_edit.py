"""Editing a task when what it waited for has been removed."""

from dataclasses import replace

import pytest
from app.stage import Verbs
from support.records import add, make_spec, make_task

from watchkeeper.app.edit import Edit, edit
from watchkeeper.domain.model import Task, TaskSpec, TaskState
from watchkeeper.errors import BadTask, NoSuchTask
from watchkeeper.runtimes.system import RandomIds


def _edit(verbs: Verbs, was: Task, spec: TaskSpec) -> Task:
    wanted = Edit(was=was, spec=spec, allowed=None, profile=None)
    return edit(verbs.store, verbs.clock, RandomIds(), wanted, by="ada")


def waiting_for_what_is_gone(verbs: Verbs) -> Task:
    """A queued task that waited for two done ones, of which one was removed since."""
    at = verbs.clock.now()
    for name in ("t1", "t2"):
        _ = verbs.store.transact("add", lambda tx, n=name: add(tx, make_task(n, state=TaskState.DONE, ended_at=at)))
    spec = make_spec(after=("t1", "t2"))
    _ = verbs.store.transact("add", lambda tx: add(tx, make_task("t3", state=TaskState.FAILED, spec=spec, ended_at=at)))
    verbs.store.transact("remove", lambda tx: tx.deletion.remove_task("t1"))
    failed = verbs.task("t3")
    verbs.store.transact(
        "retry", lambda tx: tx.tasks.save(replace(failed, state=TaskState.QUEUED, ended_at=None), failed)
    )
    return verbs.task("t3")


@pytest.mark.parametrize("changes", [{"priority": 3}, {"labels": ("x",)}, {"after": ()}])
def test_what_was_removed_stands_in_no_edit_s_way(verbs: Verbs, changes: dict[str, object]) -> None:
    task = waiting_for_what_is_gone(verbs)
    wanted = replace(task.spec, **changes)
    edited = _edit(verbs, task, wanted)
    assert edited.spec == replace(wanted, after=() if "after" in changes else ("t2",))
    assert verbs.store.read(lambda tx: tx.waits.audit()) == []


def test_nobody_can_wish_to_wait_for_what_is_not_there(verbs: Verbs) -> None:
    task = waiting_for_what_is_gone(verbs)
    with pytest.raises(NoSuchTask):
        _ = _edit(verbs, task, replace(task.spec, after=("t2", "t9")))
    assert verbs.task("t3") == task


def test_a_circle_by_way_of_others_is_refused(verbs: Verbs) -> None:
    for name, after in (("t1", ()), ("t2", ("t1",)), ("t3", ("t2",))):
        task = make_task(name, spec=make_spec(after=after))
        _ = verbs.store.transact("add", lambda tx, task=task: add(tx, task))
    first = verbs.task("t1")
    with pytest.raises(BadTask, match="t1 waits for t3 waits for t2 waits for t1"):
        _ = _edit(verbs, first, replace(first.spec, after=("t3",)))
    assert verbs.task("t1") == first
