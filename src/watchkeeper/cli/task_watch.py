"""Staying with a task until it rests: its events, or one line that says how far it is."""

import time
from contextlib import closing
from typing import TYPE_CHECKING

from watchkeeper.cli import daemon, render
from watchkeeper.cli.errors import Detached
from watchkeeper.cli.output import removed

if TYPE_CHECKING:
    from collections.abc import Callable

    from watchkeeper.app.views.standstill import Standstill
    from watchkeeper.cli.call import Call
    from watchkeeper.domain.model import Task
    from watchkeeper.ports.harness import StreamEvent
    from watchkeeper.ports.store import Store


def stay(
    call: "Call",
    store: "Store",
    task: "Task",
    emit: "Callable[[StreamEvent, int], None] | None",
    idle: "Callable[[], None] | None" = None,
) -> "tuple[Task, Standstill | None]":
    """Stay with a task until it rests, or nothing more happens to it unless a person acts; returns it as it is then, and why nothing more happens.

    `emit` prints its events; without it only the one line of progress is shown, on a terminal. `idle` is called before each wait.

    Raises:
        Detached: Ctrl-C.
        NoSuchTask: it was removed.
    """
    try:
        if emit is None and not call.terminal.stderr_is_terminal:
            from watchkeeper.cli.task_rest import wait_for_rest

            rest = wait_for_rest(call, store, [task])
            if rest.removed:
                raise removed(task.id)
            return rest.tasks[task.id], rest.still.get(task.id)
        return _stay(call, store, task, emit or _nothing, idle)
    except KeyboardInterrupt:
        raise Detached(f"Detached; {task.id} goes on. Look: wk logs -f {task.id} · stop: wk stop {task.id}") from None


def _stay(
    call: "Call",
    store: "Store",
    task: "Task",
    emit: "Callable[[StreamEvent, int], None]",
    idle: "Callable[[], None] | None",
) -> "tuple[Task, Standstill | None]":
    from watchkeeper.cli.output import Idle, pieces
    from watchkeeper.cli.printers import Printer, make_reader
    from watchkeeper.cli.stderr import print_stderr
    from watchkeeper.cli.task_rest import Outlook

    began = time.monotonic()
    printer = Printer(emit, make_reader(call, task), heading=call.terminal.note)
    daemon_watcher, outlook, still = daemon.DaemonWatcher(call), Outlook(call, store), None
    with closing(pieces(call, store, task.id, follow=True)) as following:
        for piece in following:
            printer.take(piece)
            if isinstance(piece, Idle):
                if idle is not None:
                    idle()
                if found := outlook.standstills([piece.task]):
                    still = found[0]
                    break
                daemon_watcher.check()
                how_long = render.duration(time.monotonic() - began)
                state = piece.task.state.value
                call.terminal.status(f"{task.id} {state} · {render.counted(printer.steps, 'step')} · {how_long}")
    call.terminal.clear_status()
    if emit is not _nothing:
        print_stderr(call, store, task.id, emit=emit, heading=call.terminal.note)
    return store.read(lambda tx: tx.tasks.get(task.id)), still


def _nothing(_event: "StreamEvent", _number: int) -> None:
    """Print nothing."""
