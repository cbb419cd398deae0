"""The state machine of a task: what an event makes of it. Whatever is not listed here is refused.

    queued ──claimed──▶ running ──settled──▶ done · failed · stopped · needs_input · held · queued again (retry)
       │                   │  ▲
       └─stop──▶ stopped   ▼  │ evidence came back
                          held

A stop request lives on the task and is part of the claim's own condition; only a person's later act, `retry`, lifts it.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from watchkeeper.domain.effects import Effect, ForgetEnvironment
from watchkeeper.domain.failure import ROWS, FailureKind
from watchkeeper.domain.merge import Merge, MergeState
from watchkeeper.domain.model import (
    FINAL_TASK_STATES,
    RESOLVES_A_HELD_RUN,
    Disposition,
    Outcome,
    Proof,
    StopHow,
    StopRequest,
    Task,
    TaskSpec,
    TaskState,
)
from watchkeeper.domain.service import charged, service_failures
from watchkeeper.domain.task_worktree import (
    in_a_new_worktree,
    merge_step,
    refuse_removed,
    worktree_made,
    worktree_removal,
    worktree_restored,
)
from watchkeeper.domain.wait import Wait
from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.domain.worktree import WorktreeState
from watchkeeper.errors import Refused

S = TaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A daemon claimed the task for a new run."""

    run_id: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeld:
    """What became of the run is uncertain."""

    reason: str
    kind: FailureKind
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRegained:
    """The held run's evidence came back."""

    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettled:
    """The run's outcome was decided."""

    outcome: Outcome
    service_answered: bool = False
    """The service answered a task since the run began, or since it failed this task before."""
    again: bool = False
    """A person gave the run up, and asks for another one in the same transaction."""
    goes_on: bool = False
    """Messages came while the run worked, so the task goes back into the queue instead of coming to rest."""
    machine: str = ""
    """The machine that keeps the conversation, and that the task is then bound to; empty: any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAsked:
    """A person wants the task ended."""

    request: StopRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAsked:
    """A person asks for another run, under the environment of the caller."""

    by: str
    at: datetime
    environment_id: str
    environment_machine: str = ""
    lifts: bool = False
    """It waited for its account's service or limit, which is tried again at once."""
    machine: str = ""
    """The machine that keeps the conversation to continue, and that the task is then bound to; empty: as before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A person wants a task that waits to be another one."""

    spec: TaskSpec
    by: str
    at: datetime
    changed: str = ""
    """What of it, in words for the history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Renamed:
    """A person calls the task something else."""

    title: str
    by: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """A person wants to keep the task on top, or no longer."""

    pinned: bool
    by: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WorktreeMade:
    """The task's worktree was made, or found complete."""

    place: WorkingDirectory
    """The task's working directory in it."""
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WorktreeRemoval:
    """The right to remove the worktree is taken, the worktree is gone, or it is kept after all."""

    became: WorktreeState
    by: str
    at: datetime
    reason: str = ""
    """Why it is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorktreeRestored:
    """The worktree was brought back as it was before its removal."""

    place: WorkingDirectory | None
    """The task's working directory in it; None: it was missing before the removal, too."""
    by: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStep:
    """The merge of the task's branch has come to a step."""

    became: MergeState
    merge: Merge
    """The merge as it is then."""
    by: str
    at: datetime
    reason: str = ""
    """Why it was given up, or which files conflict."""


TaskEvent = (
    Claimed
    | RunHeld
    | RunRegained
    | RunSettled
    | StopAsked
    | RetryAsked
    | Edited
    | Renamed
    | Pinned
    | WorktreeMade
    | WorktreeRemoval
    | WorktreeRestored
    | MergeStep
)

TASK_EVENTS: tuple[type[TaskEvent], ...] = (
    Claimed,
    RunHeld,
    RunRegained,
    RunSettled,
    StopAsked,
    RetryAsked,
    Edited,
    Renamed,
    Pinned,
    WorktreeMade,
    WorktreeRemoval,
    WorktreeRestored,
    MergeStep,
)

_AFTER: dict[Disposition, TaskState] = {
    Disposition.DONE: S.DONE,
    Disposition.NEEDS_INPUT: S.NEEDS_INPUT,
    Disposition.RETRY: S.QUEUED,
    Disposition.FAILED: S.FAILED,
    Disposition.STOPPED: S.STOPPED,
    Disposition.HELD: S.HELD,
}


