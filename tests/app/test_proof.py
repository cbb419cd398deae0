"""A verb that starts, removes or ends something goes by the level of proof: each level is tried at each verb (R6)."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from app.stage import Verbs
from support.handing import again, retry_with
from support.records import NOON, make_outcome

from watchkeeper.app.perform import Performer
from watchkeeper.app.prune import Pruner
from watchkeeper.app.record import apply_run, apply_task
from watchkeeper.app.remove import NotRemovable, Remover
from watchkeeper.domain.effects import EndExecution
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import (
    AgentIdentity,
    Disposition,
    EndReason,
    Outcome,
    OutcomeStatus,
    Proof,
    Run,
    RunState,
    StopHow,
)
from watchkeeper.domain.removal import ObstacleKind
from watchkeeper.domain.run_events import RunLost, Settled
from watchkeeper.domain.task import RunSettled
from watchkeeper.errors import Refused
from watchkeeper.ports.runtime import Runtime, ShimUnreachable, SweepReport
from watchkeeper.ports.store import Tx
from watchkeeper.runtimes.boot import boot_id

AGENT = AgentIdentity(pid=4_000_001, start_ticks=2, boot_id=boot_id(), started_at=NOON)


def settled(verbs: Verbs, proof: Proof, task_id: str = "t1") -> tuple[Run, Path]:
    """A settled run with that proof on record, and its directory."""
    run = verbs.launched(task_id)
    failed = {"status": OutcomeStatus.FAILED, "disposition": Disposition.FAILED, "kind": FailureKind.LOST}
    outcome = make_outcome(run, proof=proof, reason="It was lost.", **failed)

    def work(tx: Tx) -> None:
        lost = apply_run(tx, run, RunLost(proof=proof, reason="It was lost."), NOON)
        _ = apply_run(tx, lost, Settled(outcome=outcome), NOON)
        tx.outcomes.add(outcome)
        _ = apply_task(tx, tx.tasks.get(task_id), RunSettled(outcome=outcome), NOON)
        for row in tx.outbox.due(verbs.clock.now(), 10, "m1"):
            tx.outbox.done(row.id)

    verbs.store.transact("settle", work)
    return verbs.run(run.id), verbs.root / "executions" / run.execution_id


def ended(verbs: Verbs, **gone: object) -> Run:
    """A run whose exit is on record after a failure that is tried again; `gone` is the shim's record of emptiness, if there is one."""
    run = verbs.launched(harness="demo", argv=())
    directories = verbs.directories()
    (directories.directory(run) / "lock").touch()
    directories.decide(run)
    directories.agent(run)
    result = {"type": "result", "ok": False, "kind": "overloaded", "text": ""}
    (directories.directory(run) / "stdout.log").write_text(json.dumps(result) + "\n", encoding="utf-8")
    directories.exit(run)
    if gone:
        directories.gone(run, **gone)
    _ = verbs.observer().observe(run.id)
    assert verbs.state(run.id) is RunState.ENDED
    return run


def swept(proof: Proof) -> Callable[..., SweepReport]:
    """A sweep that comes to this."""
    return lambda run, **_: SweepReport(proof=proof)


