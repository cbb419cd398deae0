"""Look at the evidence of a live run and record what it proves. The same for a run started a moment ago and one found after a crash."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from watchkeeper.app.off_record import put_on_record
from watchkeeper.app.record import apply_run, apply_task, journal_sweep
from watchkeeper.app.secrets import hide_sweep, redactor_of
from watchkeeper.app.together import DecisionResult, transact_all
from watchkeeper.domain.evidence import Evidence, LockState, Verdict, VerdictKind, judge
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import AgentIdentity, Proof, Run, RunState, Task
from watchkeeper.domain.run_events import (
    AgentSeen,
    ExitSeen,
    HeldBack,
    NeverLaunched,
    RunLost,
    StopWanted,
    Undecided,
)
from watchkeeper.domain.task import RunHeld, RunRegained
from watchkeeper.errors import NotFound, RecordTorn
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.runtime import Runtime, SweepReport
from watchkeeper.ports.store import Store, Tx

END_MAY_BE_MISSING = (
    "The end of its output may be missing: it was on its way to the log when no process was left to keep it."
)

_LOST = frozenset({VerdictKind.SHIM_DIED, VerdictKind.LOST_TO_REBOOT})
OBSERVED = frozenset({RunState.PREPARED, RunState.STARTING, RunState.RUNNING, RunState.HELD})
"""States in which the evidence may tell something new."""

_TOGETHER = 16
"""So many runs are looked at before what was proven of them is recorded: in some 10 ms, so that a quick hint is not old when it is."""


class RestartWord(StrEnum):
    """What a daemon that starts says of each run it finds, one word each."""

    ADOPTED = "adopted"
    ENDED_MEANWHILE = "ended meanwhile"
    NEVER_LAUNCHED = "never launched"
    LOST = "lost"
    HELD = "held"
    STARTING = "starting"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a look at a run found."""

    run: Run
    verdict: Verdict
    sweep: SweepReport | None = None

    @property
    def word(self) -> RestartWord:
        """The word for it after a restart."""
        match self.verdict.kind:
            case VerdictKind.ALIVE:
                return RestartWord.ADOPTED
            case VerdictKind.ENDED:
                return RestartWord.ENDED_MEANWHILE
            case VerdictKind.NEVER_LAUNCHED:
                return RestartWord.NEVER_LAUNCHED
            case VerdictKind.LOST_TO_REBOOT | VerdictKind.SHIM_DIED:
                return RestartWord.LOST
            case VerdictKind.UNKNOWN:
                return RestartWord.HELD
            case VerdictKind.WAITING | VerdictKind.TAKE_DECISION:
                return RestartWord.STARTING


