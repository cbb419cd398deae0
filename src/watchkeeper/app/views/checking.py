"""The command that a run is at, before its agent or after it: its word and sentence in lists."""

from watchkeeper.app.views.standing import BesideAgent
from watchkeeper.domain.run_record import Run, RunState
from watchkeeper.domain.side_command import CommandKind, next_of, shown_line
from watchkeeper.domain.task_record import Task
from watchkeeper.ports.store import Tx

_WORDS = {CommandKind.CHECK: "checking", CommandKind.SETUP: "setting up", CommandKind.TEARDOWN: "tearing down"}


def at_command(tx: Tx, task: Task, run: Run) -> BesideAgent | None:
    """The command that has its turn; None: none has."""
    if run.state not in {RunState.RESERVED, RunState.ENDED}:
        return None
    commands = tx.commands.of_run(run.id)
    command = next_of(commands)
    if command is None:
        return None
    if task.stop is not None:
        return BesideAgent("stopping", f"{task.stop.by} told it to {task.stop.how.value}.")
    of = sum(one.kind is command.kind for one in commands)
    return BesideAgent(_WORDS[command.kind], f"{command.number} of {of}: {shown_line(command.line)}")
