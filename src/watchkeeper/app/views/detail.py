"""One task in full: who authorised it, every run with its outcome, the evidence now, where its logs are, how to take it over."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from watchkeeper.app.views.rows import TaskRow, beside_agent, came_to, row
from watchkeeper.app.views.standing import BesideAgent
from watchkeeper.app.views.whereabouts import Whereabouts, elsewhere, of_run
from watchkeeper.domain.model import Outcome, Proof, Run, RunState, Task, TaskState, Trace
from watchkeeper.domain.side_command import SideCommand
from watchkeeper.errors import HarnessError
from watchkeeper.ports.harness import Harness, Resumes
from watchkeeper.ports.runtime import Executions, Runtime
from watchkeeper.ports.store import Authorisation, Launch, Store, Tx

_Tried = tuple[Run, Outcome | None, Whereabouts | None, Launch | None, tuple[SideCommand, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetail:
    """A run, its outcome or, of a held one, what its output tells, and where that is."""

    run: Run
    outcome: Outcome | None
    launch: Launch | None
    """What it was allowed by, and which version was launched."""
    on: str | None
    """On which other machine it is; then the paths are those below its state directory there."""
    directory: Path
    stdout: Path
    stderr: Path
    complaints: Path | None
    """Where its shim complained, if it did."""
    commands: tuple[SideCommand, ...]
    """The set-up and the checks around it."""
    known: Trace | None
    """What a held run's output came to, as far as its harness can read it: nothing is decided by it."""
    messages: tuple[int, ...] = ()
    """The numbers of the messages that it was given, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDetail:
    """Everything about a task."""

    row: TaskRow
    authorisation: Authorisation | None
    runs: tuple[RunDetail, ...]
    key: str | None
    """The caller's own name for its hand-over."""
    takeover: str | None
    """With which command a person takes the newest conversation over, in the task's directory."""
    waiting: int = 0
    """How many messages wait for the next run."""
    can_send: bool = False
    """Its agent can be sent a message that continues a conversation."""

    @property
    def task(self) -> Task:
        """The task itself."""
        return self.row.task


def detail(store: Store, runtime: Callable[[], Runtime], harness: Callable[[str], Harness], task_id: str) -> TaskDetail:
    """Everything about a task. Raises NoSuchTask."""

    def read(
        tx: Tx,
    ) -> tuple[Task, tuple[str | None, str | None], BesideAgent | None, Authorisation | None, str | None, list[_Tried]]:
        task = tx.tasks.get(task_id)
        runs = [
            (
                run,
                tx.outcomes.get(run.id),
                of_run(store, tx, run),
                tx.outcomes.launch(run.id),
                tuple(tx.commands.of_run(run.id)),
            )
            for run in tx.runs.of_task(task_id)
        ]
        owner = next((run for run, *_ in runs if run.id == task.run_id), None)
        authorisation, key = tx.outcomes.authorisation(task_id), tx.tasks.key_of(task_id)
        return task, came_to(tx, task), beside_agent(tx, task, owner), authorisation, key, runs

    task, (result, verdict), beside, authorisation, key, runs = store.read(read)
    waiting, given = store.read(lambda tx: _messages(tx, task_id, [run.id for run, *_ in runs]))
    run, there = next(((run, there) for run, _, there, *_ in runs if run.id == task.run_id), (None, None))
    return TaskDetail(
        row=row(task, run, runtime, there, beside)._replace(result=result, verdict=verdict),
        authorisation=authorisation,
        runs=tuple(replace(_run_detail(runtime(), harness, task, each), messages=given[each[0].id]) for each in runs),
        key=key,
        takeover=_takeover(harness, task, [(run, outcome) for run, outcome, *_ in runs]),
        waiting=waiting,
        can_send=_can_send(harness, task, [(run, outcome) for run, outcome, *_ in runs]),
    )


def _messages(tx: Tx, task_id: str, run_ids: list[str]) -> tuple[int, dict[str, tuple[int, ...]]]:
    """How many messages wait, and which ones each run was given."""
    turns = {run_id: tx.messages.turn(run_id) for run_id in run_ids}
    given = {run_id: () if turn is None else turn.numbers for run_id, turn in turns.items()}
    return len(tx.messages.waiting(task_id)), given


def _run_detail(
    runtime: Runtime,
    harness: Callable[[str], Harness],
    task: Task,
    tried: _Tried,
) -> RunDetail:
    run, outcome, there, launch, commands = tried
    executions = runtime.executions()
    afar = elsewhere(run, there, runtime)
    if afar is not None:
        directory = Path("executions") / run.execution_id
        return RunDetail(
            run=run,
            outcome=outcome,
            launch=launch,
            on=afar.name,
            directory=directory,
            stdout=directory / "stdout.log",
            stderr=directory / "stderr.log",
            complaints=None,
            commands=commands,
            known=None,
        )
    return RunDetail(
        run=run,
        outcome=outcome,
        launch=launch,
        on=None,
        directory=executions.path(run),
        stdout=executions.log(run, "stdout"),
        stderr=executions.log(run, "stderr"),
        complaints=executions.complaints(run),
        commands=commands,
        known=_known(harness, task, executions, run) if run.state is RunState.HELD else None,
    )


def _known(harness: Callable[[str], Harness], task: Task, executions: Executions, run: Run) -> Trace | None:
    from watchkeeper.app.read_output import read_trace  # noqa: PLC0415 - few tasks are held, and it brings the search for secrets along
    from watchkeeper.app.secrets import redactor_of  # noqa: PLC0415 - the same

    try:
        redactor = redactor_of(executions, run, task.spec)
        return read_trace(harness(task.spec.harness), task.spec, executions, run, run.exit, redactor).trace
    except HarnessError:
        return None  # its harness was uninstalled meanwhile


def _takeover(harness: Callable[[str], Harness], task: Task, runs: list[tuple[Run, Outcome | None]]) -> str | None:
    """Only while no agent of the task works or is about to: otherwise it would put a second agent into the tree."""
    if task.state in {TaskState.QUEUED, TaskState.RUNNING}:
        return None
    if task.state is TaskState.HELD and runs and _proof(*runs[-1]) not in {Proof.PROVEN, Proof.SWEPT}:
        return None
    sessions = [session for run, outcome in runs if (session := _session(run, outcome)) is not None]
    if not sessions:
        return None
    try:
        return harness(task.spec.harness).takeover(task.spec, sessions[-1])
    except HarnessError:
        return None  # its harness was uninstalled meanwhile


def _can_send(harness: Callable[[str], Harness], task: Task, runs: list[tuple[Run, Outcome | None]]) -> bool:
    """Whether `wk send` continues a conversation that is on record."""
    if not any(_session(run, outcome) for run, outcome in runs):
        return False
    try:
        return isinstance(harness(task.spec.harness), Resumes)
    except HarnessError:
        return False  # its harness was uninstalled meanwhile


def _proof(run: Run, outcome: Outcome | None) -> Proof | None:
    return outcome.proof if outcome is not None else run.proof


def _session(run: Run, outcome: Outcome | None) -> str | None:
    return (outcome.harness_session if outcome is not None else None) or run.harness_session
