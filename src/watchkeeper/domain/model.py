"""The records that the rules speak of: task, run, and the facts about them.

Frozen values. Times are aware UTC datetimes; durations end in `_s`. Which row of which table holds what is the store's business.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from watchkeeper.domain.failure import FailureKind


class TaskState(StrEnum):
    """Where a task stands."""

    QUEUED = "queued"
    RUNNING = "running"
    NEEDS_INPUT = "needs_input"
    HELD = "held"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"


FINAL_TASK_STATES = frozenset({TaskState.DONE, TaskState.FAILED, TaskState.STOPPED})
"""States that only a person's act (`retry`) leaves."""

RESTING_TASK_STATES = FINAL_TASK_STATES | {TaskState.NEEDS_INPUT, TaskState.HELD}
"""States in which nothing happens until a person acts; `wk wait` returns there."""


class RunState(StrEnum):
    """Where a run stands."""

    RESERVED = "reserved"
    PREPARED = "prepared"
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    HELD = "held"
    SETTLED = "settled"


UNDECIDED_RUN_STATES = frozenset({RunState.PREPARED, RunState.STARTING})
"""A shim may or may not have taken the decision."""

LIVE_RUN_STATES = frozenset(set(RunState) - {RunState.SETTLED})
"""The run still owns its task."""


class Cause(StrEnum):
    """Why a run exists."""

    INITIAL = "initial"
    RETRY = "retry"


class OnLost(StrEnum):
    """What a task wants done when a run is lost after it may have worked."""

    HOLD = "hold"
    RETRY = "retry"
    FAIL = "fail"


class StopHow(StrEnum):
    """How an agent is to be ended."""

    STOP = "stop"
    KILL = "kill"


class Proof(StrEnum):
    """How sure we are that nothing of an execution is alive."""

    PROVEN = "proven"
    SWEPT = "swept"
    UNPROVEN = "unproven"


class EndReason(StrEnum):
    """Why an agent's process ended, as its shim recorded it."""

    EXITED = "exited"
    STOP = "stop"
    KILL = "kill"
    DEADLINE = "deadline"
    INTERRUPTED = "interrupted"
    CONDEMNED = "condemned"
    SPAWN_FAILED = "spawn_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """A person's wish to end a task; only a later act of a person lifts it."""

    how: StopHow
    by: str
    at: datetime
    grace_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """What somebody asked for; never changes."""

    prompt: str
    title: str
    harness: str
    model: str | None
    cwd: str
    argv: tuple[str, ...] = ()
    """The command line of the `command` harness; empty for the others."""
    environment_names: tuple[str, ...] = ()
    """Names, beyond the standard allow-list, that were captured from the caller."""
    deadline_s: float | None = None
    max_attempts: int = 3
    on_lost: OnLost = OnLost.HOLD
    leftovers: str = "kill"
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task as it stands now."""

    id: str
    spec: TaskSpec
    state: TaskState
    created_at: datetime
    updated_at: datetime
    version: int = 0
    runs: int = 0
    """How many runs it has had; the number of the newest."""
    attempts: int = 0
    """How many of them counted against `max_attempts` since a person last asked."""
    unlaunched: int = 0
    """How many launches in a row never happened."""
    run_id: str | None = None
    """The run that owns it now, from claim to settlement."""
    wake_at: datetime | None = None
    """Not before this time (a retry's back-off, a quota's reset)."""
    stop: StopRequest | None = None
    environment_id: str = ""
    """Under which name the caller's environment is kept; a new one with every `retry`, so that forgetting the old one never takes the new one away."""
    reason: str = ""
    """One plain sentence on why it stands where it stands."""
    kind: FailureKind | None = None
    ended_at: datetime | None = None

    @property
    def counted_attempts_left(self) -> int:
        """How many counted attempts remain."""
        return max(0, self.spec.max_attempts - self.attempts)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryIdentity:
    """Which directory an execution's directory is; a missing or other one is unknown, not 'never launched'."""

    device: int
    inode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentIdentity:
    """Which process the agent is: a pid alone names nobody."""

    pid: int
    start_ticks: int
    boot_id: str
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A process that outlived the agent."""

    pid: int
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitFact:
    """How the agent's process ended; `status` is the raw wait status."""

    status: int | None
    reason: EndReason
    at: datetime
    elapsed_s: float
    errno: int | None = None
    max_rss_kib: int | None = None

    @property
    def exit_code(self) -> int | None:
        """The exit code, if it exited."""
        if self.status is None or self.status & 0x7F:
            return None
        return (self.status >> 8) & 0xFF

    @property
    def signal(self) -> int | None:
        """The signal that ended it, if one did."""
        if self.status is None:
            return None
        return (self.status & 0x7F) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condemnation:
    """The supervisor's own decision to end a run early, because what it printed can only end one way."""

    kind: FailureKind
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One fenced try at a task, as it stands now."""

    id: str
    task_id: str
    number: int
    fence: int
    execution_id: str
    cause: Cause
    state: RunState
    machine: str
    incarnation: int
    claimed_at: datetime
    directory: DirectoryIdentity | None = None
    shim_started_at: datetime | None = None
    agent: AgentIdentity | None = None
    exit: ExitFact | None = None
    condemned: Condemnation | None = None
    stop_told: StopHow | None = None
    """The strongest stop that the shim has acknowledged."""
    proof: Proof | None = None
    kind: FailureKind | None = None
    reason: str = ""
    harness_session: str | None = None
    settled_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a run used, as its program reported it; None is unknown, never zero."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """One path that differs from before the run: `added`, `modified`, `deleted`."""

    path: str
    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a run changed, computed from the working directory, not from what the agent claims."""

    known: bool
    """False: the directory is not under git, or could not be read."""
    why_unknown: str = ""
    files: tuple[FileChange, ...] = ()
    commits: tuple[str, ...] = ()
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What the program's event stream told; the program's word, not a proof."""

    finished: bool
    """The program's own final event was seen."""
    ok: bool
    """The final event, or for a plain command the exit code, says success."""
    kind: FailureKind | None = None
    reason: str = ""
    text: str = ""
    harness_session: str | None = None
    model: str | None = None
    turns: int | None = None
    steps: int = 0
    tool_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    quota_until: datetime | None = None
    expects_trace: bool = False
    """Success without any tool call, change or text would be no success for this harness."""


class OutcomeStatus(StrEnum):
    """What a run came to."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


class Disposition(StrEnum):
    """What an outcome does to its task."""

    DONE = "done"
    NEEDS_INPUT = "needs_input"
    RETRY = "retry"
    FAILED = "failed"
    STOPPED = "stopped"
    HELD = "held"


RESOLVES_A_HELD_RUN = frozenset({Disposition.FAILED, Disposition.STOPPED})
"""What a person's word makes of a held run: it is given up, or stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The durable result of a run, decided once and stored with what it does to the task (R11)."""

    run_id: str
    fence: int
    status: OutcomeStatus
    disposition: Disposition
    kind: FailureKind | None
    reason: str
    at: datetime
    proof: Proof
    text: str = ""
    harness_session: str | None = None
    model: str | None = None
    exit: ExitFact | None = None
    turns: int | None = None
    tool_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    changes: Changes | None = None
    leftovers: tuple[Leftover, ...] = ()
    wake_at: datetime | None = None
    """When a retry may start."""
