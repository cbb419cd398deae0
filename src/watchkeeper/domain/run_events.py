"""What can be seen of a run, or wanted of it: the events that its state machine takes."""

from dataclasses import dataclass
from datetime import datetime

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import AgentIdentity, DirectoryIdentity, EarlyFail, ExitFact, Outcome, Proof, StopHow


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The execution directory is whole, synced and under its name."""

    directory: DirectoryIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimStarted:
    """A shim was started; whether it will decide to launch is its business."""

    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSeen:
    """The shim's durable record of the agent was read and the shim is alive."""

    agent: AgentIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitSeen:
    """The shim's durable record of the agent's end was read."""

    exit: ExitFact


@dataclass(frozen=True, slots=True, kw_only=True)
class NeverLaunched:
    """It is proven that no agent ran and none will for this run."""

    reason: str
    kind: FailureKind = FailureKind.NEVER_LAUNCHED
    """Another kind where the launch was refused before anything was started, such as `program_missing`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLost:
    """The agent may have worked, is gone, and left no record of its end."""

    proof: Proof
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """What happened is uncertain; a person decides."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """The prepared directory exists and is readable, it holds no decision, and no shim was ever started for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlyFailSeen:
    """What the agent printed can only end one way; it is ended now."""

    early_fail: EarlyFail


@dataclass(frozen=True, slots=True, kw_only=True)
class Delayed:
    """What is done for it takes long: a directory that does not answer, say."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The program printed its final answer, and its process continues; without a time: it resumed its work."""

    since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lingered:
    """The program has gone on for too long after its final answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalled:
    """It has printed nothing new for long; without a time: it does so again."""

    since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopWanted:
    """The task's stop request concerns this run."""

    how: StopHow
    grace_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptWanted:
    """The service is being stopped together with its agents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTold:
    """The shim has acknowledged a stop."""

    how: StopHow


@dataclass(frozen=True, slots=True, kw_only=True)
class StopFailed:
    """A stop that was asked for has not ended the run yet. It stays wished, and is tried again until the end is on record."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOverdue:
    """A shim acknowledged a stop, and the run has not ended in the time that it takes: the stop is sent again."""

    how: StopHow
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSeen:
    """The harness named the conversation."""

    harness_session: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The outcome was decided; it is stored in the same transaction."""

    outcome: Outcome


RunEvent = (
    Prepared
    | ShimStarted
    | AgentSeen
    | ExitSeen
    | NeverLaunched
    | RunLost
    | HeldBack
    | Undecided
    | EarlyFailSeen
    | Delayed
    | Answered
    | Lingered
    | Stalled
    | StopWanted
    | InterruptWanted
    | StopTold
    | StopFailed
    | StopOverdue
    | SessionSeen
    | Settled
)

RUN_EVENTS: tuple[type[RunEvent], ...] = (
    Prepared,
    ShimStarted,
    AgentSeen,
    ExitSeen,
    NeverLaunched,
    RunLost,
    HeldBack,
    Undecided,
    EarlyFailSeen,
    Delayed,
    Answered,
    Lingered,
    Stalled,
    StopWanted,
    InterruptWanted,
    StopTold,
    StopFailed,
    StopOverdue,
    SessionSeen,
    Settled,
)
