"""The state machine of a task, cell by cell, and the ways through it that people care about."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from watchkeeper.domain.effects import ForgetEnvironment
from watchkeeper.domain.failure import ROWS, FailureKind
from watchkeeper.domain.model import Disposition, RunState, StopHow, StopRequest, Task, TaskState
from watchkeeper.domain.resolution import resolve_held
from watchkeeper.domain.run import decide_run
from watchkeeper.domain.run_events import (
    HeldBack,
    Settled,
)
from watchkeeper.domain.samples import AT, LATER, STOP, a_run, a_spec, a_task, a_worktree, an_outcome, task_events
from watchkeeper.domain.task import (
    TASK_EVENTS,
    Claimed,
    Edited,
    MergeStep,
    Pinned,
    Renamed,
    RetryAsked,
    RunHeld,
    RunRegained,
    RunSettled,
    StopAsked,
    TaskEvent,
    WorktreeMade,
    WorktreeRemoval,
    WorktreeRestored,
    decide_task,
)
from watchkeeper.domain.wait import Wait
from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.domain.worktree import WorktreeState
from watchkeeper.errors import Refused

S = TaskState
FINAL = (S.DONE, S.FAILED, S.STOPPED)
AFTER = {
    Disposition.DONE: S.DONE,
    Disposition.NEEDS_INPUT: S.NEEDS_INPUT,
    Disposition.RETRY: S.QUEUED,
    Disposition.FAILED: S.FAILED,
    Disposition.STOPPED: S.STOPPED,
    Disposition.HELD: S.HELD,
}
RESOLVING = {Disposition.FAILED, Disposition.STOPPED}


def listed(state: TaskState, event: TaskEvent) -> TaskState | None:
    """Where an allowed pair leads; None where it is refused."""
    match event:
        case Claimed():
            return {S.QUEUED: S.RUNNING}.get(state)
        case RunHeld():
            return {S.RUNNING: S.HELD, S.HELD: S.HELD}.get(state)
        case RunRegained():
            return {S.RUNNING: S.RUNNING, S.HELD: S.RUNNING}.get(state)
        case RunSettled(outcome=outcome):
            allowed = state is S.RUNNING or (state is S.HELD and outcome.disposition in RESOLVING)
            return AFTER[outcome.disposition] if allowed else None
        case StopAsked():
            return {S.QUEUED: S.STOPPED, S.NEEDS_INPUT: S.STOPPED}.get(state, state)
        case RetryAsked():
            return S.QUEUED if state in {S.NEEDS_INPUT, *FINAL} else None
        case Edited():
            return {S.QUEUED: S.QUEUED}.get(state)
        case Renamed() | Pinned():
            return state
        case WorktreeMade() | WorktreeRemoval() | WorktreeRestored() | MergeStep():
            return None  # of a task that has none


def retry(environment_id: str = "e2") -> RetryAsked:
    """A person's wish for another run."""
    return RetryAsked(by="ada", at=LATER, environment_id=environment_id)


def stop(how: StopHow = StopHow.STOP) -> StopAsked:
    """A person's wish to end the task."""
    return StopAsked(request=StopRequest(how=how, by="bob", at=LATER))


def backing_off() -> Task:
    """A task that waits for its next try."""
    return replace(a_task(S.QUEUED), runs=1, attempts=1, wake_at=LATER + timedelta(hours=1))


def held_without_run() -> Task:
    """A task whose launches came to nothing too often."""
    return replace(a_task(S.HELD), run_id=None, unlaunched=6, kind=FailureKind.NEVER_LAUNCHED)


def test_every_event_is_in_the_list() -> None:
    """The samples and the list of events speak of the same events."""
    assert {type(event) for event in task_events()} == set(TASK_EVENTS)


@pytest.mark.parametrize("state", TaskState)
@pytest.mark.parametrize("event", task_events(), ids=lambda event: type(event).__name__)
def test_each_pair_leads_where_it_should_or_is_refused(state: TaskState, event: TaskEvent) -> None:
    """Each listed pair leads to its state; every other raises."""
    expected = listed(state, event)
    if expected is None:
        with pytest.raises(Refused):
            decide_task(a_task(state), event)
        return
    after = decide_task(a_task(state), event).task
    assert after.state is expected
    assert (after.run_id is not None) == (after.state in {S.RUNNING, S.HELD} and listed_keeps_run(event))
    moved = after.state is not state
    assert (after.ended_at is not None) == (after.state in FINAL and moved)


def listed_keeps_run(event: TaskEvent) -> bool:
    """Whether the task's run is still its own after the event."""
    return not isinstance(event, RunSettled)


