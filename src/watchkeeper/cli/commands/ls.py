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
_SHOWN = {"needs_input": "in need of you"}
_WIDEST = 200
"""Columns of a line where no person looks: a reason can be long, and a program that wants all of it asks for JSON."""


_LABEL = "Only those with this label, however long ago they ended; may be repeated."
_OWN = frozenset({"dependency", "checkout busy"})
_TIMES = frozenset({"not before", "retry at", "quota until"})
"""What a task waits for by itself, in the words of `Wait`, which a list of tasks that do not wait need not know."""


def _complete(_ctx: click.Context, _param: click.Parameter, beginning: str) -> list[str]:
    """Labels that start like this. A list does not wait for the kinds of arguments that others have."""
    from watchkeeper.cli.completing import labels

    return labels(beginning, _RECENT)


@click.command(cls=Command, name="ls", short_help="List tasks.")
@click.option("-a", "--all", "everything", is_flag=True, help="Every task, however long ago it ended.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([state.value for state in TaskState]),
    help="Only these; may be repeated.",
)
@click.option("--label", "labels", metavar="NAME", multiple=True, shell_complete=_complete, help=_LABEL)
@click.option("--limit", type=click.IntRange(1, _MOST), help=f"At most so many, the newest. [default: {_LIMIT}]")
@json_option
@debug_option
@click.pass_obj
def command(
    call: Call, everything: bool, states: tuple[str, ...], labels: tuple[str, ...], limit: int | None, as_json: bool
) -> None:
    """List tasks: what is going on, and what ended lately.

    The state is read from the evidence at this moment, also when no daemon runs. `wk show ID` has the whole story.
    """
    from watchkeeper.app.views.rows import ACTIVE_STATES, Listing, labelled, listing

    store = call.store
    wanted = tuple(TaskState(state) for state in states) or (tuple(TaskState) if everything else ACTIVE_STATES)
    most = limit if limit is not None else (_MOST if everything else _LIMIT)
    recent = 0 if states or everything else min(_RECENT, most)
    if store is None:
        found = Listing(rows=(), left_out=0)
    elif labels:
        found = labelled(store, call.runtime, wanted if states else tuple(TaskState), most, labels)
    else:
        found = listing(store, call.runtime, wanted, most, recent)
    busy = sum(row.task.state in {TaskState.QUEUED, TaskState.RUNNING} for row in found.rows)
    acts = not busy or daemon.running(call) is not None
    if as_json:
        from watchkeeper.app.views import plain

        call.terminal.document([plain.row(row) for row in found.rows])
    elif labels and not found.rows:
        call.terminal.say(f"No task is labelled {' and '.join(render.clean(name)[:_WIDEST] for name in labels)}.")
    elif store is None or not (found.rows or found.left_out):
        call.terminal.say(NOTHING_YET)
    else:
        _print(call, found, states, acts=acts)
    if not acts:
        daemon.say_none(call, busy)


def _print(call: Call, found: "Listing", states: tuple[str, ...], *, acts: bool) -> None:
    terminal, now = call.terminal, call.reading.clock.now()
    if found.rows:
        most = call.reading.settings.queue_limit
        limit = f"limit, {found.running} of {most} agents are at work" if found.running >= most else ""
        rows = [
            (
                row.task.id,
                row.standing.word,
                row.task.spec.harness,
                render.age(_since(row.task), now),
                _about(row, now, limit, acts=acts),
            )
            for row in found.rows
        ]
        terminal.table(("ID", "STATE", "HARNESS", "AGE", "TITLE"), rows, colour=1, at_most=_WIDEST)
    if found.left_out:
        more = render.counted(found.left_out, "more task" if found.rows else "task")
        if found.rows:
            says = f"{more}: wk ls --all"
        elif states:
            says = f"No task is {' or '.join(_SHOWN.get(state, state) for state in states)}; {more} in other states: wk ls --all"
        else:
            says = f"Nothing is going on; {more}: wk ls --all"
        terminal.say(terminal.style(says, render.DIM))


def _since(task: Task) -> "datetime":
    return task.ended_at or task.created_at


def _about(row: "TaskRow", now: "datetime", limit: str, *, acts: bool) -> str:
    """The title, and behind it why it is not simply running or done."""
    task, title = row.task, render.clean(row.task.spec.title)
    title = f"{title} (pinned)" if task.pinned_at is not None else title
    if task.state is TaskState.QUEUED:
        waits = _waits(row, now, limit, acts=acts)
        return f"{title} (waits: {waits})" if waits else title
    why = render.clean(row.standing.why)
    return f"{title} ({why})" if why and task.state is not TaskState.DONE else title


def _waits(row: "TaskRow", now: "datetime", limit: str, *, acts: bool) -> str:
    """The first reason why a queued task waits. What closes its lane holds only while a daemon runs."""
    known, task = row.brief, row.task
    left_s = 0.0 if task.wake_at is None else (task.wake_at - now).total_seconds()
    says = render.clean(known.says) if known is not None else ""
    if known is not None and known.wait in {*_TIMES, "harness missing"} and left_s > 0:
        return f"{known.wait}, in {render.duration(left_s)}{f': {says}' if says else ''}"
    if known is not None and known.wait in _OWN:
        return f"{known.wait}{f', {says}' if says else ''}"
    if not acts:
        return "no daemon runs"
    return limit if known is None or known.wait in {"limit", *_TIMES} else known.wait
