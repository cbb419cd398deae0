"""What decides on a task's work is kept with the task, and a spec of an earlier version stays as it was written."""

from dataclasses import replace

from support.records import add, make_spec, make_task, reserve

from watchkeeper.domain.samples import a_worktree
from watchkeeper.ports.store import Store, Tx
from watchkeeper.store.tasks import spec_from, spec_text


def test_checks_are_kept_as_they_were_given(store: Store) -> None:
    spec = make_spec(
        checks=("make test", "true && \"x\" '\n'"), check_deadline_s=3.5, setup=("make deps",), teardown=("make down",)
    )

    store.transact("test", lambda tx: add(tx, make_task("t1", spec=spec)))

    assert store.read(lambda tx: tx.tasks.get("t1")).spec == spec


def test_a_task_that_has_none_is_stored_as_before_there_were_any() -> None:
    """Else the database would take a new title of a task that works for another plan."""
    text = spec_text(make_spec())
    assert not any(f'"{name}"' in text for name in ("checks", "check_deadline_s", "setup", "teardown"))
    assert spec_from(text) == make_spec()


def test_the_worktree_stays_the_last_part_of_a_spec_with_checks(store: Store) -> None:
    assert '"worktree":{' in spec_text(make_spec(checks=("true",), worktree=a_worktree())).rpartition('"checks"')[2]

    def begin(tx: Tx) -> None:
        _ = reserve(tx, add(tx, make_task("t1", spec=make_spec(checks=("true",), worktree=a_worktree()))))
        task = tx.tasks.get("t1")
        tx.tasks.save(replace(task, spec=replace(task.spec, title="Another")), task)

    store.transact("test", begin)
    assert store.read(lambda tx: tx.tasks.get("t1")).spec.title == "Another"