class _Observed(NamedTuple):
    """What was read of a run's evidence, and what follows."""

    run: Run
    evidence: Evidence
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """Observes runs."""

    store: Store
    clock: Clock
    runtime: Runtime

    def observe(self, run_id: str) -> Observation | None:
        """Look once and record what was proven; None if the run is not one that has anything to look at.

        Raises:
            OSError: the system itself failed; nothing was concluded.
        """
        loaded = self.store.read(lambda tx: _load(tx, run_id))
        if loaded is None:
            return None
        run, task = loaded
        if put_on_record(self.store, self.clock, self.runtime, task.id):
            run, task = self.store.read(lambda tx: _load(tx, run_id)) or loaded
        if _is_over(run):
            return None
        evidence, verdict = self._judge(run, task)
        sweep = self.runtime.sweep(run) if verdict.kind is VerdictKind.SHIM_DIED else None
        if verdict.kind in _LOST and self.runtime.executions().may_lack_end(run):
            verdict = replace(verdict, reason=f"{verdict.reason} {END_MAY_BE_MISSING}")
        sweep = hide_sweep(lambda: redactor_of(self.runtime.executions(), run, task.spec), sweep)
        return self._record(run, evidence, verdict, sweep)

    def observe_all(self, run_ids: Sequence[str]) -> list[DecisionResult[Observation | None]]:
        """Do the same for many runs: what is proven of some of them is recorded in one transaction. Returns the result of each, in this order.

        What fails is the result of its run alone. A run whose shim has died is looked at by itself, because what that left is ended first, which takes time.
        """
        results: list[DecisionResult[Observation | None]] = []
        for at in range(0, len(run_ids), _TOGETHER):
            some = run_ids[at : at + _TOGETHER]
            found = self._observe_some(some)
            results += [found[run_id] if run_id in found else self._observe_alone(run_id) for run_id in some]
        return results

    def _observe_some(self, run_ids: Sequence[str]) -> dict[str, DecisionResult[Observation | None]]:
        """Observe some runs together; those that are left out need a look of their own."""
        try:
            loaded = self.store.read(lambda tx: [(run_id, _load(tx, run_id)) for run_id in run_ids])
        except RecordTorn:
            return {}  # of one of them; each is read by itself
        results: dict[str, DecisionResult[Observation | None]] = {}
        looks: dict[VerdictKind, list[_Observed]] = {}
        for run_id, found in loaded:
            if found is None or _is_over(found[0]):
                results[run_id] = DecisionResult(value=None)
                continue
            run, task = found
            try:
                if any(note.task_id == task.id for note in self.runtime.off_record.notes()):
                    continue
                evidence, verdict = self._judge(run, task)
            except Exception as problem:  # noqa: BLE001 - the result of this run; the caller raises it when all runs have been looked at
                results[run_id] = DecisionResult(problem=problem)
                continue
            if not _changes_anything(run, evidence, verdict):
                results[run_id] = DecisionResult(value=Observation(run=run, verdict=verdict))
            elif verdict.kind not in _LOST:
                looks.setdefault(verdict.kind, []).append(_Observed(run, evidence, verdict))
        for kind, some in looks.items():
            works: list[Callable[[Tx], Observation | None]] = [partial(self._recorded, look=look) for look in some]
            made = transact_all(self.store, f"observed_{kind.value}", works, durable=False)
            results.update((look.run.id, result) for look, result in zip(some, made, strict=True))
        return results

    def _observe_alone(self, run_id: str) -> DecisionResult[Observation | None]:
        try:
            return DecisionResult(value=self.observe(run_id))
        except Exception as problem:  # noqa: BLE001 - the result of this run; the caller raises it when all runs have been looked at
            return DecisionResult(problem=problem)

    def _judge(self, run: Run, task: Task) -> tuple[Evidence, Verdict]:
        """Read the evidence, and take the decision that is due. Raises OSError."""
        stop_asked = task.stop is not None
        evidence = self.runtime.observe(run, stop_asked=stop_asked)
        verdict = judge(evidence)
        if verdict.kind is VerdictKind.TAKE_DECISION and verdict.decide_by is not None:
            # The first process to link has decided; either way the second look reads the answer.
            _ = self.runtime.take_decision(run, verdict.decide_by)
            evidence = self.runtime.observe(run, stop_asked=stop_asked)
            verdict = judge(evidence)
        return evidence, verdict

    def _record(self, seen: Run, evidence: Evidence, verdict: Verdict, sweep: SweepReport | None) -> Observation:
        look = _Observed(seen, evidence, verdict)
        if not _changes_anything(seen, evidence, verdict):
            return Observation(run=seen, verdict=verdict)

        def work(tx: Tx) -> Observation:
            return self._recorded(tx, look, sweep)

        # The evidence is durable itself and would be seen again, but for a sweep; and what is recorded later takes this to the disk with it.
        return self.store.transact(f"observed_{verdict.kind.value}", work, durable=sweep is not None)

    def _recorded(self, tx: Tx, look: _Observed, sweep: SweepReport | None = None) -> Observation:
        """Record what a look proves, unless the run has moved on since."""
        run = tx.runs.get(look.run.id)
        if run.fence == look.run.fence and run.state in OBSERVED:
            if sweep is not None:
                journal_sweep(tx, run, sweep, self.clock.now())
            run = self._apply(tx, run, look.evidence, look.verdict, sweep)
        return Observation(run=run, verdict=look.verdict, sweep=sweep)

    def _apply(
        self,
        tx: Tx,
        run: Run,
        evidence: Evidence,
        verdict: Verdict,
        sweep: SweepReport | None,
    ) -> Run:
        at = self.clock.now()
        was = run
        match verdict.kind:
            case VerdictKind.ALIVE if evidence.agent is not None:
                run = apply_run(tx, run, self._agent_seen(evidence.agent), at)
            case VerdictKind.ENDED if evidence.exit is not None:
                if evidence.agent is not None:
                    run = apply_run(tx, run, self._agent_seen(evidence.agent), at)
                ended = replace(evidence.exit, at=self.clock.recorded(evidence.exit.at))
                run = apply_run(tx, run, ExitSeen(exit=ended), at)
            case VerdictKind.NEVER_LAUNCHED if run.state is not RunState.RUNNING:
                run = apply_run(tx, run, NeverLaunched(reason=verdict.reason), at)
            case VerdictKind.LOST_TO_REBOOT:
                run = apply_run(tx, run, RunLost(proof=Proof.PROVEN, reason=verdict.reason), at)
            case VerdictKind.SHIM_DIED if sweep is not None:
                reason = " ".join((verdict.reason, *sweep.spared))
                run = apply_run(tx, run, RunLost(proof=sweep.proof, reason=reason), at)
            case VerdictKind.WAITING if _nobody_was_started(run, evidence):
                run = apply_run(tx, run, Undecided(), at)
            case VerdictKind.UNKNOWN | VerdictKind.NEVER_LAUNCHED if run.state is not RunState.HELD:
                return self._hold(tx, run, verdict.reason)
            case _:
                return run
        if was.state is RunState.HELD and run.state is not RunState.HELD:
            return self._regained(tx, run)
        return run

    def _agent_seen(self, agent: AgentIdentity) -> AgentSeen:
        """A shim reads the clock of its machine."""
        return AgentSeen(agent=replace(agent, started_at=self.clock.recorded(agent.started_at)))

    def _regained(self, tx: Tx, run: Run) -> Run:
        """Its evidence came back. A stop that was requested before or meanwhile has not been sent yet."""
        at = self.clock.now()
        task = apply_task(tx, tx.tasks.get(run.task_id), RunRegained(at=at), at)
        if task.stop is None:
            return run
        return apply_run(tx, run, StopWanted(how=task.stop.how, grace_s=task.stop.grace_s), at)

    def _hold(self, tx: Tx, run: Run, reason: str) -> Run:
        at = self.clock.now()
        held = apply_run(tx, run, HeldBack(reason=reason), at)
        kind = held.kind or FailureKind.UNKNOWN
        _ = apply_task(tx, tx.tasks.get(run.task_id), RunHeld(reason=reason, kind=kind, at=at), at)
        return held


