"""One plain value of each record and event: the tables that `docs/rules.md` prints are computed from them, and tests start from them."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from watchkeeper.domain.evidence import DecidedBy, DecisionRecord, GoneFact
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.merge import Merge, MergeState
from watchkeeper.domain.model import (
    AgentIdentity,
    Cause,
    DirectoryIdentity,
    Disposition,
    EarlyFail,
    EndReason,
    ExitFact,
    OnLost,
    Outcome,
    OutcomeStatus,
    Proof,
    Run,
    RunState,
    StopHow,
    StopRequest,
    Task,
    TaskSpec,
    TaskState,
)
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
    StopFailed,
    StopOverdue,
    StopTold,
    StopWanted,
    Undecided,
)
from watchkeeper.domain.task import (
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
)
from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.domain.worktree import Worktree, WorktreeState

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
"""When everything happens."""

LATER = AT + timedelta(minutes=1)
"""And what happens after it."""

BOOT = "11111111-2222-3333-4444-555555555555"
"""This boot of the machine."""

NAMESPACE = "pid:[4026531836]"
"""The pid namespace that we see from."""

AGENT = AgentIdentity(pid=4711, start_ticks=815, boot_id=BOOT, started_at=AT)
"""The agent's process."""

EXIT = ExitFact(status=0, reason=EndReason.EXITED, at=AT, elapsed_s=60.0)
"""An agent that ended by itself with exit code 0."""

GONE = GoneFact(proven=True)
"""Nothing is left of it."""

STOP = StopRequest(how=StopHow.STOP, by="ada", at=AT)
"""A person's stop."""

DECISIONS: Mapping[DecidedBy, DecisionRecord] = {
    by: DecisionRecord(by=by, boot_id=BOOT, pid_namespace=NAMESPACE) for by in DecidedBy
}
"""The decision, as each of those who may take it writes it."""


def a_spec(*, max_attempts: int = 3, on_lost: OnLost = OnLost.HOLD, deadline_s: float | None = None) -> TaskSpec:
    """What the caller asked for."""
    return TaskSpec(
        prompt="Fix the failing test.",
        title="Fix the failing test.",
        harness="command",
        model=None,
        cwd="/home/ada/project",
        argv=("make", "test"),
        max_attempts=max_attempts,
        on_lost=on_lost,
        deadline_s=deadline_s,
    )


def a_task(state: TaskState, *, spec: TaskSpec | None = None, stop: StopRequest | None = None) -> Task:
    """A task in a state; one that is running or held has a run."""
    working = state in {TaskState.RUNNING, TaskState.HELD}
    return Task(
        id="t1",
        spec=spec or a_spec(),
        state=state,
        created_at=AT,
        updated_at=AT,
        runs=1 if working else 0,
        run_id="t1.1" if working else None,
        stop=stop,
        environment_id="e1",
    )


def a_merge(state: MergeState = MergeState.BEGUN) -> Merge:
    """A merge of the sample task's branch."""
    return Merge(state=state, into="main", source="2" * 40, by="ada", onto="1" * 40, was="1" * 40, tip="3" * 40)


def a_worktree(state: WorktreeState = WorktreeState.PLANNED) -> Worktree:
    """A worktree of the sample task."""
    path = "/home/ada/.local/state/watchkeeper/worktrees/t1-fix-the-failing-test"
    return Worktree(
        path=path,
        branch="wk/t1-fix-the-failing-test",
        base="1" * 40,
        base_name="main",
        source="/home/ada/project",
        repository="/home/ada/project/.git",
        identity=(1, 2, None),
        state=state,
    )


