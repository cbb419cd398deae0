"""Decide the outcome of a run that has ended, store it and apply it, in one transaction (R11)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from watchkeeper.app.account_seen import see
from watchkeeper.app.beside import with_others
from watchkeeper.app.off_record import put_on_record
from watchkeeper.app.read_output import Read, read_trace
from watchkeeper.app.record import apply_run, apply_task, journal_sweep
from watchkeeper.app.secrets import hide_changes, hide_leftovers, hide_sweep, redactor_of
from watchkeeper.app.side_commands import SideCommands
from watchkeeper.app.steps import LOOKS, READS, OnStep, ignore_step
from watchkeeper.domain import settlement
from watchkeeper.domain.account import CredentialState
from watchkeeper.domain.evidence import VerdictKind, judge, restarted_since
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.learning import of_account, of_harness, of_service
from watchkeeper.domain.model import Changes, Leftover, Outcome, Run, RunState, Task, Trace
from watchkeeper.domain.run_events import (
    HeldBack,
    SessionSeen,
    Settled,
)
from watchkeeper.domain.service import SERVICE_KINDS, ProbePolicy, answered_since, shows_answer
from watchkeeper.domain.settlement import Facts, Hold, RetryPolicy
from watchkeeper.domain.side_command import CommandKind, SideCommand
from watchkeeper.domain.task import RunHeld, RunSettled
from watchkeeper.errors import HarnessError
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.harness import Harness
from watchkeeper.ports.runtime import Runtime, SweepReport
from watchkeeper.ports.store import Store, Tx
from watchkeeper.ports.workspace import Workspace
from watchkeeper.redaction.engine import Redactor


@dataclass(frozen=True, slots=True, kw_only=True)
class Settler:
    """Settles ended runs."""

    store: Store
    clock: Clock
    runtime: Runtime
    workspace: Workspace
    harness: Callable[[str], Harness]
    policy: RetryPolicy
    commands: SideCommands
    probing: ProbePolicy = field(default_factory=ProbePolicy)
    credential_state: Callable[[Task], CredentialState] = lambda _: CredentialState()
    """What a task's run has to do with its account's sign-in; a look from outside."""
    on_step: OnStep = ignore_step

    def settle(self, run_id: str) -> Outcome | None:
        """Settle an ended run, or hold it; None if it is not to be settled, or not yet: what the agent left behind is still being ended.

        Gathering may be done any number of times; the decision is made, stored and applied once, on the rows as they are then.
        """
        run, task = self.store.read(lambda tx: _load(tx, run_id))
        if put_on_record(self.store, self.clock, self.runtime, task.id):
            run, task = self.store.read(lambda tx: _load(tx, run_id))
        if run.state is not RunState.ENDED:
            return None
        final, empty = self._is_final(run)
        if not final:
            return None
        commands = self.commands.advance(run)
        if commands is None:
            return None
        checks = tuple(one for one in commands if one.kind is CommandKind.CHECK)
        gathered = self._gather(run, task, checks, empty=empty)
        reserved = self.commands.reserved(run, task, CommandKind.CHECK)
        outcome = self.store.transact("settled", lambda tx: self._decide(tx, run, gathered, reserved))
        if outcome is None:
            _ = self.commands.advance(run)  # its checks, if they were reserved just now
        return outcome

    def _gather(self, run: Run, task: Task, checks: tuple[SideCommand, ...], *, empty: bool) -> "_Gathered":
        gone = self.runtime.executions().gone(run) if run.exit is not None else None
        # Without the proof the shim died among the agent's leftovers, and some of them may be alive.
        swept = self.runtime.sweep(run) if run.exit is not None and gone is None and not empty else None
        # What is stored holds no secret.
        redactor = redactor_of(self.runtime.executions(), run, task.spec)
        return _Gathered(
            read=self._read(run, task, redactor),
            changes=self._changes(run, task, redactor, checked=bool(checks)),
            leftovers=hide_leftovers(redactor, gone.leftovers if gone else ()),
            gone_proven=empty or (gone is not None and gone.proven),
            swept=hide_sweep(lambda: redactor, swept),
            credential_state=self.credential_state(task),
            checks=checks,
        )

    def _decide(self, tx: Tx, was: Run, found: "_Gathered", reserved: Sequence[SideCommand]) -> Outcome | None:
        """Decide on the rows as they are now; None: the run has moved on, is held, or its checks run first."""
        run, task = _load(tx, was.id)
        if run.state is not RunState.ENDED or run.fence != was.fence:
            return None
        at = self.clock.now()
        facts = Facts(
            task=task,
            run=run,
            at=at,
            trace=found.read.trace,
            unread=found.read.why,
            changes=found.changes if found.checks else with_others(tx, run, found.changes),
            leftovers=found.leftovers,
            gone_proven=found.gone_proven,
            swept=found.swept.proof if found.swept else None,
            policy=self.policy,
            probing=self.probing,
            credential_state=found.credential_state,
            host="" if settlement.is_stopped_by_us(task, run) else _host(tx, run.id),
            service_answered=_service_answered(tx, task, run, found.read.trace, at),
            checks=found.checks,
            resumed=(turn := tx.messages.turn(run.id)) is not None and turn.session is not None,
        )
        if found.swept is not None:
            journal_sweep(tx, run, found.swept, at)
        decided = settlement.settle(facts)
        if settlement.wants_checks(facts, decided):
            tx.commands.keep_changes(run.id, facts.changes)
            tx.commands.reserve(reserved)
            return None
        return _apply(tx, facts, decided)

    def _is_final(self, run: Run) -> tuple[bool, bool]:
        """Whether nothing more will be written, and whether a restart of the machine proves that nothing is left.

        Final: emptiness is proven, or the shim is gone without having proven it.
        """
        if run.exit is None:
            return True, False
        evidence = self.runtime.observe(run, stop_asked=False)
        verdict = judge(evidence)
        empty = verdict.empty or (run.agent is not None and restarted_since(run.agent.boot_id, evidence))
        return empty or verdict.final or verdict.kind is not VerdictKind.ENDED, empty

    def _read(self, run: Run, task: Task, redactor: Redactor) -> Read:
        """What the program's output tells."""
        if _no_agent_ran(run):
            return Read(None)
        try:
            harness = self.harness(task.spec.harness)
        except HarnessError:
            return Read(None, f"the harness {task.spec.harness} is not installed any more")
        self.on_step(run.id, READS, "")
        read = read_trace(harness, task.spec, self.runtime.executions(), run, run.exit, redactor)
        self.on_step(run.id, "", "")
        return read

    def _changes(self, run: Run, task: Task, redactor: Redactor, *, checked: bool) -> Changes | None:
        """What the run changed. Once its checks ran, what was kept before them: what they wrote is not the agent's."""
        if checked:
            return self.store.read(lambda tx: tx.commands.changes(run.id))
        if _no_agent_ran(run):
            return None
        self.on_step(run.id, LOOKS, task.spec.cwd)
        changes = self.workspace.changes(task.spec.cwd, self.runtime.executions().before(run), run.execution_id)
        self.on_step(run.id, "", "")
        return hide_changes(redactor, changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gathered:
    """What was read of a run that has ended, before its outcome is decided. It holds no secret."""

    read: Read
    changes: Changes | None
    leftovers: tuple[Leftover, ...]
    gone_proven: bool
    swept: SweepReport | None
    credential_state: CredentialState
    checks: tuple[SideCommand, ...]
    """The task's checks; none: they have not run."""


def _no_agent_ran(run: Run) -> bool:
    return run.exit is None and run.kind is not FailureKind.LOST


def _host(tx: Tx, run_id: str) -> str:
    """Where the run's requests went, by the profile that it was launched with."""
    launch = tx.outcomes.launch(run_id)
    profile = None if launch is None else launch.authorisation.profile
    return "" if profile is None else profile.host


def _apply(tx: Tx, facts: Facts, decided: Outcome | Hold) -> Outcome | None:
    run, task, at = facts.run, facts.task, facts.at
    if isinstance(decided, Hold):
        session = None if facts.trace is None else facts.trace.harness_session
        if session is not None and session != run.harness_session:
            # Nothing reads the output of a held run again, and a person may continue its conversation.
            run = apply_run(tx, run, SessionSeen(harness_session=session), at)
        held = apply_run(tx, run, HeldBack(reason=decided.reason), at)
        kind = held.kind or FailureKind.UNKNOWN
        _ = apply_task(tx, task, RunHeld(reason=decided.reason, kind=kind, at=at), at)
        return None
    _learn(tx, facts, decided)  # first: a settled run is not a probe any more
    _ = apply_run(tx, run, Settled(outcome=decided), at)
    tx.outcomes.add(decided)
    _ = apply_task(tx, task, RunSettled(outcome=decided, service_answered=facts.service_answered), at)
    return decided


def _service_answered(tx: Tx, task: Task, run: Run, trace: Trace | None, at: datetime) -> bool:
    """Whether the service answered a task of the account since this run began, or since it failed the task's run before."""
    if shows_answer(trace):
        return True
    before = tx.outcomes.get(f"{task.id}.{run.number - 1}")
    failed_before = before is not None and before.kind in SERVICE_KINDS
    since = before.at if before is not None and failed_before else run.claimed_at
    return answered_since(tx.accounts.states(run.machine).get(task.spec.account_id), since, at)


def _learn(tx: Tx, facts: Facts, outcome: Outcome) -> None:
    """Record what the outcome tells of the account, its service and the machine; what is news is journalled."""
    task, run = facts.task, facts.run
    for seen in (*of_account(run, outcome, facts.credential_state), *of_service(facts, outcome)):
        _ = see(tx, task.spec.account_id, run.machine, seen, outcome.at)
    found = of_harness(task, run, outcome)
    if found is not None and tx.accounts.record_harness(found):
        data = {"harness": found.harness, "machine": found.machine, "present": found.present, "detail": found.detail}
        _ = tx.journal.append("harness.seen", outcome.at, data=data)


def _load(tx: Tx, run_id: str) -> tuple[Run, Task]:
    run = tx.runs.get(run_id)
    return run, tx.tasks.get(run.task_id)
