"""`wk why`: every reason why a task is not at work."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import daemon, machines, render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.types import TASK_ID
from watchkeeper.domain.model import FINAL_TASK_STATES, Proof, TaskState
from watchkeeper.domain.repair import can_run_again
from watchkeeper.domain.wait import Wait

if TYPE_CHECKING:
    from watchkeeper.app.views.why import Why
    from watchkeeper.domain.model import Task

_HANG = 4
_HELP = f"""Tell every reason why a task waits, the most lasting first, as things stand at this moment.

The words: {", ".join(Wait)}. docs/queue.md says what to do about each.
"""


@click.command(cls=WkCommand, name="why", help=_HELP, short_help="Every reason why a task waits.")
@click.argument("task_id", metavar="ID", type=TASK_ID)
@json_option
@debug_option
@click.pass_obj
def command(call: Call, task_id: str, as_json: bool) -> None:
    """Tell every reason why a task waits; the help is `_HELP`."""
    from watchkeeper.app.views import plain, why
    from watchkeeper.cli.machines import this_machine

    store, found_id = call.find(task_id)
    found = why.why(store, this_machine(call), found_id)
    notes = _notes(call, found.task)
    if as_json:
        call.terminal.document({**plain.why(found), "seen": _meanwhile(call, found.task), "notes": notes})
        return
    for line in _lines(call, found):
        call.terminal.prose(line, hang=_HANG)
    for note in notes:
        call.terminal.note(note)


def _lines(call: Call, found: "Why") -> list[str]:
    from watchkeeper.cli.queue_view import describe

    task = found.task
    name = f"{task.id}  {render.clean(task.spec.title)}"
    lines = [call.terminal.style(name, render.BOLD)]
    if not found.reasons:
        return [*lines, *_plainly(task, machines.where(call, task), _meanwhile(call, task))]
    lines.append("It waits:" if task.state is TaskState.QUEUED else f"It {_rests(task)}:")
    lines += [f"  {describe(reason)}" for reason in found.reasons]
    return [*lines, f"  {_ways_out(call, task)}"] if task.state is TaskState.HELD else lines


def _ways_out(call: Call, task: "Task") -> str:
    """What a person can do about a held task, and how they can look first where something of it may be alive."""
    runs = () if call.store is None else call.store.read(lambda tx: tuple(tx.runs.of_task(task.id)))
    run = runs[-1] if runs else None
    ways = f"`wk retry {task.id}` starts it again; `wk stop {task.id}` ends it."
    if run is None or run.proof is Proof.PROVEN:
        return ways
    look = f" `ps -p {run.agent.pid}` shows whether its agent is there." if run.agent is not None else ""
    doubt = (
        "Nothing was found alive, but that does not prove its end."
        if run.proof is Proof.SWEPT
        else "Something of it may be alive."
    )
    return f"{doubt}{look} {ways}"


def _rests(task: "Task") -> str:
    return "is held" if task.state is TaskState.HELD else "needs you"


def _meanwhile(call: Call, task: "Task") -> str:
    """What is seen of a task that has a run: it waits for a directory, has answered and continues, makes no progress."""
    from watchkeeper.app.views import rows

    if task.run_id is None or call.store is None:
        return ""
    row = rows.one(call.store, call.runtime, task.id)
    since = row.run.stalled_since if row.run is not None else None
    return render.clean(render.lasting(row.standing.why, since, call.reading.clock.now()))


def _plainly(task: "Task", where: str, meanwhile: str) -> list[str]:
    """What is said of a task that has no reason to wait."""
    if task.state is TaskState.QUEUED:
        return ["Nothing stands in its way: it starts when a daemon looks next, after those before it in the queue."]
    if task.state is TaskState.RUNNING:
        if meanwhile:
            return [f"It does not wait for its turn: its run has begun{where}. {meanwhile}"]
        return [f"It does not wait: it is running{where}."]
    when = f" at {render.clock(task.ended_at)}" if task.ended_at is not None else ""
    ended = f"It does not wait: it {'failed' if task.state is TaskState.FAILED else f'was {task.state.value}'}{when}."
    if task.state is TaskState.DONE:
        return [ended]
    why = [f"  {render.clean(task.reason)}"] if task.reason else []
    if not can_run_again(task.spec):
        return [ended, *why, "  What it was to do could not be read: hand it over anew with `wk run`."]
    return [ended, *why, f"  `wk retry {task.id}` tries it again."]


def _notes(call: Call, task: "Task") -> list[str]:
    """What keeps it beside the reasons: there is no daemon to start it."""
    if task.state in FINAL_TASK_STATES or task.state is not TaskState.QUEUED:
        return []
    info = daemon.running(call)
    if info is None:
        return ["No daemon runs, so nothing starts. Start it: wk daemon start"]
    if info.ending:
        return [f"The daemon is ending ({info.ending}) and starts nothing more; the next one does: wk daemon start"]
    return []
