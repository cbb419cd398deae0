"""Wherever a level of proof decides, each of the three levels is tried: proven, swept and unproven (R6)."""

from dataclasses import replace
from datetime import timedelta

import pytest

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import (
    DirectoryIdentity,
    Disposition,
    EndReason,
    ExitFact,
    OnLost,
    Outcome,
    Proof,
    Run,
    RunState,
    StopHow,
    TaskState,
    Trace,
)
from watchkeeper.domain.removal import may_be_alive
from watchkeeper.domain.resolution import resolve_held
from watchkeeper.domain.run import decide_run
from watchkeeper.domain.run_events import ExitSeen, NeverLaunched, RunLost, Settled, StopWanted
from watchkeeper.domain.samples import AGENT, AT, EXIT, LATER, a_run, a_spec, a_task, a_worktree, an_outcome
from watchkeeper.domain.settlement import Facts, Hold, settle
from watchkeeper.domain.task import RunSettled, decide_task
from watchkeeper.domain.task_worktree import in_a_new_worktree
from watchkeeper.domain.worktree import WorktreeState

OVERLOADED = Trace(finished=True, ok=False, kind=FailureKind.OVERLOADED)
QUOTA = Trace(finished=True, ok=False, kind=FailureKind.QUOTA, quota_until=LATER + timedelta(hours=1))
NOT_PROVEN = "It is not proven that nothing of it is alive"


def facts(run: Run, **given: object) -> Facts:
    """What is known of an ended run of a task that is to be tried again when its agent is lost."""
    owner = a_task(TaskState.RUNNING, spec=a_spec(on_lost=OnLost.RETRY))
    return replace(Facts(task=owner, run=run, at=LATER), **given)


def evidence_of(proof: Proof) -> dict[str, object]:
    """What settlement finds of an exit on record at that level of proof."""
    return {"gone_proven": proof is Proof.PROVEN, "swept": proof if proof is Proof.SWEPT else None}


@pytest.mark.parametrize("trace", [OVERLOADED, QUOTA], ids=["a service failure", "a used-up limit"])
@pytest.mark.parametrize("proof", Proof)
def test_an_exit_is_tried_again_in_the_same_directory_only_with_proof(proof: Proof, trace: Trace) -> None:
    """Everything else is settled and waits for a person, who is shown why."""
    found = settle(facts(a_run(RunState.ENDED), trace=trace, **evidence_of(proof)))
    assert isinstance(found, Outcome)
    assert found.proof is proof
    if proof is Proof.PROVEN:
        assert found.disposition is Disposition.RETRY and NOT_PROVEN not in found.reason
    else:
        assert (found.disposition, found.wake_at) == (Disposition.HELD, None) and NOT_PROVEN in found.reason


@pytest.mark.parametrize("proof", Proof)
def test_a_lost_run_is_tried_again_only_with_proof(proof: Proof) -> None:
    run = decide_run(a_run(RunState.RUNNING), RunLost(proof=proof, reason="The shim was killed.")).run
    found = settle(facts(run))
    if proof is Proof.PROVEN:
        assert isinstance(found, Outcome) and found.disposition is Disposition.RETRY
    else:
        assert isinstance(found, Hold) and NOT_PROVEN in found.reason


@pytest.mark.parametrize("on_lost", OnLost)
@pytest.mark.parametrize("proof", Proof)
def test_a_task_continues_in_a_new_worktree_after_a_sweep_if_it_asks_for_that(proof: Proof, on_lost: OnLost) -> None:
    """Of a lost run and of one whose end is on record; the directory in which something may live is never used again by itself."""
    spec = replace(a_spec(on_lost=on_lost), worktree=a_worktree(WorktreeState.MADE))
    owner = replace(a_task(TaskState.RUNNING, spec=spec), run_id=a_run(RunState.RUNNING).id, runs=1)
    lost = decide_run(a_run(RunState.RUNNING), RunLost(proof=proof, reason="The shim was killed.")).run
    ended = replace(facts(a_run(RunState.ENDED), trace=QUOTA, **evidence_of(proof)), task=owner)
    for given in (replace(facts(lost), task=owner), ended):
        found = settle(given)
        if not isinstance(found, Outcome) or found.disposition is not Disposition.RETRY:
            assert proof is not Proof.PROVEN or on_lost is not OnLost.RETRY
            assert proof is not Proof.SWEPT or on_lost is not OnLost.RETRY
            continue
        assert proof is Proof.PROVEN or (proof, on_lost) == (Proof.SWEPT, OnLost.RETRY)
        after = decide_task(owner, RunSettled(outcome=found)).task.spec
        moved = after.worktree is not None and after.worktree.path != a_worktree().path
        assert moved is (proof is Proof.SWEPT)
        assert moved is ("in a new one" in found.reason)


def test_each_new_worktree_has_a_name_of_its_own() -> None:
    spec = replace(
        a_spec(), cwd="/w/t1/sub", checkout="/w/t1", worktree=replace(a_worktree(), path="/w/t1", branch="fix")
    )
    second = in_a_new_worktree(replace(a_task(TaskState.RUNNING, spec=spec), runs=1))
    third = in_a_new_worktree(replace(a_task(TaskState.RUNNING, spec=second), runs=2))
    assert (second.cwd, second.checkout) == ("/w/t1-2/sub", "/w/t1-2")
    assert [each.worktree.branch for each in (second, third) if each.worktree] == ["fix-2", "fix-3"]
    assert third.cwd == "/w/t1-3/sub"


