"""`wk timeline`: who ran when, and who waited why."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from watchkeeper.cli import render
from watchkeeper.cli.call import NOTHING_YET, Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.types import SINCE, until_now

if TYPE_CHECKING:
    from watchkeeper.app.views.timeline import Timeline

_LIMIT = 40
_MOST = 10_000
_ALL = 1 << 31
_WIDE = 100
"""Columns where no person looks."""
_LEGEND = "█ working  - starting or ending  · waiting  ! needs you  ? held"


@click.command(cls=WkCommand, name="timeline", short_help="Who ran when, and who waited.")
@click.option(
    "--since",
    metavar="DUR|TIME",
    type=SINCE,
    default="12h",
    show_default=True,
    help="From when on: 2d ago, 22:00, today, or a date and time.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, _MOST),
    help=f"Show at most the newest N tasks. [default: {_LIMIT}; all with --json]",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Draw the picture into this .svg or .png file. Needs `pip install 'watchkeeper[plot]'`.",
)
@json_option
@debug_option
@click.pass_obj
def command(call: Call, since: str, limit: int | None, output: Path | None, as_json: bool) -> None:
    """Draw one bar for each task: when it waited, when its agent worked, and where it needs you.

    --json has every span with its times, and the reason of each wait.
    """
    from watchkeeper.app.views.timeline import timeline

    store, now = call.store, call.reading.clock.now()
    if store is None:
        if as_json:
            call.terminal.document({"start": None, "end": None, "at_once": 0, "left_out": 0, "tasks": []})
        else:
            call.terminal.prose(NOTHING_YET)
        return
    found = timeline(store, until_now(since, now) or now, now, limit or (_ALL if as_json else _LIMIT))
    if output is not None:
        from watchkeeper.cli.timeline_picture import save

        file = call.named(output)
        save(found, file)
        call.terminal.note(f"Drew {render.counted(len(found.rows), 'task')} into {render.clean(str(file))}.")
    if as_json:
        call.terminal.document(_plain(found))
    elif output is None:
        _print(call, found)


def _print(call: Call, found: "Timeline") -> None:
    from watchkeeper.cli.timeline_picture import bar, scale

    terminal = call.terminal
    if not found.rows:
        terminal.prose("No task ran or waited in that time.")
        return
    width = terminal.columns or _WIDE
    ids = max(len(row.task.id) for row in found.rows)
    titles = min(24, max(len(render.clean(row.task.spec.title)) for row in found.rows), (width - ids) // 3)
    columns = width - ids - titles - 4
    terminal.say(" " * (ids + titles + 4) + terminal.style(scale(found.start, found.end, columns), render.DIM))
    for row in found.rows:
        title = render.shorten(render.clean(row.task.spec.title), titles)
        pad = " " * (titles - render.width(title))
        line = bar(row.spans, found.start, found.end, columns, ascii_only=not terminal.has_blocks)
        terminal.say(f"{row.task.id:<{ids}}  {title}{pad}  {line}".rstrip())
    legend = _LEGEND if terminal.has_blocks else _LEGEND.replace("█", "#").replace("·", ".")
    terminal.say(terminal.style(legend, render.DIM))
    more = f"; {render.counted(found.left_out, 'older task')} left out: --limit" if found.left_out else ""
    terminal.prose(f"At most {render.counted(found.at_once, 'agent')} at once{more}.")


def _plain(found: "Timeline") -> dict[str, object]:
    from watchkeeper.app.views.plain import time

    return {
        "start": time(found.start),
        "end": time(found.end),
        "at_once": found.at_once,
        "left_out": found.left_out,
        "tasks": [
            {
                "id": row.task.id,
                "title": row.task.spec.title,
                "state": row.task.state.value,
                "spans": [
                    {
                        "on_step": span.on_step.value,
                        "start": time(span.start),
                        "end": time(span.end),
                        "why": span.why or None,
                        "run": span.run,
                    }
                    for span in row.spans
                ],
            }
            for row in found.rows
        ],
    }
