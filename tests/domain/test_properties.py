"""What holds of every sequence of events, however senseless."""

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import timedelta
from functools import cache, partial
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from hypothesis import given, settings
from hypothesis import strategies as st

from watchkeeper.domain.effects import EndExecution, StartShim
from watchkeeper.domain.failure import ROWS, FailureKind
from watchkeeper.domain.model import (
    FINAL_TASK_STATES,
    Disposition,
    EarlyFail,
    EndReason,
    OnLost,
    Outcome,
    OutcomeStatus,
    Proof,
    Run,
    RunState,
    StopHow,
    StopRequest,
    Task,
    TaskState,
    Trace,
)
from watchkeeper.domain.run import decide_run
from watchkeeper.domain.run_events import (
    AgentSeen,
    Answered,
    Delayed,
    EarlyFailSeen,
    ExitSeen,
    HeldBack,
    InterruptWanted,
    Lingered,
    NeverLaunched,
    Prepared,
    RunEvent,
    RunLost,
    SessionSeen,
    Settled,
    ShimStarted,
    Stalled,
    StopTold,
    StopWanted,
)
from watchkeeper.domain.samples import AGENT, EXIT, LATER, a_run, a_spec, a_task, run_events
from watchkeeper.domain.settlement import Facts, settle
from watchkeeper.domain.task import (
    Claimed,
    Pinned,
    Renamed,
    RetryAsked,
    RunHeld,
    RunRegained,
    RunSettled,
    StopAsked,
    TaskEvent,
    decide_task,
)
from watchkeeper.domain.worktree import Worktree
from watchkeeper.errors import Refused

HINTS = cache(partial(get_type_hints, localns={"Worktree": Worktree}))
"""With the record that the task's own names without importing it."""


def assert_fields_have_their_types(record: Any) -> None:
    """A record of the domain is stored: what its class does not allow in a field must not be in it."""
    hints = HINTS(type(record))
    for field in fields(record):
        hint = hints[field.name]
        allowed = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        assert isinstance(getattr(record, field.name), tuple(get_origin(each) or each for each in allowed)), field.name


IDENTITY = ("id", "task_id", "number", "fence", "execution_id", "cause", "machine", "incarnation", "claimed_at")
DIRECTORY = next(event.directory for event in run_events() if isinstance(event, Prepared))
RANK = {None: 0, Proof.UNPROVEN: 1, Proof.SWEPT: 2, Proof.PROVEN: 3}

kinds = st.sampled_from(FailureKind)
hows = st.sampled_from(StopHow)
exits = st.builds(replace, st.just(EXIT), reason=st.sampled_from(EndReason), status=st.sampled_from([None, 0, 9, 256]))


def outcomes(run_ids: Sequence[str]) -> st.SearchStrategy[Outcome]:
    """Outcomes that fit nothing in particular."""
    return st.builds(
        Outcome,
        run_id=st.sampled_from(run_ids),
        fence=st.sampled_from([6, 7, 8]),
        status=st.sampled_from(OutcomeStatus),
        disposition=st.sampled_from(Disposition),
        kind=st.none() | kinds,
        reason=st.just("So it is."),
        at=st.just(LATER),
        proof=st.sampled_from(Proof),
        wake_at=st.none() | st.just(LATER + timedelta(seconds=15)),
    )


any_run_event: st.SearchStrategy[RunEvent] = st.one_of(
    st.builds(Prepared, directory=st.just(DIRECTORY)),
    st.builds(ShimStarted, at=st.just(LATER)),
    st.builds(AgentSeen, agent=st.just(AGENT)),
    st.builds(ExitSeen, exit=exits),
    st.builds(NeverLaunched, reason=st.just("Never."), kind=kinds),
    st.builds(RunLost, proof=st.sampled_from(Proof), reason=st.just("Lost.")),
    st.builds(HeldBack, reason=st.just("Unclear.")),
    st.builds(EarlyFailSeen, early_fail=st.builds(EarlyFail, kind=kinds, reason=st.just("Hopeless."))),
    st.builds(Delayed, reason=st.just("Slow.")),
    st.builds(Answered, since=st.none() | st.just(LATER)),
    st.builds(Lingered),
    st.builds(Stalled, since=st.none() | st.just(LATER)),
    st.builds(StopWanted, how=hows),
    st.builds(InterruptWanted),
    st.builds(StopTold, how=hows),
    st.builds(SessionSeen, harness_session=st.sampled_from(["s1", "s2"])),
    st.builds(Settled, outcome=outcomes(["t1.1", "t1.2"])),
)

any_task_event: st.SearchStrategy[TaskEvent] = st.one_of(
    st.builds(Claimed, run_id=st.sampled_from(["t1.1", "t1.2"]), at=st.just(LATER)),
    st.builds(RunHeld, reason=st.just("Unclear."), kind=kinds, at=st.just(LATER)),
    st.builds(RunRegained, at=st.just(LATER)),
    st.builds(RunSettled, outcome=outcomes(["t1.1", "t1.2"])),
    st.builds(StopAsked, request=st.builds(StopRequest, how=hows, by=st.just("ada"), at=st.just(LATER))),
    st.builds(RetryAsked, by=st.just("ada"), at=st.just(LATER), environment_id=st.sampled_from(["e1", "e2", "e3"])),
    st.builds(Renamed, title=st.sampled_from(["One", "Two"]), by=st.just("ada"), at=st.just(LATER)),
    st.builds(Pinned, pinned=st.booleans(), by=st.just("ada"), at=st.just(LATER)),
)