@pytest.mark.parametrize("swept", [None, Proof.SWEPT, Proof.UNPROVEN])
@pytest.mark.parametrize("recorded", [None, *Proof])
@pytest.mark.parametrize("gone_proven", [False, True])
def test_the_strongest_evidence_is_recorded(gone_proven: bool, recorded: Proof | None, swept: Proof | None) -> None:
    """The shim's own proof, else what a sweep came to, else what the run's record holds, else nothing is proven."""
    run = replace(a_run(RunState.ENDED), proof=recorded)
    found = settle(facts(run, gone_proven=gone_proven, swept=swept, trace=Trace(finished=True, ok=True)))
    assert isinstance(found, Outcome)
    assert found.proof is (Proof.PROVEN if gone_proven else swept or recorded or Proof.UNPROVEN)


@pytest.mark.parametrize("proof", Proof)
@pytest.mark.parametrize("state", [RunState.ENDED, RunState.HELD])
def test_a_settled_run_keeps_the_proof_of_its_outcome(state: RunState, proof: Proof) -> None:
    outcome = replace(an_outcome(Disposition.FAILED, FailureKind.LOST), proof=proof)
    run = replace(a_run(state), proof=None)
    assert decide_run(run, Settled(outcome=outcome)).run.proof is proof


@pytest.mark.parametrize("proof", Proof)
@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("found_since", [False, True], ids=["on record", "found since it was held"])
def test_a_persons_word_on_a_held_run_claims_no_more_than_is_proven(
    proof: Proof, stopped: bool, found_since: bool
) -> None:
    run = replace(a_run(RunState.HELD), proof=None if found_since else proof)
    owner = a_task(TaskState.HELD)
    outcome = resolve_held(owner, run, LATER, stopped=stopped, by="ada", proof=proof if found_since else None)
    assert outcome.proof is proof
    assert (NOT_PROVEN in outcome.reason) is (proof is not Proof.PROVEN)


def test_a_held_run_of_which_nothing_is_known_is_unproven() -> None:
    assert (
        resolve_held(a_task(TaskState.HELD), a_run(RunState.HELD), LATER, stopped=True, by="ada").proof
        is Proof.UNPROVEN
    )


@pytest.mark.parametrize("proof", [None, *Proof])
@pytest.mark.parametrize("directory", [None, DirectoryIdentity(device=1, inode=2)], ids=["no directory", "a directory"])
def test_a_record_may_be_removed_only_with_proof(proof: Proof | None, directory: DirectoryIdentity | None) -> None:
    """A run that has no directory never had a shim."""
    run = replace(a_run(RunState.SETTLED), proof=proof, directory=directory)
    assert may_be_alive(run) is (directory is not None and proof is not Proof.PROVEN)


@pytest.mark.parametrize("proof", [None, *Proof])
def test_a_stop_of_a_held_run_ends_what_may_be_alive(proof: Proof | None) -> None:
    """After a sweep nothing was found that could be ended."""
    decided = decide_run(replace(a_run(RunState.HELD), proof=proof), StopWanted(how=StopHow.STOP))
    assert bool(decided.effects) is (proof not in {Proof.PROVEN, Proof.SWEPT})


@pytest.mark.parametrize("proof", [None, *Proof])
@pytest.mark.parametrize("agent", [None, AGENT], ids=["no agent on record", "an agent on record"])
def test_a_stop_of_a_settled_run_ends_an_agent_that_is_unproven(proof: Proof | None, agent: object) -> None:
    run = replace(a_run(RunState.SETTLED), proof=proof, agent=agent)
    decided = decide_run(run, StopWanted(how=StopHow.KILL))
    assert decided.run == run
    assert bool(decided.effects) is (agent is not None and proof is Proof.UNPROVEN)


@pytest.mark.parametrize("proof", Proof)
def test_a_proof_on_record_stays(proof: Proof) -> None:
    """Neither a later loss nor a later exit replaces it (R5)."""
    run = decide_run(a_run(RunState.RUNNING), RunLost(proof=proof, reason="The shim was killed.")).run
    end = ExitFact(status=9, reason=EndReason.EXITED, at=AT, elapsed_s=1.0)
    held = replace(run, state=RunState.HELD)
    for was, event in (
        (run, RunLost(proof=Proof.UNPROVEN, reason="Another look.")),
        (run, ExitSeen(exit=end)),
        (run, NeverLaunched(reason="Another look.")),
        (held, RunLost(proof=Proof.UNPROVEN, reason="Another look.")),
        (held, NeverLaunched(reason="Another look.")),
    ):
        assert decide_run(was, event).run == was
    assert decide_run(replace(a_run(RunState.ENDED), proof=proof), ExitSeen(exit=end)).run.exit == EXIT


def test_a_settled_run_is_what_its_outcome_says() -> None:
    """Kind, reason and session; a session that the outcome does not name stays."""
    run = replace(a_run(RunState.ENDED), harness_session="s1", stop_failed="Its shim does not answer.")
    failed = replace(an_outcome(Disposition.FAILED, FailureKind.LOST), reason="It was lost.")
    settled = decide_run(run, Settled(outcome=failed)).run
    assert (settled.kind, settled.reason, settled.harness_session) == (FailureKind.LOST, "It was lost.", "s1")
    assert (settled.settled_at, settled.stop_failed) == (failed.at, None)
    named = decide_run(run, Settled(outcome=replace(failed, harness_session="s2"))).run
    assert named.harness_session == "s2"
