"""Find what a run changed, for showing it: the difference between the files before it and as it left them, or as they are now if it has not ended."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from watchkeeper.app.beside import with_others
from watchkeeper.app.views.whereabouts import Whereabouts, elsewhere, of_run
from watchkeeper.domain.model import Changes, Outcome, Run, Task
from watchkeeper.errors import Elsewhere, NotFound, Refused
from watchkeeper.ports.diffs import Diffs, Kept, LiveFiles
from watchkeeper.ports.runtime import Runtime
from watchkeeper.ports.store import Store, Tx

_Tried = tuple[Run, Outcome | None, Whereabouts | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRequest:
    """Whose changes."""

    task_id: str
    run: int | None = None
    """The number of the run; None: the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDiff:
    """What a run changed."""

    task: Task
    run: Run
    outcome: Outcome | None
    """None: it has not ended."""
    on: str | None
    """The name of the other machine that keeps the files; None: this one."""
    others: tuple[int, ...]
    """The numbers of the task's other runs that changed something."""
    so_far: Changes | None = None
    """What a run that has not ended changed so far."""

    @property
    def changes(self) -> Changes | None:
        """What it changed, or changed so far."""
        return self.so_far if self.outcome is None else self.outcome.changes

    def kept(self, diffs: Diffs) -> Kept:
        """The files to compare.

        Raises:
            Refused: they were not kept.
            NotFound: they are not there any more.
            Elsewhere: they are on another machine.
        """
        changes, which = self.changes, f"What run {self.run.number} of task {self.task.id} changed"
        if changes is None or not changes.known:
            why = changes.why_unknown if changes is not None else self._why_not_looked_at()
            raise Refused(f"{which} is unknown: {why}", hint=f"`wk show {self.task.id}` has its outcome.")
        names = f"`wk diff {self.task.id} --run {self.run.number} --name-only` lists the files."
        if changes.base is None or changes.tip is None or changes.repository is None:
            why = changes.not_kept or _why_not_kept(in_checkout=changes.in_checkout)
            raise Refused(f"{which} cannot be shown as a patch: {why}", hint=names)
        if self.on is not None:
            raise Elsewhere(f"{which} is kept on machine {self.on}.", hint="Run `wk diff` there.")
        kept = Kept(changes.repository, changes.base, changes.tip)
        if not diffs.is_there(kept):
            raise NotFound(f"{which} is not in {changes.repository} any more.", hint=names)
        return kept

    def _why_not_looked_at(self) -> str:
        return "no agent ran." if self.run.agent is None else "it was given up before its changes were looked at."


def _why_not_kept(*, in_checkout: bool) -> str:
    if not in_checkout:
        return "its directory is not under git, so no file was kept."
    return "an older version ran it and kept no files."


def find(store: Store, runtime: Callable[[], Runtime], request: DiffRequest) -> RunDiff:
    """What a run that has ended changed, as its outcome has it.

    Raises:
        NoSuchTask: there is no such task.
        NotFound: it has no such run, or none that has ended.
        Refused: that run has not ended.
    """
    return _ended(*_read(store, request.task_id), runtime, request.run)


@contextmanager
def opened(store: Store, runtime: Callable[[], Runtime], live: LiveFiles, request: DiffRequest) -> Generator[RunDiff]:
    """What a run changed; of one whose agent was started and has not ended, what it changed so far, to be looked at in the body.

    Raises:
        NoSuchTask: there is no such task.
        NotFound: it has no such run, or none whose agent was started.
        Refused: that run's agent was not started.
        Elsewhere: it works on another machine.
    """
    task, runs = _read(store, request.task_id)
    run, outcome, there = runs[-1] if runs else (None, None, None)
    if run is None or outcome is not None or run.agent is None or request.run not in {None, run.number}:
        yield _ended(task, runs, runtime, request.run)
        return
    afar = elsewhere(run, there, runtime())
    if afar is not None:
        raise Elsewhere(
            f"Run {run.number} of task {task.id} works on machine {afar.name}.", hint="Run `wk diff` there."
        )
    with live.so_far(task.spec.cwd, runtime().executions().before(run)) as changes:
        yield RunDiff(
            task=task,
            run=run,
            outcome=None,
            on=None,
            others=_others(run, runs),
            so_far=store.read(lambda tx: with_others(tx, run, changes)),
        )


def _read(store: Store, task_id: str) -> tuple[Task, list[_Tried]]:
    def read(tx: Tx) -> tuple[Task, list[_Tried]]:
        task = tx.tasks.get(task_id)
        return task, [(run, tx.outcomes.get(run.id), of_run(store, tx, run)) for run in tx.runs.of_task(task.id)]

    return store.read(read)


def _ended(task: Task, runs: list[_Tried], runtime: Callable[[], Runtime], number: int | None) -> RunDiff:
    run, outcome, there = _chosen(task, runs, number)
    afar = elsewhere(run, there, runtime())
    return RunDiff(
        task=task, run=run, outcome=outcome, on=None if afar is None else afar.name, others=_others(run, runs)
    )


def _others(run: Run, runs: list[_Tried]) -> tuple[int, ...]:
    return tuple(other.number for other, came_to, _ in runs if other.id != run.id and _changed(came_to))


def _chosen(task: Task, runs: list[_Tried], number: int | None) -> tuple[Run, Outcome, Whereabouts | None]:
    for run, outcome, there in reversed(runs):
        if number == run.number and outcome is None:
            raise Refused(
                f"Run {number} of task {task.id} has not ended yet, so its changes are not known.",
                hint=f"`wk logs -f {task.id}` follows it.",
            )
        if number in {None, run.number} and outcome is not None:
            return run, outcome, there
    if number is not None and runs:
        raise NotFound(f"Task {task.id} has no run {number}.", hint=f"Its newest is run {runs[-1][0].number}.")
    raise NotFound(f"No run of task {task.id} has ended yet.", hint=f"`wk show {task.id}` says where it stands.")


def _changed(outcome: Outcome | None) -> bool:
    return (
        outcome is not None and outcome.changes is not None and bool(outcome.changes.files or outcome.changes.commits)
    )
