"""Reading what agents print: a log that grows, that may have holes, and that continues in the next run.

`pieces` is one walk through it for everybody: `wk logs`, `wk run --follow`, the demonstration. It tells where a run begins and ends, hands out bytes in which
the run's secrets are hidden, and reports when it is about to wait, so that the consumer can flush.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from watchkeeper.cli.follow import Watcher
from watchkeeper.domain.model import RESTING_TASK_STATES, Run, RunState, Task
from watchkeeper.errors import Elsewhere, NoSuchTask, NotFound

if TYPE_CHECKING:
    from watchkeeper.cli.call import Call
    from watchkeeper.ports.runtime import Executions
    from watchkeeper.ports.store import Store
    from watchkeeper.redaction.engine import RedactedStream, Redactor


@dataclass(frozen=True, slots=True, kw_only=True)
class Begins:
    """A run's output begins."""

    run: Run
    hide: Callable[[str], str] = str
    """Hides its secrets in a text. They are hidden in the bytes; a caller that joins pieces of text hides them there once more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Nothing more of this run will come, or no caller waits for it."""

    run: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """So many bytes were given up to keep the log bounded."""

    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """Everything that is there was handed out; what comes next has to be waited for."""

    task: Task


Piece = Begins | Ends | Gap | Idle | bytes


class LogReader:
    """Reads one log from where it stopped, and steps over what was dropped."""

    def __init__(self, executions: "Executions", run: Run, stream: str) -> None:
        """Start at the beginning."""
        self.run = run
        self._executions = executions
        self._stream = stream
        self._path: Path = executions.log(run, stream)
        self._offset = 0

    @property
    def directory(self) -> Path:
        """Where the log is."""
        return self._path.parent

    def read(self) -> Iterator[bytes | Gap]:
        """Everything that is new; nothing if the log is not there (yet, or any more). Raises NotFound if it cannot be read."""
        try:
            with self._executions.open_log(self.run, self._stream) as log:
                for piece in log.read(self._offset) if log is not None else ():
                    if isinstance(piece, bytes):
                        self._offset += len(piece)
                        yield piece
                    else:
                        yield Gap(size=piece.end - self._offset)
                        self._offset = piece.end
        except OSError as error:
            raise NotFound(
                f"The output of run {self.run.number} cannot be read: {error.strerror or error}.",
                hint=f"`ls -l {self.directory}` shows what is there.",
            ) from error


def pieces(
    call: "Call",
    store: "Store",
    task_id: str,
    *,
    number: int | None = None,
    stream: str = "stdout",
    follow: bool = False,
) -> Generator[Piece]:
    """The output of one run, or while following of the newest and all later ones, until the task rests.

    Raises:
        NotFound: the task has no such run, or its output cannot be read.
        NoSuchTask: it was removed.
        Elsewhere: it is on another machine.
    """
    executions = call.runtime().executions()
    here = call.runtime().machine
    reader: LogReader | None = None
    hiding: _Hiding | None = None
    ended = False
    with Watcher([call.reading.state.path]) as watcher:
        mark = store.changed(0)[1]
        task, runs = _load(store, task_id)
        while True:
            chosen = _chosen(runs, number, reader.run if reader is not None else None, ended=ended)
            if chosen is not None and (reader is None or reader.run.id != chosen.id):
                if here and chosen.machine != here:
                    raise _elsewhere(store, chosen)
                reader, ended = LogReader(executions, chosen, stream), False
                watcher.add(reader.directory)
                hiding = _Hiding(call, store, executions, task, chosen)
                yield Begins(run=chosen, hide=hiding.text)
            if reader is not None and hiding is not None and chosen is not None and not ended:
                # Whether it is settled was read before the log is, so that nothing can be written behind our back.
                yield from hiding.hide(reader.read())
                if not follow or chosen.state is RunState.SETTLED:
                    yield from hiding.rest()
                    yield Ends(run=chosen)
                    ended = True
                    if number is None and follow:
                        continue
            over = ended and (number is not None or not follow)
            if over or ((ended or reader is None) and (not follow or task.state in RESTING_TASK_STATES)):
                return
            yield Idle(task=task)
            watcher.wait()
            changed, mark = store.changed(mark)
            if changed:
                try:
                    task, runs = _load(store, task_id)
                except NoSuchTask as error:
                    raise removed(task_id) from error


def removed(task_id: str) -> NoSuchTask:
    """How a task is described that was removed during a wait for it."""
    return NoSuchTask(f"Task {task_id} was removed meanwhile.")


def _elsewhere(store: "Store", run: Run) -> Elsewhere:
    machine = store.read(lambda tx: tx.machines.get(run.machine))
    name = machine.name if machine is not None and machine.name else run.machine
    return Elsewhere(
        f"The output of run {run.number} is on {name}: executions/{run.execution_id}/stdout.log in its state directory.",
        hint=f"Type `wk logs {run.task_id}` there.",
    )


class _Hiding:
    """Hides secrets in the pieces of one log; what is held back comes with the next piece, or at the end.

    Which secrets the run has is read when there is output: before that its execution directory may not be written yet.
    """

    def __init__(self, call: "Call", store: "Store", executions: "Executions", task: Task, run: Run) -> None:
        self._call = call
        self._store = store
        self._executions = executions
        self._task = task
        self._run = run
        self._lost = False

    @cached_property
    def _redactor(self) -> "Redactor":
        from watchkeeper.app.secrets import redactor_of

        run = self._store.read(lambda tx: tx.runs.get(self._run.id))
        if self._executions.environment(run) is None:
            detail = "cannot be read: only what looks like a secret is hidden in its output."
            self._call.terminal.note(f"The environment of run {run.number} {detail}")
        return redactor_of(self._executions, run, self._task.spec)

    @cached_property
    def _stream(self) -> "RedactedStream":
        return self._redactor.stream()

    def text(self, text: str) -> str:
        """A text made of the pieces, without secrets."""
        return self._redactor.text(text)

    def hide(self, pieces: Iterator[bytes | Gap]) -> Iterator[bytes | Gap]:
        """The pieces, without secrets."""
        for piece in pieces:
            if isinstance(piece, Gap):
                yield from self.rest(cut=True)
                yield piece
                self._lost = True
                continue
            shown = self._stream.resume(piece) if self._lost else self._stream.feed(piece)
            self._lost = False
            if shown:
                yield shown

    def rest(self, *, cut: bool = False) -> Iterator[bytes]:
        """What is held back; `cut`: before bytes that were lost, which may have been the end of a secret."""
        if "_stream" in self.__dict__ and (shown := self._stream.finish(cut=cut)):
            yield shown


def _chosen(runs: list[Run], number: int | None, current: Run | None, *, ended: bool) -> Run | None:
    """Which run's output is to be read: the one that was asked for, the one being read, or the next."""
    if current is None:
        if number is None:
            return runs[-1] if runs else None
        found = next((run for run in runs if run.number == number), None)
        if found is None:
            had = f"it has had {len(runs)}" if runs else "it has had none yet"
            msg = f"There is no run {number} of this task: {had}."
            raise NotFound(msg, hint="`wk show` lists its runs.")
        return found
    wanted = current.number + 1 if ended and number is None else current.number
    return next((run for run in runs if run.number == wanted), None)


def _load(store: "Store", task_id: str) -> tuple[Task, list[Run]]:
    return store.read(lambda tx: (tx.tasks.get(task_id), tx.runs.of_task(task_id)))
