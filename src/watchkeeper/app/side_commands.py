"""Run the command lines around a run, checks, set-ups and teardowns, each in an execution of its own (R1, R3).

    TX reserved ─▶ directory ─▶ TX prepared ─▶ shim ─▶ TX started ─▶ evidence ─▶ TX ended

Nothing waits here: each call goes as far as it can, and the next look continues from what is on record. A daemon that takes over reads the same records, and
the evidence in the directories is judged as that of agents is. Starting a shim twice is harmless, because the write-once decision lets one of them launch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from errno import ESTALE

from watchkeeper.app.accounts import of_task
from watchkeeper.app.environments import EnvironmentUnknown, TaskEnvironments
from watchkeeper.app.worktree_environment import variables_of
from watchkeeper.crash import crashpoint
from watchkeeper.domain.account import Account
from watchkeeper.domain.evidence import DecidedBy, DirectoryState, Evidence, Verdict, VerdictKind, judge
from watchkeeper.domain.model import EndReason, Run, RunState, StopHow, Task
from watchkeeper.domain.profile import LaunchProfile
from watchkeeper.domain.side_command import (
    DEADLINE_S,
    CommandKind,
    CommandResult,
    CommandState,
    SideCommand,
    commands_of,
    ended,
    given_up,
    never_launched,
    next_of,
    prepared,
    shown_line,
    started,
)
from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.ids import Ids
from watchkeeper.ports.runtime import ExecutionRequest, Runtime, ShimUnreachable
from watchkeeper.ports.store import Store, Tx

SHELL = "/bin/sh"
_LOG_LIMIT = 64 * 1024 * 1024
_GRACE_S = 10.0
_GONE = frozenset({DirectoryState.ABSENT, DirectoryState.FOREIGN})


@dataclass(frozen=True, slots=True, kw_only=True)
class SideCommands:
    """Runs the command lines around runs."""

    store: Store
    clock: Clock
    ids: Ids
    runtime: Runtime
    environments: TaskEnvironments

    def reserved(self, run: Run, task: Task, kind: CommandKind, *, before: int = 0) -> list[SideCommand]:
        """The commands of a task as they are to be reserved for a run. `before`: how many of this kind it has already."""
        return [
            SideCommand(
                run_id=run.id,
                task_id=task.id,
                kind=kind,
                number=number,
                line=line,
                execution_id=self.ids.execution(),
                state=CommandState.RESERVED,
            )
            for number, line in enumerate(commands_of(task.spec, kind), start=before + 1)
        ]

    def set_up(self, run: Run, task: Task) -> list[SideCommand] | None:
        """Prepare a new worktree by the task's own commands, once for all its runs. Returns those that did not pass, or None if they have not ended."""
        if not task.spec.setup or task.spec.worktree is None:
            return []
        reserved = self.reserved(run, task, CommandKind.SETUP)

        def begin(tx: Tx) -> bool:
            """Whether an earlier run has done it."""
            earlier: dict[str, list[CommandResult | None]] = {}
            for one in tx.commands.of_task(task.id):
                if one.kind is CommandKind.SETUP:
                    earlier.setdefault(one.run_id, []).append(one.result)
            if any(set(results) == {CommandResult.PASSED} for results in earlier.values()):
                return True
            if run.id not in earlier:
                tx.commands.reserve(reserved)
            return False

        if self.store.transact("setup_reserved", begin):
            return []
        commands = self.advance(run, CommandKind.SETUP)
        if commands is None:
            return None
        return [one for one in commands if one.result is not CommandResult.PASSED]

    def advance(self, run: Run, kind: CommandKind | None = None) -> list[SideCommand] | None:
        """Go as far as can be without waiting. Returns the commands when all of them have ended, else None.

        Raises:
            OSError: the system is in trouble; it is tried again at the next look.
            Stale: another look went on meanwhile.
        """
        commands = self.store.read(lambda tx: tx.commands.of_run(run.id, kind))
        if next_of(commands) is None:
            return commands  # most runs have none, and each settlement asks
        while True:
            commands, task, facts = self.store.read(lambda tx: self._load(tx, run, kind))
            command = next_of(commands)
            if command is None:
                return commands
            after = self._step(run, task, command, facts)
            if after is None:
                return None
            self._save(run, after, command, of=len(commands))

    def _load(self, tx: Tx, run: Run, kind: CommandKind | None) -> tuple[list[SideCommand], Task, "_Facts"]:
        task, launch = tx.tasks.get(run.task_id), tx.outcomes.launch(run.id)
        if kind is CommandKind.TEARDOWN:
            task = replace(task, stop=None)  # the stop was of the task, which has ended
        changes, commands = tx.commands.changes(run.id), tx.commands.of_run(run.id, kind)
        setups = [one.result for one in commands if one.kind is CommandKind.SETUP and one.is_over]
        facts = _Facts(
            database_id=tx.machines.database_id(),
            account=of_task(tx, task),
            profile=None if launch is None else launch.authorisation.profile,
            is_lost=any(result is not CommandResult.PASSED for result in setups),
            left=None if changes is None else changes.left,
        )
        return commands, task, facts

    def _step(self, run: Run, task: Task, command: SideCommand, facts: "_Facts") -> SideCommand | None:
        """What the command becomes now; None: there is something to wait for."""
        match command.state:
            case CommandState.RESERVED:
                return self._prepare(run, task, command, facts)
            case CommandState.PREPARED:
                return self._start(run, task, command)
            case _:
                return self._look(run, task, command)

    def _prepare(self, run: Run, task: Task, command: SideCommand, facts: "_Facts") -> SideCommand:
        begun = self.runtime.executions().begun(command.as_run(run), facts.database_id)
        if begun is not None:  # the database is older than the directory, as after a restore
            return started(prepared(command, begun), self.clock.now())
        if task.stop is not None or facts.is_lost:
            return self._unstarted(command)
        try:
            clears_up = command.kind is CommandKind.TEARDOWN
            found = self.environments
            environment = found.for_remover(task) if clears_up else found.for_task(task, facts.account)
        except EnvironmentUnknown as problem:
            why = str(problem) or "the environment that was kept for the task is gone"
            return self._not_run(command, f"`{shown_line(command.line)}` was not started: {why.rstrip('.')}.")
        profile = facts.profile
        account = facts.account
        request = ExecutionRequest(
            database_id=facts.database_id,
            run=command.as_run(run),
            argv=(SHELL, "-c", command.line),
            cwd=task.spec.cwd,
            environment={**environment, **variables_of(task, ())},
            prompt=b"",
            prompt_by="none",
            deadline_s=task.spec.check_deadline_s or DEADLINE_S,
            grace_s=_GRACE_S if profile is None else profile.grace_s,
            log_limit_bytes=_LOG_LIMIT if profile is None else profile.log_limit_bytes,
            asked=(*task.spec.environment_names, *(() if account is None else account.names)),
            inherits=None if profile is None else profile.inherits,
            place=_place(task, facts),
        )
        crashpoint(f"{command.kind.value}.prepare.before")
        directory = self.runtime.prepare(request)
        crashpoint(f"{command.kind.value}.prepare.after")
        return prepared(command, directory)

    def _start(self, run: Run, task: Task, command: SideCommand) -> SideCommand:
        mine = command.as_run(run)
        try:
            if task.stop is not None:
                _ = self.runtime.take_decision(mine, DecidedBy.STOP)
            else:
                crashpoint(f"{command.kind.value}.start.before")
                self.runtime.start_shim(mine)
                crashpoint(f"{command.kind.value}.start.after")
        except OSError as problem:
            if problem.errno != ESTALE:
                raise
            return self._not_run(command, f"`{shown_line(command.line)}` was not started: its directory is missing.")
        return started(command, self.clock.now())

    def _look(self, run: Run, task: Task, command: SideCommand) -> SideCommand | None:
        mine = command.as_run(run)
        evidence, verdict = self._judged(mine, stop_asked=task.stop is not None)
        shown = f"`{shown_line(command.line)}`"
        match verdict.kind:
            case VerdictKind.ENDED if evidence.exit is not None and verdict.final:
                if evidence.gone is None and not verdict.empty:
                    _ = self.runtime.sweep(mine)  # its shim died among what the command left behind
                fact = replace(evidence.exit, at=self.clock.recorded(evidence.exit.at))
                deadline_s = task.spec.check_deadline_s or DEADLINE_S
                return ended(command, fact, task.stop, deadline_s, self.clock.now())
            case VerdictKind.NEVER_LAUNCHED if task.stop is not None:
                return self._unstarted(command)
            case VerdictKind.NEVER_LAUNCHED:
                why = f"{shown} could not be started."
                return never_launched(command, self.ids.execution(), why, self.clock.now())
            case VerdictKind.LOST_TO_REBOOT:
                return self._lost(task, command, f"The machine was restarted while {shown} ran.")
            case VerdictKind.SHIM_DIED:
                _ = self.runtime.sweep(mine)
                return self._lost(task, command, f"The supervisor of {shown} was killed while it ran.")
            case VerdictKind.UNKNOWN if evidence.directory in _GONE:
                _ = self.runtime.sweep(mine, asked=True)
                return self._lost(task, command, f"What became of {shown} is unknown: {verdict.reason}")
            case VerdictKind.ALIVE | VerdictKind.ENDED if task.stop is not None:
                return self._end(mine, command, task.stop.how, task.stop.grace_s)
            case _:
                return None

    def _judged(self, mine: Run, *, stop_asked: bool) -> tuple[Evidence, Verdict]:
        evidence = self.runtime.observe(mine, stop_asked=stop_asked)
        verdict = judge(evidence)
        if verdict.kind is VerdictKind.TAKE_DECISION and verdict.decide_by is not None:
            _ = self.runtime.take_decision(mine, verdict.decide_by)
            evidence = self.runtime.observe(mine, stop_asked=stop_asked)
            verdict = judge(evidence)
        return evidence, verdict

    def _end(self, mine: Run, command: SideCommand, how: StopHow, grace_s: float | None) -> SideCommand | None:
        """Have its shim end it, for a person; past its shim where that does not answer."""
        if command.stop_told in {how, StopHow.KILL}:
            return None
        try:
            acknowledged = self.runtime.end(mine, how, grace_s=grace_s, why=EndReason(how.value))
        except ShimUnreachable:
            acknowledged = False
            _ = self.runtime.force(mine, how, grace_s=grace_s, signalled=False)
        return replace(command, stop_told=how) if acknowledged else None

    def _lost(self, task: Task, command: SideCommand, reason: str) -> SideCommand:
        result = CommandResult.NOT_RUN if task.stop is None else CommandResult.STOPPED
        return given_up(command, result, reason, self.clock.now())

    def _not_run(self, command: SideCommand, reason: str) -> SideCommand:
        return given_up(command, CommandResult.NOT_RUN, reason, self.clock.now())

    def _unstarted(self, command: SideCommand) -> SideCommand:
        return given_up(
            command, CommandResult.STOPPED, f"`{shown_line(command.line)}` was not started.", self.clock.now()
        )

    def _save(self, run: Run, after: SideCommand, was: SideCommand, *, of: int) -> None:
        def work(tx: Tx) -> None:
            now = tx.runs.get(run.id)
            settled = now.state is RunState.SETTLED and after.kind is not CommandKind.TEARDOWN
            if now.fence != run.fence or settled:
                return  # a stale look changes nothing (R4)
            tx.commands.save(after, was)
            at, about = self.clock.now(), {"number": after.number, "of": of, "line": shown_line(after.line)}
            if after.state is CommandState.STARTED and was.state is not CommandState.STARTED:
                _journal_start(tx, now, after, about, at)
            if after.result is not None:
                _journal_end(tx, now, after, {**about, "result": after.result.value, "reason": after.reason}, at)

        self.store.transact(f"{after.kind.value}_{after.state.value}", work)


