"""The state machine of a run: what an event makes of it. Whatever is not listed here is refused.

    reserved ──prepared──▶ prepared ──shim started──▶ starting ──agent seen──▶ running ──exit seen──▶ ended ──▶ settled
        │                      │                          │                       │                     ▲  │        ▲
        └──────────── never launched ────────────────────-┴───────── lost ────────┴─────────────────────┘  └▶ held ─┘

Observations arrive in any order and more than once, because every loop reads evidence anew: an agent may be seen running before the start of its shim
was recorded, and an exit before either. Late news about a settled run is not an error; it changes nothing (R5).
"""

from dataclasses import dataclass, replace

from watchkeeper.domain.effects import Effect, EndExecution, StartShim
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import (
    RESOLVES_A_HELD_RUN,
    DirectoryIdentity,
    EndReason,
    Outcome,
    Proof,
    Run,
    RunState,
    StopHow,
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
from watchkeeper.errors import Refused

S = RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDecision:
    """What an event makes of a run, and what it wants done."""

    run: Run
    effects: tuple[Effect, ...] = ()


def decide_run(run: Run, event: RunEvent) -> RunDecision:
    """Apply one event to one run.

    Raises:
        Refused: the pair of state and event is not listed.
    """
    match run.state, event:
        case S.SETTLED, StopWanted():
            return _steered(run, event)
        case S.SETTLED, _:
            return RunDecision(run=run)
        case S.RESERVED, Prepared(directory=directory):
            return _prepared(run, directory)
        case ((S.STARTING | S.RUNNING | S.ENDED | S.HELD), ShimStarted()):
            return RunDecision(run=run)
        case S.PREPARED, ShimStarted(at=at):
            return RunDecision(run=replace(run, state=S.STARTING, shim_started_at=at))
        case S.HELD, Undecided() if _is_untouched(run):
            return _start(replace(run, state=S.PREPARED, kind=None, reason=""))
        case ((S.PREPARED | S.STARTING | S.RUNNING | S.ENDED | S.HELD), Undecided()):
            return RunDecision(run=run)
        case _, AgentSeen() | ExitSeen() | NeverLaunched() | RunLost() | HeldBack():
            return RunDecision(run=run if _too_late_for(run, event) else _observed(run, event))
        case _, Settled(outcome=outcome):
            return RunDecision(run=_settled(run, outcome))
        case _, Delayed() | Answered() | Lingered() | Stalled():
            return _watched(run, event)
        case _:
            return _steered(run, event)


def _prepared(run: Run, directory: DirectoryIdentity) -> RunDecision:
    return _start(replace(run, state=S.PREPARED, directory=directory, reason=""))


def _start(run: Run) -> RunDecision:
    return RunDecision(run=run, effects=(StartShim(run_id=run.id, fence=run.fence, execution_id=run.execution_id),))


def _is_untouched(run: Run) -> bool:
    """Whether a held run never got as far as a shim: its directory was missing before, and the start was given up with it."""
    return (run.shim_started_at, run.agent, run.exit, run.proof) == (None, None, None, None)


def _observed(run: Run, event: AgentSeen | ExitSeen | NeverLaunched | RunLost | HeldBack) -> Run:
    """What evidence makes of a run that is not settled."""
    match run.state, event:
        case ((S.PREPARED | S.STARTING | S.HELD), AgentSeen(agent=agent)):
            return replace(run, state=S.RUNNING, agent=agent, kind=None, reason="")
        case ((S.RUNNING | S.ENDED), AgentSeen()):
            return run
        case ((S.PREPARED | S.STARTING | S.RUNNING | S.HELD), ExitSeen(exit=fact)):
            return replace(run, state=S.ENDED, exit=run.exit or fact, kind=None, reason="", stop_failed=None)
        case S.ENDED, ExitSeen():
            return run
        case ((S.RESERVED | S.PREPARED | S.STARTING | S.HELD), NeverLaunched(reason=reason, kind=kind)):
            return replace(run, state=S.ENDED, kind=kind, reason=reason, proof=Proof.PROVEN, stop_failed=None)
        case ((S.PREPARED | S.STARTING | S.RUNNING | S.HELD), RunLost(proof=proof, reason=reason)):
            return replace(run, state=S.ENDED, kind=FailureKind.LOST, reason=reason, proof=proof, stop_failed=None)
        case S.ENDED, NeverLaunched() | RunLost():
            return run
        case ((S.PREPARED | S.STARTING | S.RUNNING | S.ENDED), HeldBack(reason=reason)):
            return replace(run, state=S.HELD, reason=reason, kind=run.kind or FailureKind.UNKNOWN)
        case S.HELD, HeldBack():
            return run
        case _:
            raise _refusal(run, event)


def _watched(run: Run, event: Delayed | Answered | Lingered | Stalled) -> RunDecision:
    """What is seen of a run between its reservation and its outcome. It decides nothing, and of a run that has moved on it says nothing."""
    match run.state, event:
        case S.RESERVED, Delayed(reason=reason):
            return RunDecision(run=replace(run, reason=reason))
        case S.ENDED, Delayed(reason=reason) if run.exit is not None:  # without an exit the reason says how it ended
            return RunDecision(run=replace(run, reason=reason))
        case S.RUNNING, Answered(since=since):
            return RunDecision(run=replace(run, answered_at=since and (run.answered_at or since), stalled_since=None))
        case S.RUNNING, Lingered() if run.answered_at is not None:
            return RunDecision(run=run, effects=(_end(run, StopHow.STOP, None, EndReason.ANSWERED),))
        case S.RUNNING, Stalled(since=since):
            return RunDecision(run=replace(run, stalled_since=since and (run.stalled_since or since)))
        case _:
            return RunDecision(run=run)


def _steered(run: Run, event: RunEvent) -> RunDecision:
    """What people, and our own judgement, want of a run that is not settled."""
    match run.state, event:
        case ((S.PREPARED | S.STARTING | S.RUNNING), EarlyFailSeen(early_fail=early_fail)):
            if run.early_fail is not None:
                return RunDecision(run=run)
            end = _end(run, StopHow.STOP, None, EndReason.EARLY_FAIL)
            return RunDecision(run=replace(run, early_fail=early_fail), effects=(end,))
        case ((S.ENDED | S.HELD), EarlyFailSeen()):
            return RunDecision(run=run)
        case _, StopWanted(how=how, grace_s=grace_s):
            wanted = (_end(run, how, grace_s, EndReason(how.value)),) if _may_be_alive(run) else ()
            return RunDecision(run=run, effects=wanted)
        case ((S.PREPARED | S.STARTING | S.RUNNING), InterruptWanted()):
            return RunDecision(run=run, effects=(_end(run, StopHow.STOP, None, EndReason.INTERRUPTED),))
        case S.ENDED, InterruptWanted() if run.exit is not None:
            return RunDecision(run=run, effects=(_end(run, StopHow.STOP, None, EndReason.INTERRUPTED),))
        case ((S.RESERVED | S.ENDED | S.HELD), InterruptWanted()):
            return RunDecision(run=run)
        case (
            (S.PREPARED | S.STARTING | S.RUNNING | S.ENDED | S.HELD),
            StopTold(how=how),
        ):
            strongest = StopHow.KILL if StopHow.KILL in {how, run.stop_told} else how
            return RunDecision(run=replace(run, stop_told=strongest))
        case _, StopFailed() | StopOverdue():
            return _not_ended(run, event)
        case (
            (S.PREPARED | S.STARTING | S.RUNNING | S.ENDED | S.HELD),
            SessionSeen(harness_session=session),
        ):
            return RunDecision(run=replace(run, harness_session=session))
        case _:
            raise _refusal(run, event)


def _not_ended(run: Run, event: StopFailed | StopOverdue) -> RunDecision:
    """A stop has not brought about the end. What was reserved and no more cannot be in its way."""
    if run.state is S.RESERVED:
        return RunDecision(run=run)
    if isinstance(event, StopFailed):
        return RunDecision(run=replace(run, stop_failed=event.reason))
    if run.stop_told is None:
        return RunDecision(run=run)  # it is being told already
    again = (_end(run, event.how, None, EndReason(event.how.value)),) if _may_be_alive(run) else ()
    return RunDecision(run=replace(run, stop_told=None, stop_failed=event.reason), effects=again)


def _may_be_alive(run: Run) -> bool:
    """Whether there may be anything that a stop has to end."""
    match run.state:
        case S.PREPARED | S.STARTING | S.RUNNING:
            return True
        case S.ENDED:
            # The agent itself is gone, but its shim may be waiting for what it left behind, for as long as that takes.
            return run.exit is not None
        case S.HELD:
            # What became of it is unknown. A person's statement settles the run, and does not end the agent.
            return run.proof not in {Proof.PROVEN, Proof.SWEPT}
        case S.SETTLED:
            # That is final; but a person who sees its agent alive after all may end it.
            return run.agent is not None and run.proof is Proof.UNPROVEN
        case _:
            return False


def _end(run: Run, how: StopHow, grace_s: float | None, why: EndReason) -> EndExecution:
    return EndExecution(
        run_id=run.id,
        fence=run.fence,
        execution_id=run.execution_id,
        how=how,
        grace_s=grace_s,
        why=why,
    )


def _too_late_for(run: Run, event: RunEvent) -> bool:
    """Whether this evidence, come back about a held run, says less than what is known of it already.

    Once an end or a proof of death is on record, a late shim that holds the lock for a moment does not undo it (R5). Where an agent was seen, "never
    launched" contradicts, and stays a person's to resolve.
    """
    if run.state is not S.HELD:
        return False
    match event:
        case AgentSeen() | RunLost():
            return run.proof is not None or run.exit is not None
        case NeverLaunched():
            return run.proof is not None or run.exit is not None or run.agent is not None
        case _:
            return False


def _settled(run: Run, outcome: Outcome) -> Run:
    """Only what has ended, or is held and resolved by a person, can be settled, and only by its own outcome (R4)."""
    if run.state not in {S.ENDED, S.HELD}:
        raise _refusal(run, Settled(outcome=outcome))
    if (outcome.run_id, outcome.fence) != (run.id, run.fence):
        raise Refused("The outcome is of another run than this one.")
    if run.state is S.HELD and outcome.disposition not in RESOLVES_A_HELD_RUN:
        raise Refused("A held run is settled by a person only: it is stopped, or given up.")
    return replace(
        run,
        state=S.SETTLED,
        kind=outcome.kind,
        reason=outcome.reason,
        proof=outcome.proof,
        harness_session=outcome.harness_session or run.harness_session,
        settled_at=outcome.at,
        stop_failed=None,
    )


def _refusal(run: Run, event: RunEvent) -> Refused:
    return Refused(f"A run that is {run.state} cannot take '{type(event).__name__}'.")
