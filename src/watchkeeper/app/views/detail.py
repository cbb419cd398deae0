"""One task in full: who authorised it, every run with its outcome, the evidence now, where its logs are, how to take it over."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from watchkeeper.app.views.rows import TaskRow, owner, row
from watchkeeper.domain.model import Outcome, Run, Task, TaskState
from watchkeeper.errors import HarnessError
from watchkeeper.ports.harness import Harness
from watchkeeper.ports.runtime import Runtime
from watchkeeper.ports.store import Authorisation, Store, Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetail:
    """A run, its outcome, and where its output is."""

    run: Run
    outcome: Outcome | None
    directory: Path
    stdout: Path
    stderr: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDetail:
    """Everything about a task."""

    row: TaskRow
    authorisation: Authorisation | None
    runs: tuple[RunDetail, ...]
    takeover: str | None
    """With which command a person takes the newest conversation over, in the task's directory."""

    @property
    def task(self) -> Task:
        """The task itself."""
        return self.row.task


def detail(store: Store, runtime: Callable[[], Runtime], harness: Callable[[str], Harness], task_id: str) -> TaskDetail:
    """Everything about a task. Raises NoSuchTask."""

    def read(tx: Tx) -> tuple[Task, Run | None, Authorisation | None, list[tuple[Run, Outcome | None]]]:
        task = tx.tasks.get(task_id)
        runs = [(run, tx.outcomes.get(run.id)) for run in tx.runs.of_task(task_id)]
        return task, owner(tx, task), tx.outcomes.authorisation(task_id), runs

    task, run, authorisation, runs = store.read(read)
    return TaskDetail(
        row=row(task, run, runtime),
        authorisation=authorisation,
        runs=tuple(_run_detail(runtime(), run, outcome) for run, outcome in runs),
        takeover=_takeover(harness, task, runs),
    )


def _run_detail(runtime: Runtime, run: Run, outcome: Outcome | None) -> RunDetail:
    executions = runtime.executions()
    return RunDetail(
        run=run,
        outcome=outcome,
        directory=executions.path(run),
        stdout=executions.log(run, "stdout"),
        stderr=executions.log(run, "stderr"),
    )


def _takeover(harness: Callable[[str], Harness], task: Task, runs: list[tuple[Run, Outcome | None]]) -> str | None:
    """Only while nothing of ours works or is about to: otherwise it would put a second agent into the tree."""
    may_be_alive = task.state is TaskState.HELD and any(run.id == task.run_id and run.proof is None for run, _ in runs)
    if task.state in {TaskState.QUEUED, TaskState.RUNNING} or may_be_alive:
        return None
    sessions = [session for run, outcome in runs if (session := _session(run, outcome)) is not None]
    if not sessions:
        return None
    try:
        return harness(task.spec.harness).takeover(task.spec, sessions[-1])
    except HarnessError:
        return None  # its harness was uninstalled meanwhile


def _session(run: Run, outcome: Outcome | None) -> str | None:
    return (outcome.harness_session if outcome is not None else None) or run.harness_session