_PASSES_OVER_A_STOP = frozenset({Disposition.RETRY, Disposition.NEEDS_INPUT, Disposition.HELD})
"""What an outcome that was decided without knowing of a stop could do to the task: leave it waiting for something else (decided anew, never applied)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDecision:
    """What an event makes of a task, and what it wants done."""

    task: Task
    effects: tuple[Effect, ...] = ()


def decide_task(task: Task, event: TaskEvent) -> TaskDecision:
    """Apply one event to one task.

    Raises:
        Refused: the pair of state and event is not listed.
    """
    match task.state, event:
        case S.QUEUED, Claimed(run_id=run_id, at=at):
            return TaskDecision(task=_claimed(task, run_id, at))
        case S.RUNNING, RunHeld(reason=reason, kind=kind, at=at):
            return TaskDecision(task=replace(task, state=S.HELD, reason=reason, kind=kind, updated_at=at))
        case S.HELD, RunHeld():
            return TaskDecision(task=task)
        case S.HELD, RunRegained(at=at) if task.run_id is not None:
            return TaskDecision(task=replace(task, state=S.RUNNING, reason="", kind=None, updated_at=at))
        case S.RUNNING, RunRegained():
            return TaskDecision(task=task)
        case S.RUNNING, RunSettled():
            return _settled(task, event)
        case S.HELD, RunSettled(outcome=outcome) if outcome.disposition in RESOLVES_A_HELD_RUN:
            return _settled(task, event)
        case _:
            return _asked(task, event)


def _asked(task: Task, event: TaskEvent) -> TaskDecision:
    """What people want of a task."""
    match task.state, event:
        case _, StopAsked(request=request):
            return _stopped(task, request)
        case _, RetryAsked():
            return _retried(task, event)
        case S.QUEUED, Edited():
            return TaskDecision(task=_edited(task, event))
        case _, Renamed(title=title, at=at):
            renamed = replace(task, spec=replace(task.spec, title=title), updated_at=at)
            return TaskDecision(task=task if title == task.spec.title else renamed)
        case _, Pinned(pinned=pinned, at=at):
            if pinned is (task.pinned_at is not None):
                return TaskDecision(task=task)
            return TaskDecision(task=replace(task, pinned_at=at if pinned else None, updated_at=at))
        case _, WorktreeMade():
            return TaskDecision(task=worktree_made(task, event.place, event.at))
        case _, WorktreeRemoval() if task.state in FINAL_TASK_STATES:
            return TaskDecision(task=worktree_removal(task, event.became, event.at))
        case _, WorktreeRestored() if task.state in FINAL_TASK_STATES:
            return TaskDecision(task=worktree_restored(task, event.place, event.at))
        case _, MergeStep():
            return TaskDecision(task=merge_step(task, event.became, event.merge, event.at))
        case _:
            raise Refused(f"A task that is {task.state} cannot take '{type(event).__name__}'.")


def _claimed(task: Task, run_id: str, at: datetime) -> Task:
    if task.stop is not None:
        raise Refused("A stopped task is never claimed.")
    return replace(
        task,
        state=S.RUNNING,
        run_id=run_id,
        runs=task.runs + 1,
        wake_at=None,
        wake_for=None,
        reason="",
        kind=None,
        updated_at=at,
    )


def _edited(task: Task, event: Edited) -> Task:
    """What a task becomes that had another spec. What it waits for by itself (a back-off, a quota) is not forgotten by an edit of something else."""
    after = replace(task, spec=event.spec, updated_at=event.at)
    if task.wake_for is Wait.QUOTA_UNTIL and event.spec.account_id != task.spec.account_id:
        after = replace(after, wake_at=None, wake_for=None)  # that was the other account's limit
    if event.spec.not_before == task.spec.not_before:
        return after if after.spec != task.spec else task
    wish = event.spec.not_before
    return replace(after, wake_at=wish, wake_for=Wait.NOT_BEFORE if wish is not None else None)


def _settled(task: Task, event: RunSettled) -> TaskDecision:
    outcome, answered = event.outcome, event.service_answered
    if task.run_id != outcome.run_id:
        raise Refused("The outcome is of another run than the task's own.")
    if task.stop is not None and outcome.disposition in _PASSES_OVER_A_STOP:
        raise Refused("The task was stopped before this was decided: decide again.")
    state = _after(task, event)
    row = ROWS[outcome.kind] if outcome.kind is not None else None
    counted = row is None or row.counts or charged(task, outcome.kind, answered=answered)
    moves = outcome.disposition is Disposition.RETRY and outcome.proof is Proof.SWEPT and task.spec.worktree is not None
    after = replace(
        task,
        state=state,
        spec=in_a_new_worktree(task) if moves else _bound(task.spec, event.machine),
        run_id=None,
        attempts=task.attempts + (1 if counted else 0),
        service_failures=service_failures(task, outcome.kind, answered=answered),
        unlaunched=task.unlaunched + 1 if outcome.kind is FailureKind.NEVER_LAUNCHED else 0,
        wake_at=outcome.wake_at if state is S.QUEUED else None,
        wake_for=_wake_for(outcome) if state is S.QUEUED else None,
        reason=outcome.reason,
        kind=outcome.kind,
        updated_at=outcome.at,
        ended_at=outcome.at if state in FINAL_TASK_STATES else None,
    )
    if event.goes_on:
        # A message is a person's act: it begins a fresh budget, as a retry does.
        after = replace(after, attempts=0, service_failures=0, unlaunched=0, wake_at=None, wake_for=None, kind=None)
        after = replace(after, reason="A message waits for the agent.")
    return TaskDecision(task=after, effects=_forget_if_ended(after))


def _after(task: Task, event: RunSettled) -> TaskState:
    """Where the task comes to."""
    state = _AFTER[event.outcome.disposition]
    if not event.goes_on:
        return state
    if task.stop is not None or state not in {S.DONE, S.FAILED, S.NEEDS_INPUT}:
        raise Refused("A task that is stopped, held or tried again does not continue with messages.")
    return S.QUEUED


def _bound(spec: TaskSpec, machine: str) -> TaskSpec:
    """What was asked for, bound to the machine that keeps the conversation."""
    return replace(spec, machine=machine) if machine else spec


def _wake_for(outcome: Outcome) -> Wait | None:
    if outcome.wake_at is None:
        return None
    return Wait.QUOTA_UNTIL if outcome.kind is FailureKind.QUOTA else Wait.RETRY_AT


def _stopped(task: Task, request: StopRequest) -> TaskDecision:
    match task.state:
        case S.QUEUED | S.NEEDS_INPUT:
            return _stop_now(task, request)
        case S.HELD if task.run_id is None:
            return _stop_now(task, request)
        case S.HELD:
            # Each such wish is the person's word on the held run, so it is taken anew, also when the stop was asked for before the run was held.
            escalated = StopHow.KILL if task.stop is not None and task.stop.how is StopHow.KILL else request.how
            return TaskDecision(task=replace(task, stop=replace(request, how=escalated), updated_at=request.at))
        case S.RUNNING:
            if task.stop is not None and not (task.stop.how is StopHow.STOP and request.how is StopHow.KILL):
                return TaskDecision(task=task)
            return TaskDecision(task=replace(task, stop=request, updated_at=request.at))
        case _:
            return TaskDecision(task=task)


def _stop_now(task: Task, request: StopRequest) -> TaskDecision:
    after = replace(
        task,
        state=S.STOPPED,
        stop=request,
        wake_at=None,
        wake_for=None,
        reason=ROWS[FailureKind.STOPPED].detail if task.runs else "It was taken back before it ever ran.",
        kind=FailureKind.STOPPED,
        updated_at=request.at,
        ended_at=request.at,
    )
    return TaskDecision(task=after, effects=_forget_if_ended(after))


def _retried(task: Task, event: RetryAsked) -> TaskDecision:
    refuse_removed(task)
    match task.state:
        case S.QUEUED if task.wake_at is None and not event.lifts:
            raise Refused(
                f"Task {task.id} is already waiting for its turn.", hint=f"`wk why {task.id}` says what keeps it."
            )
        case S.RUNNING:
            raise Refused(
                f"Task {task.id} is running.",
                hint="`wk stop` ends it; then `wk retry` starts it again.",
            )
        case _ if task.run_id is not None:
            raise Refused("The held run must be settled before the task can be tried again.")
        case _:
            after = replace(
                task,
                state=S.QUEUED,
                spec=_bound(task.spec, event.machine),
                attempts=0,
                service_failures=0,
                unlaunched=0,
                stop=None,
                wake_at=None,
                wake_for=None,
                environment_id=event.environment_id,
                environment_machine=event.environment_machine,
                reason="",
                kind=None,
                updated_at=event.at,
                ended_at=None,
                seen_at=None,
            )
            return TaskDecision(task=after, effects=_forget_replaced(task, event.environment_id))


def _forget_replaced(task: Task, environment_id: str) -> tuple[Effect, ...]:
    """The environment that was kept until now, unless it went with the task's end."""
    if task.environment_id == environment_id or task.state in FINAL_TASK_STATES:
        return ()
    return (ForgetEnvironment(environment_id=task.environment_id),)


def _forget_if_ended(task: Task) -> tuple[Effect, ...]:
    if task.state in FINAL_TASK_STATES:
        return (ForgetEnvironment(environment_id=task.environment_id),)
    return ()
