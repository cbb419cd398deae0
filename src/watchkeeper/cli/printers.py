"""Showing what agents print: as events in words for people, as JSON lines, or as the bytes themselves."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from watchkeeper.cli import render
from watchkeeper.cli.output import Begins, Ends, Gap, Idle, Piece
from watchkeeper.errors import HarnessError
from watchkeeper.ports.harness import EventKind, StreamEvent, StreamReader
from watchkeeper.redaction.engine import may_be_cut

if TYPE_CHECKING:
    from watchkeeper.cli.call import Call
    from watchkeeper.cli.render import Terminal
    from watchkeeper.domain.model import Task

_RESULT_LINES = 3
_MARKS: dict[EventKind, tuple[str, str]] = {
    EventKind.SESSION: ("·", render.DIM),
    EventKind.TOOL: ("▸", render.CYAN),
    EventKind.TOOL_RESULT: ("  ↳", render.DIM),
    EventKind.RETRY: ("↻", render.YELLOW),
    EventKind.NOTE: ("·", render.DIM),
    EventKind.RESULT: ("■", render.GREEN),
    EventKind.STDERR: ("!", render.RED),
}


class Lines:
    """A reader for what has no events: every line is a text."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, data: bytes) -> list[StreamEvent]:
        """Take more and return the complete lines."""
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = b"".join([*self._rest, lines[0]])
            self._rest.clear()
        self._rest.append(rest)
        return [
            StreamEvent(kind=EventKind.TEXT, text=text)
            for line in lines
            if (text := line.decode("utf-8", "replace").rstrip("\r"))
        ]


class Printer:
    """Consumes pieces and prints their events, all of them or the newest `tail`, from `since` on."""

    def __init__(
        self,
        emit: Callable[[StreamEvent, int], None],
        reader: Callable[[], "StreamReader | Lines"],
        *,
        tail: int | None = None,
        since: datetime | None = None,
        heading: Callable[[str], None] | None = None,
    ) -> None:
        """`reader` makes a new reader for each run; `heading` is called with every run but the first."""
        self._emit = emit
        self._make_reader = reader
        self._since = since
        self._heading = heading
        self._held: deque[tuple[StreamEvent, int]] | None = deque(maxlen=tail) if tail is not None else None
        self._reader = reader()
        self._number = 0
        self._last_at: datetime | None = None
        self._open_line = False
        self._hide: Callable[[str], str] = str
        self.steps = 0
        self.stamped = False

    def take(self, piece: Piece) -> None:
        """Take the next piece."""
        match piece:
            case Begins(run=run, hide=hide):
                self._hide = hide
                if self._number and self._heading is not None:
                    self._heading(f"── run {run.number} ──")
                self._number = run.number
                self._reader = self._make_reader()
                self._last_at = None
                self._open_line = False
            case Gap(size=size):
                self._feed(b"\n")
                self._show(StreamEvent(kind=EventKind.NOTE, text=describe_gap(size)))
            case Ends():
                if self._open_line:
                    self._feed(b"\n")
                self.flush()
            case Idle():
                self.flush()
            case bytes():
                self._feed(piece)
                self._open_line = not piece.endswith(b"\n")

    def flush(self) -> None:
        """Print what was held back to find the newest."""
        held, self._held = self._held, None
        for event, number in held or ():
            self._emit(event, number)

    def _feed(self, data: bytes) -> None:
        events = self._reader.feed(data)
        # A reader may have joined what came in several pieces, so secrets are hidden once more: in all texts at once, because most hold none.
        whole = "".join(f"{event.text}\n" for event in events if not may_be_cut(event.text))
        none_hidden = self._hide(whole) == whole
        for event in events:
            if event.kind in {EventKind.TEXT, EventKind.TOOL}:
                self.steps += 1
            clean = none_hidden and not may_be_cut(event.text)
            self._show(event if clean else replace(event, text=self._hide(event.text)))

    def _show(self, event: StreamEvent) -> None:
        self._last_at = event.at or self._last_at
        self.stamped = self.stamped or event.at is not None
        if self._since is not None and self._last_at is not None and self._last_at < self._since:
            return
        if self._held is not None:
            self._held.append((event, self._number))
        else:
            self._emit(event, self._number)


class RawPrinter:
    """Consumes pieces and writes the bytes, all of them or the newest `tail` lines; a gap is one line."""

    def __init__(self, write: Callable[[bytes], None], *, tail: int | None = None) -> None:
        """Write with `write`."""
        self._write = write
        self._held: deque[bytes] | None = deque(maxlen=tail) if tail is not None else None
        self._rest: list[bytes] = []

    def take(self, piece: Piece) -> None:
        """Take the next piece."""
        match piece:
            case Begins():
                pass
            case Gap(size=size):
                self._put(f"\n… {describe_gap(size)} …\n".encode())
            case Ends() | Idle():
                self.flush()
            case bytes():
                self._put(piece)

    def flush(self) -> None:
        """Write what was held back."""
        if self._held is None:
            return
        held, self._held = self._held, None
        held.extend(b"".join(self._rest).splitlines(keepends=True))
        self._write(b"".join(held))

    def _put(self, data: bytes) -> None:
        if self._held is None:
            self._write(data)
            return
        self._rest.append(data)
        if b"\n" in data:
            lines = b"".join(self._rest).splitlines(keepends=True)
            self._rest = [] if lines[-1].endswith(b"\n") else [lines.pop()]
            self._held.extend(lines)


def describe_gap(size: int) -> str:
    """What stands for bytes that are no longer kept."""
    return f"{render.size(size)} of output are no longer kept"


def pretty(terminal: "Terminal") -> Callable[[StreamEvent, int], None]:
    """Print events in words for people. A result that only repeats the last text is left out."""
    last_text = ""

    def emit(event: StreamEvent, _number: int) -> None:
        nonlocal last_text
        if event.kind is EventKind.RESULT and event.text.strip() == last_text.strip():
            return
        last_text = event.text if event.kind is EventKind.TEXT else last_text
        stamp = terminal.style(event.at.astimezone().strftime("%H:%M:%S "), render.DIM) if event.at is not None else ""
        for line in _lines(event):
            mark, colour = _MARKS.get(event.kind, ("", ""))
            text = f"{mark} {line}" if mark else line
            terminal.say(stamp + (terminal.style(text, colour) if colour else text))

    return emit


def _lines(event: StreamEvent) -> Iterable[str]:
    """The lines of an event, safe to print; what a tool answered is cut, and a tool that answered nothing has no line."""
    lines = render.clean_text(event.text).strip("\n").splitlines()
    if event.kind is EventKind.TEXT:
        return lines or [""]
    if event.kind is EventKind.TOOL_RESULT and len(lines) > _RESULT_LINES:
        return [*lines[:_RESULT_LINES], f"… {render.counted(len(lines) - _RESULT_LINES, 'more line')}"]
    return lines if event.kind is EventKind.TOOL_RESULT else [render.clean(event.text)]


def make_reader(call: "Call", task: "Task", stream: str = "stdout") -> "Callable[[], StreamReader | Lines]":
    """A maker of readers; the lines themselves if the harness is not installed any more."""
    if stream == "stderr":
        return Lines
    try:
        harness = call.reading.harness(task.spec.harness)
    except HarnessError as error:
        call.terminal.note(f"{error} Its output is shown as it is.")
        return Lines
    return lambda: harness.reader(task.spec)
