"""What a run printed on standard error: shown where it failed, and otherwise said to be there."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from watchkeeper.cli.output import pieces
from watchkeeper.cli.printers import Lines, Printer
from watchkeeper.cli.render import counted
from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.ports.harness import EventKind, StreamEvent

if TYPE_CHECKING:
    from watchkeeper.cli.call import Call
    from watchkeeper.domain.model import Outcome, Run
    from watchkeeper.ports.runtime import Executions
    from watchkeeper.ports.store import Store, Tx

STDERR_LINES = 50
"""Lines on standard error that are shown of a run that failed."""

_NO_FAILURE = frozenset({None, FailureKind.ASKED, FailureKind.STOPPED})


def print_stderr(
    call: "Call",
    store: "Store",
    task_id: str,
    number: int | None = None,
    emit: Callable[[StreamEvent, int], None] | None = None,
    heading: Callable[[str], None] | None = None,
) -> None:
    """Print a note of what the newest run, or run `number`, printed on standard error: it may matter most.

    Of a run that failed the last lines are shown with `emit`, under a heading; of any other, and without `emit`, it is said how many there are.
    """

    def read(tx: "Tx") -> "tuple[Run | None, Outcome | None]":
        run = next((run for run in reversed(tx.runs.of_task(task_id)) if number in {None, run.number}), None)
        return run, None if run is None else tx.outcomes.get(run.id)

    run, outcome = store.read(read)
    lines = 0 if run is None else count_lines(call.runtime().executions(), run)
    if run is None or not lines:
        return
    which = "" if number is None else f" --run {number}"
    more = f"wk logs --stderr{which} {task_id}"
    if emit is None or outcome is None or outcome.kind in _NO_FAILURE:
        call.terminal.note(f"{counted(lines, 'line')} on standard error: {more}")
        return
    if heading is not None:
        heading("── standard error ──")
        if lines > STDERR_LINES:
            heading(f"… the last {STDERR_LINES} of {lines} lines; all of them: {more}")
    _show_stderr(call, store, task_id, run, emit)


def _show_stderr(
    call: "Call", store: "Store", task_id: str, run: "Run", emit: Callable[[StreamEvent, int], None]
) -> None:
    def as_stderr(event: StreamEvent, number: int) -> None:
        emit(replace(event, kind=EventKind.STDERR), number)

    printer = Printer(as_stderr, Lines, tail=STDERR_LINES)
    for piece in pieces(call, store, task_id, number=run.number, stream="stderr"):
        printer.take(piece)
    printer.flush()


def count_lines(executions: "Executions", run: "Run") -> int:
    """Lines of what is kept; none if it cannot be read, which `wk logs --stderr` says."""
    count, last = 0, b"\n"
    try:
        with executions.open_log(run, "stderr") as log:
            for piece in log.read() if log is not None else ():
                if isinstance(piece, bytes):
                    count += piece.count(b"\n")
                    last = piece[-1:]
    except OSError:
        return 0
    return count + (last != b"\n")
