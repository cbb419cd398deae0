"""`wk report`: what happened since a time."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import daemon, render, worktree_words
from watchkeeper.cli.call import NOTHING_YET, Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.costs import words
from watchkeeper.cli.next_command import next_command
from watchkeeper.cli.types import SINCE, until_now
from watchkeeper.domain.task_record import TaskState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchkeeper.app.views.report import Report, ReportRow

_SHOWN = 20
"""Tasks of one heading that text shows; --json has them all."""
_HANG = 4


@click.command(cls=WkCommand, name="report", short_help="What happened since yesterday.")
@click.option(
    "--since",
    metavar="DUR|TIME",
    type=SINCE,
    default="yesterday",
    show_default=True,
    help="From when on: 8h ago, 22:00, today, or a date and time.",
)
@json_option
@debug_option
@click.pass_obj
def command(call: Call, since: str, as_json: bool) -> None:
    """Say what happened since a time: what needs you, what failed, what is done, and what it cost.

    Each task comes with the command that you most likely want next. What needs you is listed however old it is.
    """
    from watchkeeper.app.views.report import report

    store = call.store
    now = call.reading.clock.now()
    start = until_now(since, now) or now
    if store is None:
        if as_json:
            call.terminal.document(_nothing(call, start))
        else:
            call.terminal.prose(NOTHING_YET)
        return
    found = report(store, call.runtime, start, now)
    if as_json:
        from watchkeeper.app.views import plain

        call.terminal.document(plain.report(found))
    else:
        _print(call, found)
    daemon.warn_if_none(call, len(found.active))


def _nothing(call: Call, since: "object") -> object:
    from datetime import datetime

    from watchkeeper.app.views import plain
    from watchkeeper.app.views.report import Report
    from watchkeeper.domain.cost import CostTotal

    start = since if isinstance(since, datetime) else call.reading.clock.now()
    nothing = Report(
        since=start,
        now=call.reading.clock.now(),
        done=(),
        needs_you=(),
        failed=(),
        stopped=(),
        active=(),
        removed=0,
        cost=CostTotal(),
    )
    return plain.report(nothing)


def _print(call: Call, found: "Report") -> None:
    terminal = call.terminal
    terminal.prose(f"Since {render.clock(found.since)}: {_counts(found)}.")
    for heading, rows in (
        ("needs you", found.needs_you),
        ("failed", found.failed),
        ("done", found.done),
        ("stopped", found.stopped),
        ("running or queued", found.active),
    ):
        _print_rows(call, heading, rows)
    terminal.say()
    terminal.prose(f"cost  {words(found.cost)}")
    if found.removed:
        terminal.prose(f"{render.counted(found.removed, 'task')} of that time {_were(found.removed)} removed since.")


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _counts(found: "Report") -> str:
    counts = (
        (len(found.needs_you), "needs you" if len(found.needs_you) == 1 else "need you"),
        (len(found.failed), "failed"),
        (len(found.done), "done"),
        (len(found.stopped), "stopped"),
        (len(found.active), "running or queued"),
    )
    said = ", ".join(f"{count} {word}" for count, word in counts if count)
    return said or "nothing happened"


def _print_rows(call: Call, heading: str, rows: "Sequence[ReportRow]") -> None:
    if not rows:
        return
    terminal = call.terminal
    terminal.say()
    terminal.say(terminal.style(heading.upper(), render.BOLD))
    shown = rows[-_SHOWN:]
    if len(rows) > len(shown):
        terminal.say(terminal.style(f"  … {len(rows) - len(shown)} older ones: wk report --json", render.DIM))
    for each in shown:
        for line in _lines(each):
            terminal.prose(line, hang=_HANG)


def _lines(each: "ReportRow") -> "Sequence[str]":
    task = each.row.task
    title = render.clean(task.spec.title)
    cost = f" · {words(each.cost)}" if each.cost.runs else ""
    lines = [f"  {task.id}  {title}{cost}"]
    if task.state is TaskState.DONE:
        text = render.clean_text(each.text).strip()
        about = text.splitlines()[-1] if text else ""
    else:
        about = render.clean(each.row.standing.why)
    if about:
        lines.append(f"    {render.shorten(about, 160)}")
    if merge := worktree_words.merge(task.spec.worktree):
        lines.append(f"    {merge}")
    lines.append(f"    {next_command(task, each.row.result)}")
    return lines