def _journal_start(tx: Tx, run: Run, command: SideCommand, about: Mapping[str, object], at: datetime) -> None:
    match command.kind:
        case CommandKind.CHECK:
            _ = tx.journal.append("run.check_started", at, task_id=run.task_id, run=run, data=about)
        case CommandKind.SETUP:
            _ = tx.journal.append("run.setup_started", at, task_id=run.task_id, run=run, data=about)
        case CommandKind.TEARDOWN:
            _ = tx.journal.append("run.teardown_started", at, task_id=run.task_id, run=run, data=about)


def _journal_end(tx: Tx, run: Run, command: SideCommand, about: Mapping[str, object], at: datetime) -> None:
    match command.kind:
        case CommandKind.CHECK:
            _ = tx.journal.append("run.check_ended", at, task_id=run.task_id, run=run, data=about)
        case CommandKind.SETUP:
            _ = tx.journal.append("run.setup_ended", at, task_id=run.task_id, run=run, data=about)
        case CommandKind.TEARDOWN:
            _ = tx.journal.append("run.teardown_ended", at, task_id=run.task_id, run=run, data=about)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """What a command is made of, beside the run and the task."""

    database_id: str
    account: Account | None
    profile: LaunchProfile | None
    is_lost: bool
    """A set-up before it failed: the next ones do not run."""
    left: WorkingDirectory | None
    """The directory as the agent left it."""


def _place(task: Task, facts: _Facts) -> WorkingDirectory | None:
    """Which directory the command must find: that which the agent left, or of a set-up the new worktree. Whatever is checked out there."""
    tree = task.spec.worktree
    place = facts.left or (None if tree is None else tree.made)
    return None if place is None else replace(place, head_file=None)