def a_run(state: RunState) -> Run:
    """A run in a state, with what it has gathered by then on the straight way there."""
    order = list(RunState)
    past = order.index(state)
    prepared, starting, running, ended = (
        past >= order.index(s) for s in (RunState.PREPARED, RunState.STARTING, RunState.RUNNING, RunState.ENDED)
    )
    held = state is RunState.HELD
    return Run(
        id="t1.1",
        task_id="t1",
        number=1,
        fence=7,
        execution_id="x1",
        cause=Cause.INITIAL,
        state=state,
        machine="m1",
        incarnation=1,
        claimed_at=AT,
        directory=DirectoryIdentity(device=1, inode=2) if prepared else None,
        shim_started_at=AT if starting else None,
        agent=AGENT if running and not held else None,
        exit=EXIT if ended and not held else None,
        kind=FailureKind.UNKNOWN if held else None,
        reason="The execution directory cannot be read." if held else "",
        settled_at=AT if state is RunState.SETTLED else None,
    )


def an_outcome(disposition: Disposition = Disposition.DONE, kind: FailureKind | None = None) -> Outcome:
    """An outcome of the sample run with a disposition."""
    statuses = {Disposition.DONE: OutcomeStatus.SUCCEEDED, Disposition.STOPPED: OutcomeStatus.STOPPED}
    return Outcome(
        run_id="t1.1",
        fence=7,
        status=statuses.get(disposition, OutcomeStatus.FAILED),
        disposition=disposition,
        kind=kind,
        reason="Done." if disposition is Disposition.DONE else "It failed.",
        at=LATER,
        proof=Proof.PROVEN,
        wake_at=LATER + timedelta(seconds=15) if disposition is Disposition.RETRY else None,
    )


def run_events() -> tuple[RunEvent, ...]:
    """One of each event of a run."""
    return (
        Prepared(directory=DirectoryIdentity(device=1, inode=2)),
        ShimStarted(at=LATER),
        AgentSeen(agent=AGENT),
        ExitSeen(exit=EXIT),
        NeverLaunched(reason="The agent was never started."),
        RunLost(proof=Proof.SWEPT, reason="The shim was killed while the agent worked."),
        HeldBack(reason="The execution directory is missing."),
        Undecided(),
        EarlyFailSeen(early_fail=EarlyFail(kind=FailureKind.QUOTA, reason="The limit is used up.")),
        Delayed(reason="Its directory has not answered for 5 s."),
        Answered(since=LATER),
        Lingered(),
        Stalled(since=LATER),
        StopWanted(how=StopHow.STOP),
        StopTold(how=StopHow.STOP),
        StopFailed(reason="Its shim does not answer."),
        StopOverdue(how=StopHow.STOP, reason="Its shim received the request, and it has not ended."),
        InterruptWanted(),
        SessionSeen(harness_session="s1"),
        Settled(outcome=an_outcome(Disposition.FAILED)),
    )


def task_events() -> tuple[TaskEvent, ...]:
    """One of each event of a task, and one settlement for each disposition."""
    return (
        Claimed(run_id="t1.1", at=LATER),
        RunHeld(reason="The execution directory is missing.", kind=FailureKind.UNKNOWN, at=LATER),
        RunRegained(at=LATER),
        *(RunSettled(outcome=an_outcome(disposition)) for disposition in Disposition),
        StopAsked(request=StopRequest(how=StopHow.STOP, by="ada", at=LATER)),
        RetryAsked(by="ada", at=LATER, environment_id="e2"),
        Edited(spec=replace(a_task(TaskState.QUEUED).spec, priority=5), by="ada", at=LATER),
        Renamed(title="Another name", by="ada", at=LATER),
        Pinned(pinned=True, by="ada", at=LATER),
        WorktreeMade(place=WorkingDirectory(path="/state/worktrees/t1", device=1, inode=3), at=LATER),
        WorktreeRemoval(became=WorktreeState.REMOVING, by="ada", at=LATER),
        WorktreeRestored(place=WorkingDirectory(path="/state/worktrees/t1", device=1, inode=4), by="ada", at=LATER),
        MergeStep(became=MergeState.BEGUN, merge=a_merge(), by="ada", at=LATER),
    )
