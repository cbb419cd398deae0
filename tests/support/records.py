"""Records for tests, and the few transactions that most of them begin with, written against the port."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import (
    Cause,
    Disposition,
    Outcome,
    OutcomeStatus,
    Proof,
    Run,
    RunState,
    Task,
    TaskSpec,
    TaskState,
)
from watchkeeper.domain.profile import LaunchProfile, RightsLevel
from watchkeeper.ports.store import BatchLimitReached, Claim, Tx

NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


def later(seconds: float) -> datetime:
    """So many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def make_spec(**given: Any) -> TaskSpec:
    """What the caller asked for."""
    fields: dict[str, Any] = {
        "prompt": "Fix it.", "title": "Fix", "harness": "command", "model": None, "cwd": "/tmp", "argv": ("true",)
    }  # fmt: skip
    return TaskSpec(**(fields | given))


def make_profile(**given: Any) -> LaunchProfile:
    """A launch profile of a plain command."""
    fields: dict[str, Any] = {
        "harness": "command", "program": "", "version": None, "account": "command:own", "rights": RightsLevel.FULL,
        "permits": "true runs as you", "network": "yours", "sandbox": "none", "argv": ("true",),
        "brief": ("no sandbox", "your network", "true runs as you"),
    }  # fmt: skip
    return LaunchProfile(**(fields | given))


def make_task(task_id: str = "t1", *, priority: int = 0, **given: Any) -> Task:
    """A queued task."""
    fields: dict[str, Any] = {
        "id": task_id, "spec": make_spec(priority=priority), "state": TaskState.QUEUED, "created_at": NOON, "updated_at": NOON,
        "environment_id": f"env-{task_id}",
    }  # fmt: skip
    return Task(**(fields | given))


def make_run(task: Task, fence: int, **given: Any) -> Run:
    """A reserved run of a task."""
    number = task.runs + 1
    fields: dict[str, Any] = {
        "id": f"{task.id}.{number}", "task_id": task.id, "number": number, "fence": fence, "execution_id": f"x-{task.id}-{number}",
        "cause": Cause.INITIAL if number == 1 else Cause.RETRY, "state": RunState.RESERVED, "machine": "m1", "incarnation": 1,
        "claimed_at": NOON,
    }  # fmt: skip
    return Run(**(fields | given))


def add(tx: Tx, task: Task) -> Task:
    """Insert a task and return it as it is stored."""
    tx.tasks.add(task)
    return tx.tasks.get(task.id)


def claim(tx: Tx, now: datetime = NOON, operation_id: str | None = None, machine: str = "m1") -> Claim | None:
    """Claim the next ready task, once per operation id."""
    if operation_id is not None:
        earlier = tx.queue.operation(operation_id)
        if earlier is not None:
            return earlier.claim
    task = first(tx, now, machine)
    if task is None:
        return None
    run = reserve(tx, task, machine)
    claimed = Claim(task_id=task.id, run_id=run.id, fence=run.fence)
    if operation_id is not None:
        tx.queue.record_operation(operation_id, claimed, at=now)
    return claimed


def first(tx: Tx, now: datetime = NOON, machine: str = "m1") -> Task | None:
    """The first task that may be claimed, whatever its lane."""
    while tx.queue.wake(now):
        pass
    while isinstance(found := tx.queue.first(tx.queue.lanes(), machine), BatchLimitReached):
        pass
    return found


def at_work(tx: Tx) -> int:
    """How many claimed tasks may have an agent at work."""
    return sum(each.agents for each in tx.queue.occupied())


def reserve(tx: Tx, task: Task, machine: str = "m1") -> Run:
    """Make a run that owns the task."""
    run = make_run(task, tx.runs.next_fence(), machine=machine)
    tx.runs.add(run)
    tx.tasks.save(replace(task, state=TaskState.RUNNING, run_id=run.id, runs=run.number, wake_at=None), task)
    return run


def make_outcome(run: Run, **given: Any) -> Outcome:
    """A plain success."""
    fields: dict[str, Any] = {
        "run_id": run.id, "fence": run.fence, "status": OutcomeStatus.SUCCEEDED, "disposition": Disposition.DONE, "kind": None,
        "reason": "Done.", "at": NOON, "proof": Proof.PROVEN,
    }  # fmt: skip
    return Outcome(**(fields | given))


def end(tx: Tx, run: Run) -> Run:
    """Record that the run never launched, which is the shortest way to its end."""
    ended = replace(run, state=RunState.ENDED, kind=FailureKind.NEVER_LAUNCHED, proof=Proof.PROVEN)
    tx.runs.save(ended, run)
    return ended


def settle(tx: Tx, run: Run, wake_at: datetime | None = None) -> Task:
    """Settle a live run: the task is done, or queued again for `wake_at`."""
    again = wake_at is not None
    ended = end(tx, run) if run.state is not RunState.ENDED else run
    tx.runs.save(replace(ended, state=RunState.SETTLED, settled_at=NOON, proof=Proof.PROVEN), ended)
    tx.outcomes.add(make_outcome(run, disposition=Disposition.RETRY if again else Disposition.DONE, wake_at=wake_at))
    task = tx.tasks.get(run.task_id)
    state, ended_at = (TaskState.QUEUED, None) if again else (TaskState.DONE, NOON)
    tx.tasks.save(replace(task, state=state, run_id=None, wake_at=wake_at, ended_at=ended_at), task)
    return tx.tasks.get(task.id)
