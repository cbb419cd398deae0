"""`wk env`: which variables a task has. Names, never values."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.types import TASK_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from watchkeeper.app.views.environment import TaskEnvironment

_LABEL = 12


@click.command(cls=WkCommand, name="env", short_help="Which variables a task has; names, never values.")
@click.argument("task_id", metavar="ID", type=TASK_ID)
@json_option
@debug_option
@click.pass_obj
def command(call: Call, task_id: str, as_json: bool) -> None:
    """Show which variables are kept for a task's agent, and which are missing: names, never values.

    They are taken from the shell that handed the task over, by an allow-list and by --env NAME, and kept in one file
    that only you can read until the task ends. The values of those that are hidden appear as [redacted NAME] in
    everything that wk shows or stores of what the agent prints.
    """
    from watchkeeper.app.accounts import of_task
    from watchkeeper.app.views.environment import environment_of, plain

    store, found_id = call.find(task_id)
    task, account = store.read(lambda tx: (task := tx.tasks.get(found_id), of_task(tx, task)))
    keys = account.names if account is not None else ()
    seen = environment_of(call.reading.environments, task, call.reading.state.known_node() or "", keys)
    path = str(call.reading.state.environments / f"{task.environment_id}.json")
    if as_json:
        call.terminal.document(plain(seen, path))
        return
    machines = {machine.id: machine.name for machine in store.read(lambda tx: tx.machines.all())}
    for line in _lines(seen, path, machines.get(task.environment_machine) or task.environment_machine):
        call.terminal.prose(line, hang=_LABEL)


def _lines(seen: "TaskEnvironment", path: str, machine: str) -> "Iterator[str]":
    from watchkeeper.app.views.environment import Hiding, Kept

    task = seen.task
    yield f"{task.id}  {render.clean(task.spec.title)}"
    match seen.kept:
        case Kept.KEPT:
            yield _field("kept", f"until the task ends, in {path}, which only you can read")
        case Kept.DELETED:
            yield _field(
                "kept", f"no longer: it was deleted when the task ended; wk retry {task.id} takes this shell's"
            )
        case Kept.MISSING:
            yield _field("kept", f"not on this machine; wk retry {task.id} takes this shell's")
        case Kept.ELSEWHERE:
            yield _field("kept", f"on the machine {render.clean(machine)}, where it was handed over")
        case Kept.DAMAGED:
            yield _field("kept", f"in {path}, which cannot be read; wk retry {task.id} takes this shell's")
    yield from _names("asked for", task.spec.environment_names)
    yield from _names("missing", seen.missing)
    for label, hiding in (("hidden", Hiding.HIDDEN), ("shown", Hiding.SHOWN), ("too short", Hiding.TOO_SHORT)):
        yield from _names(label, (variable.name for variable in seen.variables if variable.hiding is hiding))
    if any(variable.hiding is Hiding.TOO_SHORT for variable in seen.variables):
        yield _field("", "values of fewer than 8 characters are not hidden: everything else would be, too")


def _names(label: str, names: "Iterable[str]") -> "Iterator[str]":
    text = ", ".join(names)
    if text:
        yield _field(label, render.clean(text))


def _field(label: str, text: str) -> str:
    return f"{label:<{_LABEL}}{text}".rstrip()