def test_a_claim_takes_the_task_for_its_run() -> None:
    """It counts the run and clears what was said about the wait."""
    task = decide_task(replace(backing_off(), reason="overloaded", kind=FailureKind.OVERLOADED), task_events()[0]).task
    assert (task.run_id, task.runs, task.wake_at, task.reason, task.kind) == ("t1.1", 2, None, "", None)


def test_a_stopped_task_is_never_claimed() -> None:
    """The stop is part of the claim's own condition."""
    with pytest.raises(Refused, match="never claimed"):
        decide_task(replace(a_task(S.QUEUED), stop=STOP), Claimed(run_id="t1.1", at=LATER))


@pytest.mark.parametrize("state", FINAL)
@pytest.mark.parametrize("how", StopHow)
def test_a_stop_changes_nothing_about_what_has_ended(state: TaskState, how: StopHow) -> None:
    """Final states absorb (R5)."""
    decision = decide_task(a_task(state), stop(how))
    assert (decision.task, decision.effects) == (a_task(state), ())


@pytest.mark.parametrize("waiting", [a_task(S.QUEUED), backing_off(), a_task(S.NEEDS_INPUT), held_without_run()])
def test_a_stop_of_what_does_not_run_is_immediate(waiting: Task) -> None:
    """Also during a back-off; the environment is forgotten."""
    decision = decide_task(waiting, stop())
    task = decision.task
    assert (task.state, task.kind, task.wake_at, task.ended_at) == (S.STOPPED, FailureKind.STOPPED, None, LATER)
    assert decision.effects == (ForgetEnvironment(environment_id="e1"),)


@pytest.mark.parametrize(
    ("first", "second", "strongest"),
    [
        (StopHow.STOP, StopHow.KILL, StopHow.KILL),
        (StopHow.KILL, StopHow.STOP, StopHow.KILL),
        (StopHow.STOP, StopHow.STOP, StopHow.STOP),
    ],
)
@pytest.mark.parametrize("state", [S.RUNNING, S.HELD])
def test_a_kill_escalates_a_stop_and_not_the_other_way(
    state: TaskState, first: StopHow, second: StopHow, strongest: StopHow
) -> None:
    """The strongest wish stays."""
    task = decide_task(decide_task(a_task(state), stop(first)).task, stop(second)).task
    assert task.stop is not None
    assert task.stop.how is strongest


def test_the_same_stop_again_changes_nothing_while_it_runs() -> None:
    """It is on its way already; the first request and its author stay."""
    stopping = a_task(S.RUNNING, stop=STOP)
    assert decide_task(stopping, stop()).task == stopping


def test_a_stop_that_was_asked_before_the_run_was_held_can_be_asked_again() -> None:
    """Each is the person's word on the held run, so the verb sees a change and settles it."""
    held = a_task(S.HELD, stop=STOP)
    assert decide_task(held, stop()).task != held


@pytest.mark.parametrize("disposition", [Disposition.RETRY, Disposition.NEEDS_INPUT, Disposition.HELD])
def test_an_outcome_that_passes_over_a_stop_is_refused(disposition: Disposition) -> None:
    """It was decided before the stop came, so it is decided again; a stopped task never waits for another run."""
    with pytest.raises(Refused, match="decide again"):
        decide_task(a_task(S.RUNNING, stop=STOP), RunSettled(outcome=an_outcome(disposition)))


def test_success_that_came_before_the_stop_is_success() -> None:
    """The plain truth (R18)."""
    task = decide_task(a_task(S.RUNNING, stop=STOP), RunSettled(outcome=an_outcome())).task
    assert task.state is S.DONE


def test_an_outcome_of_another_run_is_refused() -> None:
    """R4."""
    with pytest.raises(Refused, match="another run"):
        decide_task(a_task(S.RUNNING), RunSettled(outcome=replace(an_outcome(), run_id="t1.9")))


@pytest.mark.parametrize("kind", FailureKind)
def test_attempts_are_counted_as_the_row_says(kind: FailureKind) -> None:
    """And launches in a row that never happened are counted apart."""
    outcome = an_outcome(Disposition.FAILED, kind)
    task = decide_task(replace(a_task(S.RUNNING), unlaunched=2), RunSettled(outcome=outcome)).task
    assert task.attempts == (1 if ROWS[kind].counts else 0)
    assert task.unlaunched == (3 if kind is FailureKind.NEVER_LAUNCHED else 0)


def test_a_retry_waits_until_its_time() -> None:
    """The time stands on the task."""
    outcome = an_outcome(Disposition.RETRY, FailureKind.NOTHING_RECORDED)
    task = decide_task(a_task(S.RUNNING), RunSettled(outcome=outcome)).task
    assert (task.state, task.wake_at, task.attempts, task.run_id) == (S.QUEUED, outcome.wake_at, 1, None)