def _nobody_was_started(run: Run, evidence: Evidence) -> bool:
    """Whether a run is held whose directory is there, untouched: its shim's start was dropped while it was missing."""
    undecided = evidence.decision is None and evidence.lock is LockState.FREE and evidence.agent is None
    return run.state is RunState.HELD and undecided and evidence.since_spawn_s is None


def _changes_anything(seen: Run, evidence: Evidence, verdict: Verdict) -> bool:
    """Whether there is anything to write; an idle look writes nothing (R14)."""
    match verdict.kind:
        case VerdictKind.WAITING if _nobody_was_started(seen, evidence):
            return True
        case VerdictKind.WAITING | VerdictKind.TAKE_DECISION:
            return False
        case VerdictKind.ALIVE:
            return seen.state is not RunState.RUNNING
        case VerdictKind.ENDED:
            return True
        case VerdictKind.UNKNOWN:
            return seen.state is not RunState.HELD
        case _:
            return True


def _is_over(run: Run) -> bool:
    """Whether a look at the evidence can tell nothing new."""
    return run.state not in OBSERVED or _is_established(run)


def _is_established(run: Run) -> bool:
    """A held run whose end is on record, or proven, tells nothing new; one that is held for want of evidence may."""
    return run.state is RunState.HELD and (run.proof is not None or run.exit is not None)


def _load(tx: Tx, run_id: str) -> tuple[Run, Task] | None:
    try:
        run = tx.runs.get(run_id)
    except NotFound:
        return None
    return run, tx.tasks.get(run.task_id)
