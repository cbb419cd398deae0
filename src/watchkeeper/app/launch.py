"""From a reserved run to a prepared execution: find the program, look at the workspace, write the directory, record it.

Nothing is started here. The transaction that records the directory queues the start of the shim, so a crash anywhere leaves either a reserved run, which is
prepared again, or a prepared one whose start is in the outbox.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from watchkeeper.app.accounts import AccountEnvironments, HomeGone, of_task
from watchkeeper.app.environments import EnvironmentUnknown, TaskEnvironments
from watchkeeper.app.record import apply_run
from watchkeeper.domain.account import Account
from watchkeeper.domain.failure import ROWS, FailureKind
from watchkeeper.domain.model import DirectoryIdentity, Run, RunState, Task
from watchkeeper.domain.redaction import Redactor
from watchkeeper.domain.run import NeverLaunched, Prepared
from watchkeeper.domain.secret_names import secrets_of
from watchkeeper.errors import BadTask, HarnessError, Refused, WatchkeeperError
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.harness import Harness, Order, find_program
from watchkeeper.ports.runtime import ExecutionOrder, Runtime
from watchkeeper.ports.store import Store, Tx
from watchkeeper.ports.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRules:
    """Settings that concern every launch."""

    grace_s: float
    log_limit_bytes: int
    options: Callable[[str], Mapping[str, str]]
    """The settings of a harness, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """Prepares executions."""

    store: Store
    clock: Clock
    runtime: Runtime
    environments: TaskEnvironments
    workspace: Workspace
    harness: Callable[[str], Harness]
    """A harness by name; raises UnknownHarness."""
    rules: LaunchRules
    accounts: AccountEnvironments

    def launch(self, run_id: str) -> None:
        """Prepare a reserved run. A run that is further, or was stopped, is left alone.

        Raises:
            OSError: the disk did not take it; the run stays reserved and is prepared at the next try.
        """
        run, task, database_id, account = self.store.read(lambda tx: _load(tx, run_id))
        if run.state is not RunState.RESERVED:
            return
        try:
            environment = self.environments.of(task, account)
        except EnvironmentUnknown as problem:
            kind = FailureKind.ENVIRONMENT_UNKNOWN
            self._refuse(run, str(problem) or ROWS[kind].says, kind)
            return
        if self.environments.is_from_elsewhere(task) and not Path(task.spec.cwd).is_dir():
            self._refuse(
                run, f"The directory '{task.spec.cwd}' is not on this machine.", FailureKind.ENVIRONMENT_UNKNOWN
            )
            return
        # What will not be otherwise at the next try must not keep a place in the queue: the run is given up, and nothing was started for it.
        try:
            order = self._order(run, task, database_id, environment, account)
            directory = self.runtime.prepare(order)
        except HomeGone as problem:
            # It may be on a disk that is not mounted now: the task keeps its place, as if nobody were signed in.
            self._refuse(run, str(problem), FailureKind.SIGNED_OUT if account else FailureKind.BAD_REQUEST)
        except HarnessError as problem:
            self._refuse(run, _says(problem, environment, task, account), FailureKind.PROGRAM_MISSING)
        except (BadTask, Refused) as problem:
            self._refuse(run, _says(problem, environment, task, account))
        else:
            self._record(run, directory)

    def _order(
        self, run: Run, task: Task, database_id: str, captured: Mapping[str, str], account: Account | None
    ) -> ExecutionOrder:
        spec = task.spec
        harness = self.harness(spec.harness)
        environment = self.accounts.apply(harness, account, captured, spec.environment_names)
        options = self.rules.options(spec.harness)
        program = find_program(harness, spec, environment, options)
        directory = str(self.runtime.executions().path(run))
        plan = harness.plan(
            Order(
                spec=spec,
                program=program,
                environment=environment,
                directory=directory,
                options=options,
            )
        )
        return ExecutionOrder(
            database_id=database_id,
            run=run,
            argv=plan.argv,
            cwd=spec.cwd,
            environment=plan.environment,
            asked=_asked(task, account),
            prompt=spec.prompt.encode("utf-8", "surrogateescape"),
            prompt_by=plan.prompt_by,
            deadline_s=spec.deadline_s,
            grace_s=self.rules.grace_s,
            leftovers=spec.leftovers,
            log_limit_bytes=self.rules.log_limit_bytes,
            before=self.workspace.snapshot(spec.cwd),
        )

    def _record(self, was: Run, directory: DirectoryIdentity) -> None:
        def work(tx: Tx) -> None:
            run = tx.runs.get(was.id)
            if run.state is not RunState.RESERVED or run.fence != was.fence:
                return  # stopped meanwhile: nothing was started, the directory is pruned
            _ = apply_run(tx, run, Prepared(directory=directory), self.clock.now())

        self.store.transact("prepared", work)

    def _refuse(self, was: Run, reason: str, kind: FailureKind = FailureKind.NEVER_LAUNCHED) -> None:
        def work(tx: Tx) -> None:
            run = tx.runs.get(was.id)
            if run.state is RunState.RESERVED:
                _ = apply_run(tx, run, NeverLaunched(reason=reason, kind=kind), self.clock.now())

        self.store.transact("refused", work)


def _says(problem: WatchkeeperError, environment: Mapping[str, str], task: Task, account: Account | None) -> str:
    """What is stored of it; a program that did not start may have printed anything."""
    redactor = Redactor(secrets_of(environment, _asked(task, account)))
    return redactor.text(f"{problem} {problem.hint}".strip())


def _asked(task: Task, account: Account | None) -> tuple[str, ...]:
    """What was asked for by name, by the task or its account."""
    return tuple(dict.fromkeys((*task.spec.environment_names, *(account.names if account is not None else ()))))


def _load(tx: Tx, run_id: str) -> tuple[Run, Task, str, Account | None]:
    run = tx.runs.get(run_id)
    task = tx.tasks.get(run.task_id)
    return run, task, tx.machines.database_id(), of_task(tx, task)