@pytest.mark.parametrize("state", [*FINAL, S.NEEDS_INPUT])
def test_only_a_retry_lifts_a_stop_and_gives_a_fresh_budget(state: TaskState) -> None:
    """A person's later act."""
    tired = replace(a_task(state, stop=STOP), attempts=3, unlaunched=2, reason="x", ended_at=AT)
    task = decide_task(tired, retry()).task
    assert (task.state, task.stop, task.attempts, task.unlaunched) == (S.QUEUED, None, 0, 0)
    assert (task.environment_id, task.ended_at, task.reason) == ("e2", None, "")


def test_a_retry_ends_a_back_off() -> None:
    """The wait is over, the budget fresh, and the environment that was kept is forgotten for the new one."""
    decision = decide_task(backing_off(), retry())
    assert (decision.task.wake_at, decision.task.attempts) == (None, 0)
    assert decision.effects == (ForgetEnvironment(environment_id="e1"),)


@pytest.mark.parametrize("state", FINAL)
def test_the_environment_that_went_with_the_end_is_not_forgotten_twice(state: TaskState) -> None:
    """Only what is still kept is given to be forgotten."""
    assert decide_task(a_task(state), retry()).effects == ()


def test_another_account_has_not_used_up_its_limit() -> None:
    """What waited for the account that it had starts under the other one; a back-off, or an edit of something else, still waits."""
    waits = replace(backing_off(), wake_for=Wait.QUOTA_UNTIL)
    other = replace(waits.spec, account="work")
    edited = decide_task(waits, Edited(spec=other, by="me", at=AT)).task
    assert (edited.spec, edited.wake_at, edited.wake_for) == (other, None, None)
    other = replace(waits.spec, priority=3)
    assert decide_task(waits, Edited(spec=other, by="me", at=AT)).task.wake_at == waits.wake_at
    failed = replace(waits, wake_for=Wait.RETRY_AT)
    other = replace(waits.spec, account="work")
    assert decide_task(failed, Edited(spec=other, by="me", at=AT)).task.wake_at == waits.wake_at


def test_a_held_task_without_a_run_is_retried_at_once() -> None:
    """There is nothing to give up."""
    task = decide_task(held_without_run(), retry()).task
    assert (task.state, task.unlaunched) == (S.QUEUED, 0)


def test_a_held_task_without_a_run_has_nothing_to_regain() -> None:
    """No evidence can come back."""
    with pytest.raises(Refused):
        decide_task(held_without_run(), RunRegained(at=LATER))


@pytest.mark.parametrize("before", [None, STOP], ids=["", "with a stop from before"])
def test_a_person_retries_a_held_task(before: StopRequest | None) -> None:
    """The held run is given up, then the task is queued under the new environment; the old one is forgotten once."""
    task = a_task(S.HELD, stop=before)
    with pytest.raises(Refused, match="must be settled"):
        decide_task(task, retry())
    run = decide_run(a_run(RunState.RUNNING), HeldBack(reason="A record cannot be read.")).run
    outcome = resolve_held(task, run, LATER, stopped=False, by="ada")
    assert decide_run(run, Settled(outcome=outcome)).run.state is RunState.SETTLED
    given_up = decide_task(task, RunSettled(outcome=outcome))
    queued = decide_task(given_up.task, retry())
    assert (given_up.task.state, queued.task.state) == (S.FAILED, S.QUEUED)
    assert (queued.task.run_id, queued.task.stop, queued.task.environment_id) == (None, None, "e2")
    assert (*given_up.effects, *queued.effects) == (ForgetEnvironment(environment_id="e1"),)
    assert decide_task(queued.task, Claimed(run_id="t1.2", at=LATER)).task.state is S.RUNNING


def test_a_person_stops_a_held_task() -> None:
    """The wish, then the settlement of the held run on it."""
    wished = decide_task(a_task(S.HELD), stop()).task
    run = a_run(RunState.HELD)
    outcome = resolve_held(wished, run, LATER, stopped=True, by="bob")
    assert decide_run(run, Settled(outcome=outcome)).run.kind is FailureKind.STOPPED
    task = decide_task(wished, RunSettled(outcome=outcome)).task
    assert (task.state, task.reason) == (
        S.STOPPED,
        "bob stopped it while it was held. It is not proven that nothing of it is alive.",
    )


@pytest.mark.parametrize("wake", [None, LATER])
def test_an_edit_of_the_time_replaces_what_the_task_waited_for(wake: datetime | None) -> None:
    """A wish for a time, or its end, ends a back-off too."""
    task = replace(
        a_task(S.QUEUED, spec=replace(a_spec(), not_before=AT)),
        wake_at=LATER + timedelta(days=1),
        wake_for=Wait.RETRY_AT,
    )
    after = decide_task(task, Edited(spec=replace(task.spec, not_before=wake), by="ada", at=LATER)).task
    assert (after.wake_at, after.wake_for) == (wake, None if wake is None else Wait.NOT_BEFORE)
    assert after.updated_at == LATER


