"""A run, one fenced try at a task, and the facts that evidence tells of it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.former_names import END_REASONS
from watchkeeper.domain.task_record import StopHow


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
    SILENCE = "silence"
    INTERRUPTED = "interrupted"
    EARLY_FAIL = "early_fail"
    ANSWERED = "answered"
    SPAWN_FAILED = "spawn_failed"

    @classmethod
    def _missing_(cls, value: object) -> "EndReason | None":
        # What an earlier version stored.
        name = END_REASONS.get(value) if isinstance(value, str) else None
        return None if name is None else cls(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryIdentity:
    """Which directory an execution's directory is; a missing or other one is unknown, not 'never launched'."""

    device: int
    inode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentIdentity:
    """Which process the agent is: a pid alone does not identify a process."""

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
    step: str | None = None
    """Of an agent that could not be started, what failed: `chdir`, `exec`, or `interpreter` for a program that needs another one; None: not on record."""
    path: str | None = None
    """The directory or program that the step was about."""

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
class EarlyFail:
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
    early_fail: EarlyFail | None = None
    stop_told: StopHow | None = None
    """The strongest stop that the shim has acknowledged."""
    proof: Proof | None = None
    kind: FailureKind | None = None
    reason: str = ""
    harness_session: str | None = None
    settled_at: datetime | None = None
    answered_at: datetime | None = None
    """When the program was seen to have given its final answer while its process went on."""
    stalled_since: datetime | None = None
    """Since when it shows no progress; None: it makes progress, or is not watched."""
    stop_failed: str | None = None
    """Why a stop that was asked for has not ended the agent yet."""
