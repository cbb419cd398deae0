"""Remove what is provably no longer needed: old execution directories, directories of runs that were never prepared, environments without a task."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from watchkeeper.app.ages import Ago
from watchkeeper.app.remove import Forget, forget_files
from watchkeeper.domain.model import FINAL_TASK_STATES, Proof, Run, RunState
from watchkeeper.errors import RecordTorn, WatchkeeperError
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.environment import Environments
from watchkeeper.ports.runtime import Executions
from watchkeeper.ports.store import Store, Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruner:
    """Prunes."""

    store: Store
    clock: Clock
    executions: Executions
    environments: Environments
    forget: Forget
    keep_days: float
    ago: Ago

    def prune(self) -> list[str]:
        """Remove what may go; returns the ids of the executions that went. What belongs to no run of this database is never touched."""
        self.executions.tidy()
        removed: list[str] = []
        problems: list[Exception] = []
        for run in self.candidates():
            try:
                problem = forget_files(self.executions, self.forget, run)
                if problem:
                    problems.append(OSError(problem))
                    continue
                self.executions.remove(run)
            except (OSError, WatchkeeperError) as problem:
                problems.append(problem)
            else:
                removed.append(run.execution_id)
                self.store.transact("pruned", lambda tx, run=run: self._record_pruned(tx, run), durable=False)
        if problems:
            raise problems[0]
        return removed

    def _record_pruned(self, tx: Tx, run: Run) -> None:
        """Record it, so that `wk logs` can report what became of the output."""
        data = {"execution": run.execution_id, "after_days": self.keep_days}
        _ = tx.journal.append("execution.pruned", self.clock.now(), task_id=run.task_id, run=run, data=data)

    def candidates(self) -> Iterator[Run]:
        """The runs whose executions may go."""
        for execution_id in self.executions.names():
            with contextlib.suppress(RecordTorn):  # what is not understood stays
                run = self.store.read(lambda tx, name=execution_id: tx.runs.by_execution(name))
                if run is not None and self._may_go(run):
                    yield run
                command = None if run else self.store.read(lambda tx, name=execution_id: tx.commands.by_execution(name))
                if command is not None:
                    around = self.store.read(lambda tx, run_id=command.run_id: tx.runs.get(run_id))
                    if self._may_go(around):
                        yield command.as_run(around)

    def forget_unused_environments(self, known_before: frozenset[str]) -> frozenset[str]:
        """Delete environments that no task names and that were already unused at the last pass.

        An environment is written before the transaction that names it, so one that is new may still be about to be named. Returns what is unused now, for
        the next pass.
        """
        if self.store.met.all() or self.store.read(lambda tx: tx.damage.all()):
            return frozenset()  # a task that cannot be read may name any of them
        unused = frozenset(
            name
            for name in self.environments.ids()
            if not self.store.read(lambda tx, name=name: tx.tasks.environment_in_use(name))
        )
        for name in unused & known_before:
            self.environments.forget(name)
        return unused - known_before

    def _may_go(self, run: Run) -> bool:
        if run.state is not RunState.SETTLED:
            return False
        if run.directory is None:
            return True  # written, then refused: no shim was ever started for it
        if run.proof is not Proof.PROVEN or run.settled_at is None:
            return False
        if run.settled_at > self.ago(timedelta(days=self.keep_days)):
            return False
        return self.store.read(lambda tx: _lets_go(tx, run))


def _lets_go(tx: Tx, run: Run) -> bool:
    """Whether a run's task has ended and is not pinned or kept."""
    task = tx.tasks.get(run.task_id)
    return task.state in FINAL_TASK_STATES and task.pinned_at is None