@pytest.mark.parametrize("word", ["proven", "unproven"])
def test_the_shims_record_of_emptiness_counts_as_what_it_says(
    verbs: Verbs, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """A record that leaves it open whether anything is left starts no other run in the directory."""
    monkeypatch.setattr(verbs.runtime, "sweep", lambda run: pytest.fail("there is a record"))
    outcome = verbs.settler().settle(ended(verbs, proof=word).id)
    assert isinstance(outcome, Outcome)
    assert outcome.proof is Proof(word)
    assert outcome.disposition is (Disposition.RETRY if word == "proven" else Disposition.HELD)


@pytest.mark.parametrize("proof", [Proof.SWEPT, Proof.UNPROVEN])
def test_an_exit_without_a_record_of_emptiness_is_settled_by_a_sweep(
    verbs: Verbs, monkeypatch: pytest.MonkeyPatch, proof: Proof
) -> None:
    monkeypatch.setattr(verbs.runtime, "sweep", swept(proof))
    outcome = verbs.settler().settle(ended(verbs).id)
    assert isinstance(outcome, Outcome)
    assert (outcome.proof, outcome.disposition) == (proof, Disposition.HELD)
    assert verbs.run().proof is proof


def test_a_restart_of_the_machine_proves_that_nothing_is_left(verbs: Verbs, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ended(verbs)
    verbs.directories().decide(run, boot_id="an earlier one")
    verbs.directories().agent(run, boot_id="an earlier one")
    monkeypatch.setattr(verbs.runtime, "sweep", lambda run: pytest.fail("nothing can be left"))
    outcome = verbs.settler().settle(run.id)
    assert outcome is not None and (outcome.proof, outcome.disposition) == (Proof.PROVEN, Disposition.RETRY)


@pytest.mark.parametrize("proof", [Proof.SWEPT, Proof.UNPROVEN])
def test_a_killed_shim_proves_what_the_sweep_came_to(
    verbs: Verbs, monkeypatch: pytest.MonkeyPatch, proof: Proof
) -> None:
    run = verbs.launched()
    directories = verbs.directories()
    (directories.directory(run) / "lock").touch()
    directories.decide(run)
    directories.agent(run)
    monkeypatch.setattr(verbs.runtime, "sweep", swept(proof))
    _ = verbs.observer().observe(run.id)
    assert (verbs.state(), verbs.run().proof) == (RunState.ENDED, proof)


@pytest.mark.parametrize("proof", Proof)
def test_only_what_is_proven_is_pruned(verbs: Verbs, proof: Proof) -> None:
    """The directory of a run that may be alive stays, however old it is."""
    run, path = settled(verbs, proof)
    verbs.clock.wall = NOON + timedelta(days=400)
    pruner = Pruner(
        store=verbs.store, clock=verbs.clock, executions=verbs.runtime.executions(), environments=verbs.environments,
        forget=lambda _repository, _names: "", keep_days=30, ago=lambda age: verbs.clock.now() - age,
    )  # fmt: skip
    assert pruner.prune() == ([run.execution_id] if proof is Proof.PROVEN else [])
    assert path.exists() is (proof is not Proof.PROVEN)


@pytest.mark.parametrize("proof", Proof)
@pytest.mark.parametrize("trusting", [False, True])
def test_only_what_is_proven_is_removed_without_a_persons_word(verbs: Verbs, proof: Proof, trusting: bool) -> None:
    _ = settled(verbs, proof)
    remover = Remover(store=verbs.store, clock=verbs.clock, runtime=verbs.runtime, machine="m1")
    if proof is Proof.PROVEN or trusting:
        assert remover.remove("t1", by="ada", trusting=trusting).executions == 1
        return
    with pytest.raises(NotRemovable) as refusal:
        remover.remove("t1", by="ada")
    assert [each.kind for each in refusal.value.reasons] == [ObstacleKind.UNPROVEN]


@pytest.mark.parametrize("proof", Proof)
def test_removal_looks_for_what_is_alive_unless_that_is_proven(
    verbs: Verbs, monkeypatch: pytest.MonkeyPatch, proof: Proof
) -> None:
    """A person's word does not count against an agent that is seen."""
    _ = settled(verbs, proof)
    monkeypatch.setattr(verbs.runtime, "living_agent", lambda run: AGENT)
    remover = Remover(store=verbs.store, clock=verbs.clock, runtime=verbs.runtime, machine="m1")
    if proof is Proof.PROVEN:
        assert remover.remove("t1", by="ada").executions == 1
        return
    with pytest.raises(NotRemovable, match=f"pid {AGENT.pid}"):
        remover.remove("t1", by="ada", trusting=True)


@pytest.mark.parametrize("proof", Proof)
def test_a_retry_looks_for_a_living_agent_unless_its_end_is_proven(
    verbs: Verbs, monkeypatch: pytest.MonkeyPatch, proof: Proof
) -> None:
    _ = settled(verbs, proof)
    monkeypatch.setattr(verbs.runtime, "living_agent", lambda run: AGENT)

    def try_again() -> None:
        parts = {"environments": verbs.environments, "runtime": verbs.runtime, "clock": verbs.clock}
        _ = retry_with(verbs.store, again(verbs.store), **parts)

    if proof is Proof.PROVEN:
        try_again()
        return
    with pytest.raises(Refused, match=f"still alive .pid {AGENT.pid}"):
        try_again()


class _Counting:
    """A runtime whose shims cannot be reached; it counts how often an end is tried."""

    def __init__(self, runtime: Runtime, sweep: Proof = Proof.SWEPT) -> None:
        self._runtime, self._sweep, self.tried = runtime, sweep, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._runtime, name)

    def end(self, run: Run, how: StopHow, *, grace_s: float | None, why: EndReason) -> bool:
        self.tried += 1
        raise ShimUnreachable("It does not answer.")

    def sweep(self, run: Run, *, asked: bool = False) -> SweepReport:
        return SweepReport(proof=self._sweep, ended=("1 agent",))


def performer(verbs: Verbs, runtime: object) -> Performer:
    return verbs.performer(runtime=runtime)


@pytest.mark.parametrize("proof", Proof)
def test_the_end_of_a_settled_run_is_tried_only_while_it_may_be_alive(verbs: Verbs, proof: Proof) -> None:
    """A sweep that found nothing would find nothing again."""
    run, _ = settled(verbs, proof)
    effect = EndExecution(
        run_id=run.id, fence=run.fence, execution_id=run.execution_id, how=StopHow.KILL, grace_s=None,
        why=EndReason.KILL,
    )  # fmt: skip
    directories = verbs.directories()
    lock = directories.hold(run)
    directories.decide(run)
    directories.agent(run)
    runtime = _Counting(verbs.runtime)
    verbs.store.transact("test", lambda tx: tx.outbox.put([effect], verbs.clock.now()))
    _ = performer(verbs, runtime).perform_due()
    lock.close()
    assert runtime.tried == (0 if proof in {Proof.PROVEN, Proof.SWEPT} else 1)


@pytest.mark.parametrize("proof", [Proof.SWEPT, Proof.UNPROVEN])
def test_the_end_of_a_settled_run_is_over_when_a_sweep_finds_nothing(verbs: Verbs, proof: Proof) -> None:
    _ = verbs.held()
    _ = verbs.stop("t1", StopHow.KILL)
    assert verbs.run().proof is Proof.UNPROVEN
    _ = performer(verbs, _Counting(verbs.runtime, proof)).perform_due()
    assert verbs.pending() == (0 if proof is Proof.SWEPT else 1)
