"""What an execution directory tells about a run, and what follows: the recovery table as one pure function.

The same function judges every live run on every look; there is no special path for a start after a crash. "Unknown" is an answer, and it never leads to an
action (R13, R14).

The order of reading makes the answer exact. Evidence is gathered as *decision, then lock, then the other records*. The shim that takes the decision
holds the lock while taking it and until death. So if the decision says `shim` and the lock is free *afterwards*, that shim is dead, and what it left is final:
no record read later can still change. Were the lock looked at first, a shim starting in between could be taken for one that died.
"""

import errno
from dataclasses import dataclass
from enum import StrEnum

from watchkeeper.domain.lock_state import LockState
from watchkeeper.domain.run_record import AgentIdentity, ExitFact, Leftover


class DirectoryState(StrEnum):
    """What is found under the execution's name."""

    INTACT = "intact"
    ABSENT = "absent"
    FOREIGN = "foreign"
    UNREADABLE = "unreadable"


class DecidedBy(StrEnum):
    """Who took the write-once decision; `shim` means launched, the others mean never."""

    SHIM = "shim"
    RECOVERY = "recovery"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecord:
    """The write-once register of a run (R2)."""

    by: DecidedBy
    boot_id: str
    pid_namespace: str
    errno: int | None = None
    """For `recovery`: the error with which the system refused to start a shim, if that is why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneFact:
    """The shim's proof that nothing descends from it any more."""

    proven: bool
    leftovers: tuple[Leftover, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that was read about one execution, in the order that the module's docstring demands."""

    directory: DirectoryState
    lock: LockState = LockState.UNKNOWN
    decision: DecisionRecord | None = None
    agent: AgentIdentity | None = None
    exit: ExitFact | None = None
    gone: GoneFact | None = None
    unreadable: tuple[str, ...] = ()
    """Names of records that are there but cannot be read or are not ours."""
    boot_id: str = ""
    pid_namespace: str = ""
    since_spawn_s: float | None = None
    """Seconds since a shim was last started for it; None if none was yet."""
    start_grace_s: float = 0.0
    """How long a shim may take to take the decision. Affects only when a launch is given up, never whether that is safe."""
    stop_asked: bool = False
    refused: int | None = None
    """The error with which the system refused the shim what a launch needs. It explains a launch that never was; nothing rests on it."""
    no_room: bool = False
    """Whether there is no room on the disk. It explains why a shim continues after its agent has ended; no decision depends on it."""


class VerdictKind(StrEnum):
    """What the evidence says."""

    WAITING = "waiting"
    """A shim may still start; look again."""
    ALIVE = "alive"
    ENDED = "ended"
    TAKE_DECISION = "take_decision"
    """There is no decision and no process that could make one: publish `recovery` or `stop`, then look again."""
    NEVER_LAUNCHED = "never_launched"
    LOST_TO_REBOOT = "lost_to_reboot"
    SHIM_DIED = "shim_died"
    """The shim was killed and the agent's process may be alive: sweep what is left, then it is lost."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer, in one word and one sentence."""

    kind: VerdictKind
    reason: str = ""
    decide_by: DecidedBy | None = None
    """For `take_decision`: in whose name."""
    final: bool = False
    """For `ended`: nothing more will be written, so the run can be settled."""
    empty: bool = False
    """For `ended`: it is proven without the shim's word that nothing of it is alive, because the machine was restarted since."""


ENDED_WITHOUT_ROOM = "The agent ended; the rest of its output waits for room on the disk."
"""Its shim lives and has still to write that."""

_REFUSALS = {
    errno.EAGAIN: "the system's process limit was reached",
    errno.ENOMEM: "the system had no memory left",
    errno.EMFILE: "this user's limit of open files was reached",
    errno.ENFILE: "the system's limit of open files was reached",
    errno.ENOSPC: "there was no room left on the disk",
    errno.EDQUOT: "the disk quota was used up",
}

_DIRECTORY_SAYS = {
    DirectoryState.ABSENT: "The execution directory is missing.",
    DirectoryState.FOREIGN: "The execution directory is not the one that was prepared.",
    DirectoryState.UNREADABLE: "The execution directory cannot be read.",
}


def judge(evidence: Evidence) -> Verdict:
    """What the evidence says about a run that is prepared, starting, running, or held."""
    if evidence.directory is not DirectoryState.INTACT:
        return _unknown(_DIRECTORY_SAYS[evidence.directory])
    if evidence.unreadable:
        return _unknown(f"Cannot be read: {', '.join(evidence.unreadable)}.")
    decision = evidence.decision
    if decision is not None and decision.by is not DecidedBy.SHIM:
        return _never_decided(evidence)
    if evidence.exit is not None:
        empty = decision is not None and restarted_since(decision.boot_id, evidence)
        # A free lock makes the records final only if the decision had been read before it: see the module's docstring.
        final = empty or evidence.gone is not None or (evidence.lock is LockState.FREE and decision is not None)
        reason = ENDED_WITHOUT_ROOM if evidence.no_room and not final else "The agent ended."
        return Verdict(kind=VerdictKind.ENDED, reason=reason, final=final, empty=empty)
    if evidence.lock is LockState.UNKNOWN:
        return _unknown("Whether its shim is alive cannot be found out.")
    if decision is None and evidence.stop_asked:
        return Verdict(kind=VerdictKind.TAKE_DECISION, decide_by=DecidedBy.STOP, reason="Stopped before it started.")
    if evidence.lock is LockState.HELD:
        if evidence.agent is None:
            return Verdict(kind=VerdictKind.WAITING, reason="The shim is starting.")
        return Verdict(kind=VerdictKind.ALIVE, reason="The agent is running.")
    if decision is None:
        return _undecided(evidence)
    return _shim_is_dead(evidence, decision)


def restarted_since(boot_id: str, evidence: Evidence) -> bool:
    """Whether the machine was restarted since that boot, so that nothing of it is alive. What is not known says no."""
    return bool(boot_id and evidence.boot_id) and boot_id != evidence.boot_id


def _never_decided(evidence: Evidence) -> Verdict:
    """The decision says that no shim may launch: neither the one that holds the lock, if one does, nor one still to come."""
    if evidence.agent is not None or evidence.exit is not None or evidence.gone is not None:
        return _unknown("The records contradict each other: it was decided not to launch, and an agent was launched.")
    refused = evidence.refused if evidence.decision is None else evidence.decision.errno or evidence.refused
    return Verdict(kind=VerdictKind.NEVER_LAUNCHED, reason=f"The agent was never started{_because(refused)}.")


def _because(number: int | None) -> str:
    """Why the system refused a launch, in words; the same error may have gone when it is tried again."""
    if number is None:
        return ""
    code = errno.errorcode.get(number, str(number))
    return f": {_REFUSALS.get(number, 'the system refused what it needs')} ({code})"


def _undecided(evidence: Evidence) -> Verdict:
    """No process holds the lock and there is no decision."""
    if evidence.since_spawn_s is None or evidence.since_spawn_s < evidence.start_grace_s:
        return Verdict(kind=VerdictKind.WAITING, reason="The shim has not started yet.")
    return Verdict(
        kind=VerdictKind.TAKE_DECISION,
        decide_by=DecidedBy.RECOVERY,
        reason="The shim never started.",
    )


def _shim_is_dead(evidence: Evidence, decision: DecisionRecord) -> Verdict:
    """A shim had decided to launch before we looked at the lock, and no process held the lock then; no end is on record."""
    if evidence.gone is not None:
        return _unknown(
            "The records contradict each other: nothing is left of the agent, and its end is not on record."
        )
    if evidence.agent is None:
        # The shim writes the agent's record durably before it lets the agent start, so no record means no agent, on any boot.
        return Verdict(
            kind=VerdictKind.NEVER_LAUNCHED,
            reason=f"The shim {'ended' if evidence.refused else 'died'} before it let the agent start{_because(evidence.refused)}.",
        )
    if not decision.boot_id or not evidence.boot_id:
        return _unknown("Whether the machine was restarted since cannot be found out.")
    if restarted_since(decision.boot_id, evidence):
        return Verdict(
            kind=VerdictKind.LOST_TO_REBOOT,
            reason="The machine was restarted while the agent worked.",
        )
    if decision.pid_namespace != evidence.pid_namespace:
        return _unknown("The agent was started in another pid namespace; its processes cannot be seen from here.")
    return Verdict(kind=VerdictKind.SHIM_DIED, reason="The shim was killed while the agent worked.")


def _unknown(reason: str) -> Verdict:
    return Verdict(kind=VerdictKind.UNKNOWN, reason=reason)