def test_an_edit_of_something_else_keeps_what_the_task_waits_for() -> None:
    task = replace(a_task(S.QUEUED), wake_at=LATER, wake_for=Wait.RETRY_AT)
    after = decide_task(task, Edited(spec=replace(task.spec, title="Other"), by="ada", at=LATER)).task
    assert (after.wake_at, after.wake_for, after.spec.title) == (LATER, Wait.RETRY_AT, "Other")
    assert decide_task(task, Edited(spec=task.spec, by="ada", at=LATER)).task == task


@pytest.mark.parametrize(
    ("kind", "wake_at", "wait"),
    [
        (FailureKind.NETWORK, LATER, Wait.RETRY_AT),
        (FailureKind.QUOTA, LATER, Wait.QUOTA_UNTIL),
        (FailureKind.NETWORK, None, None),
    ],
)
def test_a_retry_says_what_the_task_waits_for(kind: FailureKind, wake_at: datetime | None, wait: Wait | None) -> None:
    outcome = replace(an_outcome(Disposition.RETRY, kind), wake_at=wake_at)
    after = decide_task(a_task(S.RUNNING), RunSettled(outcome=outcome)).task
    assert (after.state, after.wake_at, after.wake_for) == (S.QUEUED, wake_at, wait)


@pytest.mark.parametrize(
    ("state", "detail", "hint"),
    [
        (S.QUEUED, "Task t1 is already waiting for its turn.", "`wk why t1` says what keeps it."),
        (S.RUNNING, "Task t1 is running.", "`wk stop` ends it; then `wk retry` starts it again."),
        (S.HELD, "The held run must be settled before the task can be tried again.", ""),
    ],
)
def test_a_retry_that_is_refused_says_what_to_do(state: TaskState, detail: str, hint: str) -> None:
    with pytest.raises(Refused) as caught:
        _ = decide_task(a_task(state), RetryAsked(by="ada", at=LATER, environment_id="e2"))
    assert (str(caught.value), caught.value.hint or "") == (detail, hint)


def with_worktree(state: TaskState, became: WorktreeState) -> Task:
    """A task whose worktree stands like that."""
    return a_task(state, spec=replace(a_spec(), worktree=a_worktree(became)))


def worktree_of(task: Task) -> WorktreeState:
    """How its worktree stands."""
    assert task.spec.worktree is not None
    return task.spec.worktree.state


@pytest.mark.parametrize("state", TaskState)
def test_that_a_worktree_was_made_is_recorded_in_every_state(state: TaskState) -> None:
    """The task may have been stopped while it was made; what is there is on record all the same."""
    place = WorkingDirectory(path="/w", device=1, inode=2)
    task = decide_task(with_worktree(state, WorktreeState.PLANNED), WorktreeMade(place=place, at=LATER)).task
    assert (task.state, worktree_of(task)) == (state, WorktreeState.MADE)
    assert task.spec.worktree is not None
    assert task.spec.worktree.made == place
    other = WorktreeMade(place=replace(place, inode=3), at=LATER)
    assert decide_task(task, other).task == task, "the first record stays"


@pytest.mark.parametrize("state", TaskState)
@pytest.mark.parametrize("before", WorktreeState)
@pytest.mark.parametrize("became", WorktreeState)
def test_a_worktree_is_removed_only_after_the_task_has_ended(
    state: TaskState, before: WorktreeState, became: WorktreeState
) -> None:
    w = WorktreeState
    allowed = {
        (w.PLANNED, w.REMOVING), (w.MADE, w.REMOVING), (w.REMOVING, w.REMOVING), (w.REMOVING, w.MADE),
        (w.REMOVING, w.REMOVED),
    }  # fmt: skip
    event = WorktreeRemoval(became=became, by="ada", at=LATER)
    if state in FINAL and (before, became) in allowed:
        assert worktree_of(decide_task(with_worktree(state, before), event).task) is became
    else:
        with pytest.raises(Refused):
            decide_task(with_worktree(state, before), event)


@pytest.mark.parametrize("became", [WorktreeState.REMOVING, WorktreeState.REMOVED])
def test_a_task_without_its_worktree_is_not_tried_again(became: WorktreeState) -> None:
    """Nothing falls back to the checkout."""
    with pytest.raises(Refused, match="was removed, and it works nowhere else"):
        decide_task(with_worktree(S.DONE, became), retry())
