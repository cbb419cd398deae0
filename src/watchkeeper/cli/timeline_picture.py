"""A timeline as a picture: bars of text for a terminal, or SVG and PNG by a plotting library."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watchkeeper.cli import render
from watchkeeper.domain.timeline import OnStep
from watchkeeper.errors import StateError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchkeeper.app.views.timeline import Timeline, TimelineRow
    from watchkeeper.domain.timeline import Span

MARKS = {
    OnStep.WAITING: "·",
    OnStep.STARTING: "-",
    OnStep.WORKING: "█",
    OnStep.ENDING: "-",
    OnStep.HELD: "?",
    OnStep.NEEDS_YOU: "!",
}
"""One letter for each; in this order the later one wins where a cell holds several."""
_STRENGTH = {
    each: rank
    for rank, each in enumerate(
        (OnStep.WAITING, OnStep.NEEDS_YOU, OnStep.ENDING, OnStep.STARTING, OnStep.HELD, OnStep.WORKING)
    )
}
_ASCII = {"█": "#", "·": "."}
_COLOURS = {
    OnStep.WAITING: "#c8c8c8",
    OnStep.STARTING: "#9ecae1",
    OnStep.WORKING: "#2b7bba",
    OnStep.ENDING: "#9ecae1",
    OnStep.HELD: "#e6a700",
    OnStep.NEEDS_YOU: "#f2cf66",
}
_FORMATS = (".svg", ".png")
_ROW_INCHES = 0.28
_DAYS, _MINUTES = timedelta(days=2), timedelta(minutes=10)
"""From these lengths on a scale shows dates, or no seconds."""


def bar(spans: "Sequence[Span]", start: datetime, end: datetime, columns: int, *, ascii_only: bool = False) -> str:
    """A line of `columns` letters for the time from `start` to `end`; a blank is a time without the task."""
    step = (end - start) / columns
    cells = [" "] * columns
    rank = [-1] * columns
    for span in spans:
        if span.end <= start or span.start >= end or not step:
            continue
        first = max(0, int((span.start - start) / step))
        last = min(columns - 1, max(first, -int(-((span.end - start) / step) // 1) - 1))
        for cell in range(first, last + 1):
            if _STRENGTH[span.on_step] > rank[cell]:
                rank[cell] = _STRENGTH[span.on_step]
                cells[cell] = MARKS[span.on_step]
    text = "".join(cells)
    return text.translate(str.maketrans(_ASCII)) if ascii_only else text


def scale(start: datetime, end: datetime, columns: int) -> str:
    """The times at both ends and in the middle, in local time."""
    middle = start + (end - start) / 2
    left, centre, right = (_short(at, end - start) for at in (start, middle, end))
    line = left.ljust(columns // 2 - len(centre) // 2) + centre
    return line.ljust(columns - len(right)) + right


def _short(at: datetime, length: timedelta) -> str:
    if length >= _DAYS:
        return at.astimezone().strftime("%m-%d")
    return at.astimezone().strftime("%H:%M" if length >= _MINUTES else "%H:%M:%S")


def save(found: "Timeline", file: Path) -> None:
    """Write the picture as SVG or PNG, by the file's ending.

    Raises:
        UsageError: another ending, or the plotting library is not installed.
        StateError: the file cannot be written.
    """
    if file.suffix.lower() not in _FORMATS:
        raise UsageError(f"'{file.name}' ends in neither .svg nor .png.", hint="Give the picture one of these endings.")
    try:
        from matplotlib import use
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(
            "A picture needs the plotting library matplotlib, which is not installed.",
            hint="Install it with `pip install 'watchkeeper[plot]'`; without -o the timeline is printed as text.",
        ) from error
    use("agg")
    figure = Figure(figsize=(10, 1.2 + _ROW_INCHES * max(1, len(found.rows))), layout="constrained")
    axes = figure.subplots()
    _draw(axes, found)
    try:
        figure.savefig(file, dpi=120)  # pyright: ignore[reportUnknownMemberType] - the library's types are partial
    except OSError as error:
        raise StateError(
            f"The picture '{file}' cannot be written: {error.strerror or error}.",
            hint="Choose a directory that you may write to and that has room.",
        ) from error


def _draw(axes: Any, found: "Timeline") -> None:  # noqa: ANN401 - the library has no types of its own
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.patches import Patch

    rows = list(reversed(found.rows))
    for at, row in enumerate(rows):
        for span in row.spans:
            start, end = max(span.start, found.start).astimezone(), span.end.astimezone()
            if end > start:
                axes.barh(at, end - start, left=start, height=0.7, color=_COLOURS[span.on_step], linewidth=0)
    axes.set_yticks(range(len(rows)), [_label(row) for row in rows], fontsize=8)
    axes.set_ylim(-0.6, max(0.6, len(rows) - 0.4))
    zone = found.start.astimezone().tzinfo
    locator = AutoDateLocator(tz=zone)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=zone))
    axes.set_title(f"At most {render.counted(found.at_once, 'agent')} at once", fontsize=9, loc="left")
    used = {span.on_step for row in rows for span in row.spans}
    handles = [Patch(color=colour, label=on_step.value) for on_step, colour in _COLOURS.items() if on_step in used]
    axes.legend(
        handles=handles, fontsize=8, ncols=len(handles) or 1, loc="lower right", bbox_to_anchor=(1, 1), frameon=False
    )
    axes.spines[["top", "right"]].set_visible(False)


def _label(row: "TimelineRow") -> str:
    """As plain text: the library would read dollar signs as a formula."""
    title = render.clean(row.task.spec.title).replace("$", r"\$")
    return f"{render.shorten(title, 36)}  {row.task.id}"
