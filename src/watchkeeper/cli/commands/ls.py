"""`wk ls`: tasks, one line each."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import daemon, render
from watchkeeper.cli.call import NOTHING_YET, Call
from watchkeeper.cli.command import Command, debug_option, json_option
from watchkeeper.domain.task_record import Task, TaskState

if TYPE_CHECKING:
    from datetime import datetime

    from watchkeeper.app.views.rows import Listing, TaskRow

_RECENT = 10
_LIMIT = 200
_MOST = 100_000


@click.command(cls=Command, name="ls", short_help="List tasks.")
@click.option("-a", "--all", "everything", is_flag=True, help="Every task, however long ago it ended.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([state.value for state in TaskState]),
    help="Only these; may be repeated.",
)
@click.option("--limit", type=click.IntRange(1, _MOST), help=f"At most so many, the newest. [default: {_LIMIT}]")
@json_option
@debug_option
@click.pass_obj
def command(call: Call, everything: bool, states: tuple[str, ...], limit: int | None, as_json: bool) -> None:
    """List tasks: what is going on, and what ended lately.

    The state is read from the evidence at this moment, also when no daemon runs. `wk show ID` has the whole story.
    """
    from watchkeeper.app.views.rows import ACTIVE_STATES, Listing, listing

    store = call.store
    wanted = tuple(TaskState(state) for state in states) or (tuple(TaskState) if everything else ACTIVE_STATES)
    most = limit if limit is not None else (_MOST if everything else _LIMIT)
    recent = 0 if states or everything else min(_RECENT, most)
    found = Listing(rows=(), left_out=0) if store is None else listing(store, call.runtime, wanted, most, recent)
    if as_json:
        from watchkeeper.app.views import plain

        call.terminal.document([plain.row(row) for row in found.rows])
    elif store is None or not (found.rows or found.left_out):
        call.terminal.say(NOTHING_YET)
    else:
        _print(call, found)
    busy = (TaskState.QUEUED, TaskState.RUNNING)
    if store is not None:
        daemon.warn_if_none(call, sum(row.task.state in busy for row in found.rows))


def _print(call: Call, found: "Listing") -> None:
    terminal, now = call.terminal, call.reading.clock.now()
    if found.rows:
        rows = [
            (row.task.id, row.standing.word, row.task.spec.harness, render.age(_since(row.task), now), _about(row, now))
            for row in found.rows
        ]
        terminal.table(("ID", "STATE", "HARNESS", "AGE", "TITLE"), rows, colour=1)
    if found.left_out:
        more = render.counted(found.left_out, "more task")
        terminal.say(
            terminal.style(f"{more}: wk ls --all" if found.rows else f"Nothing here; {more}: wk ls --all", render.DIM)
        )


def _since(task: Task) -> "datetime":
    return task.ended_at or task.created_at


def _about(row: "TaskRow", now: "datetime") -> str:
    """The title, and behind it why it is not simply running or done."""
    task, title = row.task, render.clean(row.task.spec.title)
    if task.wake_at is not None and task.state is TaskState.QUEUED:
        return (
            f"{title} (again in {render.duration((task.wake_at - now).total_seconds())}: {render.clean(task.reason)})"
        )
    why = render.clean(row.standing.why)
    return f"{title} ({why})" if why and task.state is not TaskState.DONE else title