@given(st.sampled_from(RunState), st.lists(any_run_event, max_size=15))
@settings(deadline=None)
def test_what_holds_of_a_run_whatever_happens(start: RunState, events: list[RunEvent]) -> None:
    """Identity and fence stay, ends absorb, first records stay, a shim is asked for once and a proof only gains."""
    run, starts = a_run(start), 0
    for event in events:
        was = run
        try:
            decision = decide_run(run, event)
        except Refused:
            continue
        run = decision.run
        assert_fields_have_their_types(run)
        starts += sum(isinstance(effect, StartShim) for effect in decision.effects)
        assert [getattr(run, name) for name in IDENTITY] == [getattr(was, name) for name in IDENTITY]
        for effect in decision.effects:
            assert_fields_have_their_types(effect)
            assert isinstance(effect, StartShim | EndExecution)
            assert (effect.run_id, effect.fence) == (run.id, run.fence)
        _assert_nothing_is_undone(was, run)
    assert starts <= (1 if start is RunState.RESERVED else 0)


def _assert_nothing_is_undone(was: Run, run: Run) -> None:
    if was.state is RunState.SETTLED:
        assert run == was
    for name in ("directory", "exit", "early_fail", "shim_started_at"):
        assert getattr(was, name) is None or getattr(run, name) == getattr(was, name)
    if run.state is not RunState.SETTLED:
        assert RANK[run.proof] >= RANK[was.proof]
    if was.stop_told is StopHow.KILL:
        assert run.stop_told is StopHow.KILL
    if run.state is RunState.RUNNING:
        assert run.proof is None and run.exit is None
    if was.exit is not None or was.proof is not None:
        assert run.state in {RunState.ENDED, RunState.HELD, RunState.SETTLED}


@given(st.sampled_from(RunState), any_run_event)
@settings(deadline=None)
def test_the_same_news_twice_is_the_same_as_once(state: RunState, event: RunEvent) -> None:
    """Every loop reads evidence anew, so all of it arrives more than once."""
    try:
        once = decide_run(a_run(state), event).run
        twice = decide_run(once, event).run
    except Refused:
        return
    assert twice == once


@given(st.sampled_from([TaskState.QUEUED, TaskState.RUNNING, TaskState.HELD]), st.lists(any_task_event, max_size=30))
@settings(deadline=None)
def test_what_holds_of_a_task_whatever_happens(start: TaskState, events: list[TaskEvent]) -> None:
    """Only a person's retry lifts a stop or leaves an end; a stopped task is not claimable; a run owns it exactly while it works."""
    task = a_task(start)
    for event in events:
        was = task
        try:
            task = decide_task(task, event).task
        except Refused:
            continue
        assert_fields_have_their_types(task)
        spec = replace(was.spec, title=task.spec.title)
        assert (task.id, task.spec, task.created_at) == (was.id, spec, was.created_at)
        assert task.runs >= was.runs
        if not isinstance(event, RetryAsked):
            assert was.stop is None or task.stop is not None
            assert was.state not in FINAL_TASK_STATES or task.state is was.state
            assert task.attempts >= was.attempts
        _assert_consistent(task)


def _assert_consistent(task: Task) -> None:
    assert (task.run_id is not None) or task.state is not TaskState.RUNNING
    assert (task.run_id is None) or task.state in {TaskState.RUNNING, TaskState.HELD}
    assert (task.ended_at is not None) == (task.state in FINAL_TASK_STATES)
    assert task.wake_at is None or task.state is TaskState.QUEUED
    assert task.stop is None or task.state is not TaskState.QUEUED


traces = st.none() | st.builds(
    Trace,
    finished=st.booleans(),
    ok=st.booleans(),
    kind=st.none() | kinds,
    quota_until=st.none() | st.just(LATER + timedelta(hours=1)),
)
ends = st.one_of(
    st.builds(ExitSeen, exit=exits),
    st.builds(NeverLaunched, reason=st.just("Never.")),
    st.builds(RunLost, proof=st.sampled_from(Proof), reason=st.just("Lost.")),
)


@given(
    st.integers(1, 4),
    st.sampled_from(OnLost),
    st.lists(st.tuples(ends, traces, st.booleans(), st.sampled_from([None, None, None, *StopHow])), max_size=25),
)
@settings(deadline=None)
def test_a_task_left_to_itself_stays_within_its_budget(
    most: int, on_lost: OnLost, lives: list[tuple[RunEvent, Trace | None, bool, StopHow | None]]
) -> None:
    """Whatever becomes of its runs: counted attempts stay within the limit, launches that never happened within theirs, and a stop is the end."""
    task = a_task(TaskState.QUEUED, spec=a_spec(max_attempts=most, on_lost=on_lost))
    counted, in_a_row = 0, 0
    for end, trace, gone, stop in lives:
        if task.state is not TaskState.QUEUED:
            break
        task = decide_task(task, Claimed(run_id="t1.1", at=LATER)).task
        if stop is not None:
            task = decide_task(task, StopAsked(request=StopRequest(how=stop, by="ada", at=LATER))).task
        run = decide_run(a_run(RunState.STARTING), end).run
        found = settle(Facts(task=task, run=run, at=LATER, trace=trace, gone_proven=gone))
        assert_fields_have_their_types(found)
        if not isinstance(found, Outcome):
            break
        assert decide_run(run, Settled(outcome=found)).run.state is RunState.SETTLED
        task = decide_task(task, RunSettled(outcome=found)).task
        counted += found.kind is None or ROWS[found.kind].counts
        in_a_row = in_a_row + 1 if found.kind is FailureKind.NEVER_LAUNCHED else 0
        assert task.attempts == counted <= most
        assert in_a_row <= 6
        assert stop is None or task.state in {TaskState.STOPPED, TaskState.DONE}
        _assert_consistent(task)
