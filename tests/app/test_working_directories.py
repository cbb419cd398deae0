"""What a launch must find: what was approved, as far as the task's own last run did not change it."""

from dataclasses import replace

from app.stage import Verbs
from support.records import NOON, add, end, make_outcome, make_profile, make_task, reserve

from watchkeeper.app.working_directories import expected
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import Changes, Disposition, OutcomeStatus, RunState, TaskState
from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.ports.store import Authorisation, Tx

MAIN = WorkingDirectory(path="/p", device=1, inode=2, top="/p", repository=(1, 3, None), ref="refs/heads/main")
MINE = replace(MAIN, inode=99, ref="refs/heads/mine")


def approve(tx: Tx, name: str, place: WorkingDirectory | None = MAIN) -> Authorisation:
    allowed = Authorisation(
        id=name, task_id="t1", kind="person", by="ada", detail="", at=NOON, profile=make_profile(), directory="/p",
        place=place,
    )  # fmt: skip
    tx.outcomes.authorise(allowed)
    return allowed


def ran(tx: Tx, left: WorkingDirectory | None) -> None:
    """A run under the newest approval that failed for a passing reason, and left the directory like that."""
    run = reserve(tx, tx.tasks.get("t1"))
    allowed = tx.outcomes.authorisation("t1")
    assert allowed is not None
    tx.outcomes.record_launch(run, allowed.id)
    ended = end(tx, run)
    tx.runs.save(replace(ended, state=RunState.SETTLED, settled_at=NOON), ended)
    changes = Changes(known=True, left=left)
    failed = {"status": OutcomeStatus.FAILED, "disposition": Disposition.RETRY, "kind": FailureKind.NETWORK}
    tx.outcomes.add(make_outcome(ended, changes=changes, **failed))
    task = tx.tasks.get("t1")
    tx.tasks.save(replace(task, state=TaskState.QUEUED, run_id=None, wake_at=NOON), task)


def test_it_is_what_was_approved_until_the_task_has_run(verbs: Verbs) -> None:
    def work(tx: Tx) -> list[WorkingDirectory | None]:
        _ = add(tx, make_task())
        none = approve(tx, "older", None)
        allowed = approve(tx, "a1")
        return [expected(tx, "t1", None), expected(tx, "t1", none), expected(tx, "t1", allowed)]

    assert verbs.store.transact("test", work) == [None, None, MAIN]


def test_it_is_how_the_own_run_left_the_checkout_in_the_directory_that_was_approved(verbs: Verbs) -> None:
    """What is approved anew afterwards counts again; a run of before that says nothing about it."""

    def work(tx: Tx) -> list[WorkingDirectory | None]:
        _ = add(tx, make_task())
        allowed = approve(tx, "a1")
        _ = ran(tx, MINE)
        found = [expected(tx, "t1", allowed)]
        again = approve(tx, "a2", replace(MAIN, ref="refs/heads/theirs"))
        return [*found, expected(tx, "t1", again)]

    own, anew = verbs.store.transact("test", work)
    assert own == replace(MAIN, ref="refs/heads/mine")
    assert anew == replace(MAIN, ref="refs/heads/theirs")


def test_a_run_that_left_nothing_known_changes_nothing(verbs: Verbs) -> None:
    def work(tx: Tx) -> WorkingDirectory | None:
        _ = add(tx, make_task())
        allowed = approve(tx, "a1")
        _ = ran(tx, None)
        return expected(tx, "t1", allowed)

    assert verbs.store.transact("test", work) == MAIN
