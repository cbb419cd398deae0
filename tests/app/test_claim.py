"""What a claim passes over, and what it records of it: nothing behind a task that waits is delayed, and each change of a reason is recorded once."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import pytest
from app.stage import Verbs
from support.records import end, make_outcome, make_spec, make_task

from watchkeeper.app.announce import announce_added
from watchkeeper.app.cancel import CancelRequest, cancel
from watchkeeper.app.claim import Claimant, claim
from watchkeeper.app.edit import Edit, edit
from watchkeeper.app.parts import Caller, Parts
from watchkeeper.app.queue_rules import PAUSED, RESUMED, Scope, limited, put
from watchkeeper.app.record import apply_task
from watchkeeper.domain.account import SignIn, SignInSeen
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.lanes import HarnessState
from watchkeeper.domain.model import Disposition, OutcomeStatus, Proof, RunState, Task, TaskSpec
from watchkeeper.domain.service import QuotaSeen, ServiceFailed
from watchkeeper.domain.task import RetryAsked, RunSettled
from watchkeeper.domain.wait import Wait
from watchkeeper.environment import inherited
from watchkeeper.ports.store import Authorisation, Tx
from watchkeeper.runtimes.system import RandomIds

IDS = RandomIds()
ME = Caller(by="me", environ={}, inherits=inherited())


class Queue:
    """A queue on one machine, on a clock that is moved by hand."""

    def __init__(self, verbs: Verbs) -> None:
        self.verbs = verbs
        self.store, self.clock = verbs.store, verbs.clock
        at = self.clock.now()
        machine = self.store.transact("begin", lambda tx: tx.machines.begin_incarnation("m1", "boot", at, name="here"))
        self.claimant = Claimant(machine=machine, limit=2)

    def add(self, name: str, **spec: Any) -> Task:
        """Hand a task over."""
        at = self.clock.now()
        asked = make_spec(**({"harness": "demo", "argv": ()} | spec))
        task = make_task(name, spec=asked, wake_at=asked.not_before, created_at=at, updated_at=at,
                         wake_for=None if asked.not_before is None else Wait.NOT_BEFORE)  # fmt: skip
        allowed = Authorisation(id=f"a-{name}", task_id=name, kind="person", by="me", detail="It may.", at=at)

        def work(tx: Tx) -> Task:
            tx.tasks.add(task)
            tx.outcomes.authorise(allowed)
            announce_added(tx, task, at)
            return tx.tasks.get(name)

        return self.store.transact("add", work)

    def claim(self) -> str | None:
        """What a daemon claims now."""
        claimed = claim(self.store, self.clock, IDS, self.claimant, IDS.operation())
        return None if claimed is None else claimed.task_id

    def settle(self, name: str, kind: FailureKind | None = None) -> None:
        """Its run ends: well, or by that failure."""
        at = self.clock.now()

        def work(tx: Tx) -> None:
            task = tx.tasks.get(name)
            run = end(tx, tx.runs.get(task.run_id or ""))
            tx.runs.save(replace(run, state=RunState.SETTLED, settled_at=at, proof=Proof.PROVEN), run)
            failed = kind is not None
            outcome = make_outcome(
                run, kind=kind, status=OutcomeStatus.FAILED if failed else OutcomeStatus.SUCCEEDED,
                disposition=Disposition.FAILED if failed else Disposition.DONE, at=at,
            )  # fmt: skip
            tx.outcomes.add(outcome)
            _ = apply_task(tx, task, RunSettled(outcome=outcome), at)

        self.store.transact("settle", work)

    def retry(self, name: str) -> None:
        """A person wants it again."""
        at = self.clock.now()
        event = RetryAsked(by="me", at=at, environment_id="e2")
        _ = self.store.transact("retry", lambda tx: apply_task(tx, tx.tasks.get(name), event, at))

    def observe(self, work: Callable[[Tx], object]) -> None:
        """Something becomes known."""
        _ = self.store.transact("observe", work)

    def announced(self, *of: str) -> list[str]:
        """What the journal says of waits: of these tasks, or without any of lanes."""
        found = self.store.read(lambda tx: tx.journal.after(0, 10_000))
        return [
            f"{each.kind.partition('.')[2]} {each.data.get('wait') or ''}".strip()
            for each in found
            if (each.task_id in of and each.kind in {"task.waiting", "task.ready"})
            or (not of and each.kind in {"queue.waiting", "queue.moving"})
        ]


@pytest.fixture
def queue(verbs: Verbs) -> Queue:
    return Queue(verbs)


def _dependency(queue: Queue) -> None:
    queue.add("parent", not_before=queue.clock.now() + timedelta(days=1))
    queue.add("head", priority=9, after=("parent",))


def _checkout(queue: Queue) -> None:
    queue.add("holder", checkout="/src", harness="command", argv=("true",))
    assert queue.claim() == "holder"
    queue.add("head", priority=9, checkout="/src")


def _not_before(queue: Queue) -> None:
    queue.add("head", priority=9, not_before=queue.clock.now() + timedelta(hours=1))


def _limit(queue: Queue) -> None:
    queue.add("worker", harness="h2")
    assert queue.claim() == "worker"
    _ = put(queue.store, queue.clock, "me", Scope(scope="harness", name="h2"), limited(1))
    queue.add("head", priority=9, harness="h2")


def _paused(queue: Queue) -> None:
    _ = put(queue.store, queue.clock, "me", Scope(scope="project", name="p2"), PAUSED)
    queue.add("head", priority=9, project="p2")


def _machine(queue: Queue) -> None:
    queue.add("head", priority=9, machine="m2")


def _missing(queue: Queue) -> None:
    state = HarnessState(harness="h2", machine="m1", present=False, detail="It is not installed.", at=queue.clock.now())
    queue.observe(lambda tx: tx.accounts.record_harness(state))
    queue.add("head", priority=9, harness="h2")


def _signed_out(queue: Queue) -> None:
    seen = SignInSeen(sign_in=SignIn.OUT, at=queue.clock.now())
    queue.observe(lambda tx: tx.accounts.observe("demo:work", "m1", seen))
    queue.add("head", priority=9, account="work")


def _quota(queue: Queue) -> None:
    now = queue.clock.now()
    seen = QuotaSeen(until=now + timedelta(hours=1), at=now, now=now)
    queue.observe(lambda tx: tx.accounts.observe("demo:work", "m1", seen))
    queue.add("head", priority=9, account="work")


def _service(queue: Queue) -> None:
    now = queue.clock.now()
    seen = ServiceFailed(run_id="t9.1", kind=FailureKind.OVERLOADED, detail="529", at=now, now=now)
    queue.observe(lambda tx: tx.accounts.observe("demo:work", "m1", seen))
    queue.add("head", priority=9, account="work")


HEADS: dict[Wait, Callable[[Queue], None]] = {
    Wait.DEPENDENCY: _dependency, Wait.CHECKOUT_BUSY: _checkout, Wait.NOT_BEFORE: _not_before, Wait.LIMIT: _limit,
    Wait.PAUSED: _paused, Wait.MACHINE: _machine, Wait.HARNESS_MISSING: _missing, Wait.SIGNED_OUT: _signed_out,
    Wait.QUOTA_UNTIL: _quota, Wait.SERVICE: _service,
}  # fmt: skip
"""How a task comes to wait at the head of the queue. `retry at` is kept as `not before` is; the others wait for a person, and are not in the queue."""


@pytest.mark.parametrize("wait", HEADS, ids=[wait.value for wait in HEADS])
def test_what_waits_at_the_head_delays_nothing_behind_it(queue: Queue, wait: Wait) -> None:
    HEADS[wait](queue)
    queue.add("behind")
    assert queue.claim() == "behind"
    assert queue.claim() is None


@pytest.mark.parametrize("wait", HEADS, ids=[wait.value for wait in HEADS])
def test_a_change_of_a_reason_is_told_once(queue: Queue, wait: Wait) -> None:
    """However often a daemon looks."""
    HEADS[wait](queue)
    for _ in range(3):
        assert queue.claim() is None
    own = wait in {Wait.DEPENDENCY, Wait.CHECKOUT_BUSY, Wait.NOT_BEFORE}
    assert queue.announced("head") == ([f"waiting {wait.value}"] if own else [])
    assert queue.announced().count(f"waiting {wait.value}") == (0 if own else 1)


def test_a_lane_that_opens_is_told_once(queue: Queue) -> None:
    queue.add("a")
    _ = put(queue.store, queue.clock, "me", Scope(scope="all"), PAUSED)
    assert queue.claim() is None and queue.claim() is None
    assert queue.announced() == ["waiting paused"]
    _ = put(queue.store, queue.clock, "me", Scope(scope="all"), RESUMED)
    assert queue.claim() == "a"
    assert queue.claim() is None
    assert queue.announced() == ["waiting paused"]  # no task waits in it any more, so there is nothing to record


def test_children_start_when_the_last_parent_is_done(queue: Queue) -> None:
    queue.add("p1")
    queue.add("p2")
    queue.add("child", priority=9, after=("p1", "p2"))
    assert [queue.claim(), queue.claim(), queue.claim()] == ["p1", "p2", None]
    queue.settle("p1")
    assert queue.claim() is None
    assert queue.announced("child") == ["waiting dependency"]
    queue.settle("p2")
    assert queue.announced("child") == ["waiting dependency", "ready"]
    assert queue.claim() == "child"


def test_a_parent_that_fails_keeps_them_and_one_that_is_retried_takes_them_back(queue: Queue) -> None:
    queue.add("parent")
    queue.add("child", after=("parent",))
    assert queue.claim() == "parent"
    queue.settle("parent", FailureKind.CRASH)
    assert queue.claim() is None
    entries = queue.store.read(lambda tx: tx.journal.after(0, 100, "child"))
    assert "never start by itself" in str(entries[-1].data["detail"])
    queue.retry("parent")
    assert queue.announced("child") == ["waiting dependency"] * 3  # it is queued; it failed; it is queued again
    assert queue.claim() == "parent"
    queue.settle("parent")
    assert queue.announced("child")[3:] == ["ready"]
    queue.retry("parent")
    assert queue.announced("child")[4:] == ["waiting dependency"]
    assert queue.claim() == "parent"
    assert queue.claim() is None


def test_a_child_that_has_begun_is_not_taken_back(queue: Queue) -> None:
    queue.add("parent")
    queue.add("child", after=("parent",))
    assert queue.claim() == "parent"
    queue.settle("parent")
    assert queue.claim() == "child"
    queue.retry("parent")
    assert queue.store.read(lambda tx: tx.tasks.get("child")).state.value == "running"
    assert queue.announced("child") == ["waiting dependency", "ready"]


def test_a_parent_that_is_cancelled_is_said(queue: Queue) -> None:
    queue.add("parent")
    queue.add("child", after=("parent",))
    _ = cancel(cast("Parts", queue), ME, CancelRequest(task_id="parent"))
    assert queue.claim() is None
    entries = queue.store.read(lambda tx: tx.journal.after(0, 100, "child"))
    assert "was stopped and must be done first: it will never start by itself" in str(entries[-1].data["detail"])


def test_what_is_blocked_by_a_claim_is_told_of(queue: Queue) -> None:
    """Two lanes and one checkout: what becomes ready meets a checkout that was taken before it."""
    later = queue.clock.now() + timedelta(seconds=5)
    queue.add("late", checkout="/src", not_before=later, harness="h2")
    queue.add("holder", checkout="/src")
    assert queue.claim() == "holder"
    queue.clock.step(6)
    assert queue.claim() is None and queue.claim() is None
    assert queue.announced("late") == ["waiting not before", "waiting checkout busy"]
    queue.settle("holder")
    assert queue.claim() == "late"


def _edit(queue: Queue, was: Task, spec: TaskSpec) -> Task:
    allowed = queue.store.read(lambda tx: tx.outcomes.authorisation(was.id))
    return edit(queue.store, queue.clock, IDS, Edit(was=was, spec=spec, allowed=allowed, profile=None), by="me")


def test_an_edit_tells_what_changed(queue: Queue) -> None:
    queue.add("parent")
    task = queue.add("task", account="own")
    spec = replace(task.spec, after=("parent",))
    task = _edit(queue, task, spec)
    assert queue.announced("task") == ["waiting dependency"]
    task = _edit(queue, task, replace(spec, priority=3))
    assert queue.announced("task") == ["waiting dependency"]
    _ = _edit(queue, task, replace(spec, after=()))
    assert queue.announced("task") == ["waiting dependency", "ready"]
