"""The state machine of a run, cell by cell."""

from dataclasses import replace
from datetime import timedelta

import pytest

from watchkeeper.domain.effects import EndExecution, StartShim
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import (
    LIVE_RUN_STATES,
    DirectoryIdentity,
    Disposition,
    EndReason,
    Proof,
    RunState,
    StopHow,
)
from watchkeeper.domain.run import RunDecision, decide_run
from watchkeeper.domain.run_events import (
    RUN_EVENTS,
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
from watchkeeper.domain.samples import AGENT, EXIT, LATER, a_run, an_outcome, run_events
from watchkeeper.errors import Refused

S = RunState

LISTED: dict[type[RunEvent], dict[RunState, RunState]] = {
    Prepared: {S.RESERVED: S.PREPARED},
    ShimStarted: {S.PREPARED: S.STARTING} | {s: s for s in (S.STARTING, S.RUNNING, S.ENDED, S.HELD)},
    AgentSeen: dict.fromkeys((S.PREPARED, S.STARTING, S.RUNNING, S.HELD), S.RUNNING) | {S.ENDED: S.ENDED},
    ExitSeen: dict.fromkeys((S.PREPARED, S.STARTING, S.RUNNING, S.ENDED, S.HELD), S.ENDED),
    NeverLaunched: dict.fromkeys((S.RESERVED, S.PREPARED, S.STARTING, S.ENDED, S.HELD), S.ENDED),
    RunLost: dict.fromkeys((S.PREPARED, S.STARTING, S.RUNNING, S.ENDED, S.HELD), S.ENDED),
    HeldBack: dict.fromkeys((S.PREPARED, S.STARTING, S.RUNNING, S.ENDED, S.HELD), S.HELD),
    Undecided: {s: s for s in (S.PREPARED, S.STARTING, S.RUNNING, S.ENDED, S.HELD)},
    EarlyFailSeen: {s: s for s in (S.PREPARED, S.STARTING, S.RUNNING, S.ENDED, S.HELD)},
    Delayed: {s: s for s in set(RunState) - {S.SETTLED}},
    Answered: {s: s for s in set(RunState) - {S.SETTLED}},
    Lingered: {s: s for s in set(RunState) - {S.SETTLED}},
    Stalled: {s: s for s in set(RunState) - {S.SETTLED}},
    StopWanted: {s: s for s in (S.RESERVED, S.PREPARED, S.STARTING, S.RUNNING, S.ENDED, S.HELD)},
    InterruptWanted: {s: s for s in (S.RESERVED, S.PREPARED, S.STARTING, S.RUNNING, S.ENDED, S.HELD)},
    StopFailed: {s: s for s in LIVE_RUN_STATES},
    StopOverdue: {s: s for s in LIVE_RUN_STATES},
    StopTold: {s: s for s in (S.PREPARED, S.STARTING, S.RUNNING, S.ENDED, S.HELD)},
    SessionSeen: {s: s for s in (S.PREPARED, S.STARTING, S.RUNNING, S.ENDED, S.HELD)},
    Settled: {S.ENDED: S.SETTLED, S.HELD: S.SETTLED},
}
"""Every pair that is allowed, and where it leads. Settled takes everything and stays."""


def test_every_event_is_in_the_list() -> None:
    """The samples, the list of events and the table above speak of the same events."""
    assert {type(event) for event in run_events()} == set(RUN_EVENTS) == set(LISTED)


@pytest.mark.parametrize("state", RunState)
@pytest.mark.parametrize("event", run_events(), ids=lambda event: type(event).__name__)
def test_each_pair_leads_where_it_should_or_is_refused(state: RunState, event: RunEvent) -> None:
    """Each listed pair leads to its state; every other raises and names both."""
    if state is S.SETTLED:
        decision = decide_run(a_run(state), event)
        assert (decision.run, decision.effects) == (a_run(state), ())
        return
    expected = LISTED[type(event)].get(state)
    if expected is None:
        with pytest.raises(Refused, match=f"{state}.*{type(event).__name__}"):
            decide_run(a_run(state), event)
    else:
        assert decide_run(a_run(state), event).run.state is expected


def test_preparing_asks_for_the_shim_once() -> None:
    """The directory is recorded and the start queued by the same decision; a second time is refused."""
    decision = decide_run(a_run(S.RESERVED), run_events()[0])
    assert decision.run.directory is not None
    assert decision.effects == (StartShim(run_id="t1.1", fence=7, execution_id="x1"),)
    with pytest.raises(Refused):
        decide_run(decision.run, run_events()[0])


def test_a_launch_that_was_refused_keeps_its_kind() -> None:
    """A program that is missing is distinguished from a launch that came to nothing."""
    event = NeverLaunched(reason="`claude` is not installed.", kind=FailureKind.PROGRAM_MISSING)
    run = decide_run(a_run(S.RESERVED), event).run
    assert (run.kind, run.reason, run.proof) == (FailureKind.PROGRAM_MISSING, event.reason, Proof.PROVEN)


def test_an_exit_is_recorded_once() -> None:
    """The first exit record stays; the run has no failure kind of its own then."""
    run = decide_run(a_run(S.RUNNING), ExitSeen(exit=EXIT)).run
    again = decide_run(run, ExitSeen(exit=replace(EXIT, status=256))).run
    assert again.exit == EXIT
    assert again.kind is None


def test_a_held_run_is_regained_by_its_agent() -> None:
    """The reason for holding it goes."""
    run = decide_run(a_run(S.HELD), AgentSeen(agent=AGENT)).run
    assert (run.state, run.agent, run.kind, run.reason) == (S.RUNNING, AGENT, None, "")


def test_a_held_run_that_never_began_begins_when_its_directory_is_back() -> None:
    """Only if no shim was ever started: then the write-once decision is still open, and the start is queued anew."""
    untouched = decide_run(a_run(S.PREPARED), HeldBack(reason="The execution directory is missing.")).run
    decision = decide_run(untouched, Undecided())
    assert (decision.run, decision.effects) == (
        a_run(S.PREPARED),
        (StartShim(run_id="t1.1", fence=7, execution_id="x1"),),
    )
    for state in (S.STARTING, S.RUNNING, S.ENDED):
        held = decide_run(a_run(state), HeldBack(reason="")).run
        assert decide_run(held, Undecided()) == RunDecision(run=held)


def test_a_held_run_takes_a_late_proof() -> None:
    """What was unknown and is now proven ends like any other."""
    never = decide_run(a_run(S.HELD), NeverLaunched(reason="The agent was never started.")).run
    assert (never.state, never.proof) == (S.ENDED, Proof.PROVEN)
    lost = decide_run(a_run(S.HELD), RunLost(proof=Proof.PROVEN, reason="The machine was restarted.")).run
    assert (lost.state, lost.kind) == (S.ENDED, FailureKind.LOST)


@pytest.mark.parametrize("proof", Proof)
def test_a_run_held_because_it_was_lost_does_not_come_alive(proof: Proof) -> None:
    """A proof of death stays (R5): a late shim that holds the lock for a moment changes nothing, and another verdict does not either."""
    lost = decide_run(a_run(S.RUNNING), RunLost(proof=proof, reason="The shim was killed.")).run
    held = decide_run(lost, HeldBack(reason="The shim was killed.")).run
    assert held.kind is FailureKind.LOST
    for event in (AgentSeen(agent=AGENT), NeverLaunched(reason=""), RunLost(proof=Proof.UNPROVEN, reason="")):
        assert decide_run(held, event).run == held


def test_a_run_whose_agent_was_seen_was_never_never_launched() -> None:
    """Such a verdict contradicts the record: refused while it runs, ignored while it is held."""
    with pytest.raises(Refused):
        decide_run(a_run(S.RUNNING), NeverLaunched(reason=""))
    held = decide_run(a_run(S.RUNNING), HeldBack(reason="A record cannot be read.")).run
    assert decide_run(held, NeverLaunched(reason="")).run == held


def test_an_end_on_record_is_not_undone_by_a_hold() -> None:
    """A run that was held after its exit was recorded does not run again."""
    held = decide_run(a_run(S.ENDED), HeldBack(reason="The execution directory is missing.")).run
    assert decide_run(held, AgentSeen(agent=AGENT)).run == held
    assert decide_run(held, ExitSeen(exit=EXIT)).run.state is S.ENDED


@pytest.mark.parametrize("state", [S.PREPARED, S.STARTING, S.RUNNING])
def test_an_early_fail_is_recorded_once(state: RunState) -> None:
    """The first early_fail stays and asks for the end; a second asks for nothing."""
    event = next(event for event in run_events() if isinstance(event, EarlyFailSeen))
    decision = decide_run(a_run(state), event)
    end = EndExecution(run_id="t1.1", fence=7, execution_id="x1", how=StopHow.STOP, why=EndReason.EARLY_FAIL)
    assert decision.effects == (end,)
    other = EarlyFailSeen(early_fail=replace(event.early_fail, kind=FailureKind.SIGNED_OUT))
    again = decide_run(decision.run, other)
    assert (again.run, again.effects) == (decision.run, ())


@pytest.mark.parametrize("how", StopHow)
@pytest.mark.parametrize("state", [S.PREPARED, S.STARTING, S.RUNNING, S.ENDED])
def test_a_stop_reaches_whatever_may_be_alive(state: RunState, how: StopHow) -> None:
    """Also what the agent left behind while its shim waits for it."""
    (effect,) = decide_run(a_run(state), StopWanted(how=how, grace_s=3.0)).effects
    assert effect == EndExecution(
        run_id="t1.1", fence=7, execution_id="x1", how=how, why=EndReason(how.value), grace_s=3.0
    )


def test_a_stop_of_what_never_ran_asks_for_nothing() -> None:
    """Nothing is there to be ended: not before it is prepared, and not after it is proven that none ran."""
    never = decide_run(a_run(S.STARTING), NeverLaunched(reason="")).run
    for run in (a_run(S.RESERVED), never):
        assert decide_run(run, StopWanted(how=StopHow.STOP)).effects == ()


@pytest.mark.parametrize("proof", [None, *Proof])
@pytest.mark.parametrize("state", [S.HELD, S.SETTLED])
def test_a_stop_reaches_what_was_settled_without_proof(state: RunState, proof: Proof | None) -> None:
    """A held run whose end is not known, and a settled one whose agent was seen and is not known to be dead: they are ended, and stay as they are."""
    run = replace(a_run(state), proof=proof, agent=AGENT)
    decision = decide_run(run, StopWanted(how=StopHow.KILL))
    assert decision.run == run
    wanted = proof is Proof.UNPROVEN or (state is S.HELD and proof is None)
    end = EndExecution(run_id="t1.1", fence=7, execution_id="x1", how=StopHow.KILL, why=EndReason.KILL)
    assert decision.effects == ((end,) if wanted else ())
    assert decide_run(replace(a_run(S.SETTLED), proof=proof, agent=None), StopWanted(how=StopHow.KILL)).effects == ()


def test_the_strongest_stop_that_was_told_is_kept() -> None:
    """A late acknowledgement of a stop does not take a kill back."""
    killed = decide_run(a_run(S.RUNNING), StopTold(how=StopHow.KILL)).run
    assert decide_run(killed, StopTold(how=StopHow.STOP)).run.stop_told is StopHow.KILL


def test_a_run_is_settled_by_its_own_outcome_only() -> None:
    """Another run's, or another fence's, is refused (R4)."""
    for other in (replace(an_outcome(), run_id="t1.2"), replace(an_outcome(), fence=8)):
        with pytest.raises(Refused, match="another run"):
            decide_run(a_run(S.ENDED), Settled(outcome=other))


@pytest.mark.parametrize("disposition", Disposition)
def test_a_held_run_is_settled_by_a_persons_word_only(disposition: Disposition) -> None:
    """Given up or stopped; nothing else is decided about what is uncertain."""
    event = Settled(outcome=an_outcome(disposition))
    if disposition in {Disposition.FAILED, Disposition.STOPPED}:
        assert decide_run(a_run(S.HELD), event).run.settled_at == LATER
    else:
        with pytest.raises(Refused, match="by a person only"):
            decide_run(a_run(S.HELD), event)


@pytest.mark.parametrize("state", [S.PREPARED, S.STARTING, S.RUNNING])
def test_a_service_that_interrupts_its_agents_says_so(state: RunState) -> None:
    """The exit record will say `interrupted`, never `stop`: no person asked for the task's end."""
    (effect,) = decide_run(a_run(state), InterruptWanted()).effects
    assert isinstance(effect, EndExecution)
    assert effect.why is EndReason.INTERRUPTED


def test_what_takes_long_is_said_and_says_nothing_of_how_a_run_ended() -> None:
    """Where there is no exit the reason is how it ended."""
    slow = Delayed(reason="Its directory has not answered for 5 s.")
    for state in (S.RESERVED, S.ENDED):
        assert decide_run(a_run(state), slow).run.reason == slow.reason
    lost = decide_run(a_run(S.RUNNING), RunLost(proof=Proof.SWEPT, reason="Lost.")).run
    assert decide_run(lost, slow).run == lost
    prepared = decide_run(
        decide_run(a_run(S.RESERVED), slow).run, Prepared(directory=DirectoryIdentity(device=1, inode=2))
    ).run
    assert prepared.reason == ""


def test_only_a_program_that_has_answered_is_ended_for_going_on() -> None:
    """With a reason of its own, by the outbox; and only while it is seen to have answered."""
    run = a_run(S.RUNNING)
    assert decide_run(run, Lingered()).effects == ()
    answered = decide_run(run, Answered(since=LATER)).run
    assert answered.answered_at == LATER
    assert decide_run(answered, Answered(since=LATER + timedelta(hours=1))).run == answered
    end = EndExecution(run_id="t1.1", fence=7, execution_id="x1", how=StopHow.STOP, why=EndReason.ANSWERED)
    assert decide_run(answered, Lingered()).effects == (end,)
    again = decide_run(answered, Answered(since=None)).run
    assert again == run and decide_run(again, Lingered()).effects == ()


def test_a_run_without_progress_is_marked_once_and_nothing_else_happens() -> None:
    run = a_run(S.RUNNING)
    stalled = decide_run(run, Stalled(since=LATER))
    assert stalled.run.stalled_since == LATER and stalled.effects == ()
    assert decide_run(stalled.run, Stalled(since=LATER + timedelta(hours=1))).run == stalled.run
    assert decide_run(stalled.run, Stalled(since=None)).run == run


def test_a_stop_that_failed_is_said_until_the_end_is_on_record() -> None:
    """The reason stays over another acknowledgement, because that ends nothing; an exit, a loss or a settlement takes it away."""
    failed = decide_run(a_run(S.RUNNING), StopFailed(reason="Its shim does not answer.")).run
    assert failed.stop_failed == "Its shim does not answer."
    assert decide_run(failed, StopTold(how=StopHow.STOP)).run.stop_failed == failed.stop_failed
    for end in (ExitSeen(exit=EXIT), RunLost(proof=Proof.SWEPT, reason="It is gone.")):
        assert decide_run(failed, end).run.stop_failed is None
    held = decide_run(failed, HeldBack(reason="It is missing.")).run
    assert held.stop_failed == failed.stop_failed
    assert decide_run(held, Settled(outcome=an_outcome(Disposition.STOPPED))).run.stop_failed is None


def test_an_overdue_stop_is_told_again_once() -> None:
    """One that was acknowledged is asked for anew; while that is on its way, nothing is asked twice."""
    told = decide_run(a_run(S.RUNNING), StopTold(how=StopHow.KILL)).run
    event = StopOverdue(how=StopHow.KILL, reason="It has not ended.")
    again = decide_run(told, event)
    assert (again.run.stop_told, again.run.stop_failed) == (None, "It has not ended.")
    assert [(effect.kind, effect.how) for effect in again.effects if isinstance(effect, EndExecution)] == [
        ("end_execution", StopHow.KILL)
    ]
    assert decide_run(again.run, event).effects == ()


def test_a_run_that_is_held_back_has_a_kind() -> None:
    """The one that it had, or that nothing is known."""
    running = a_run(S.RUNNING)
    assert decide_run(running, HeldBack(reason="Unclear.")).run.kind is FailureKind.UNKNOWN
    known = replace(running, kind=FailureKind.NETWORK)
    held = decide_run(known, HeldBack(reason="Unclear.")).run
    assert (held.kind, held.reason) == (FailureKind.NETWORK, "Unclear.")
