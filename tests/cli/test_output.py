"""Reading and showing what agents print."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from watchkeeper.cli.output import Begins, Ends, Gap, Idle, LogReader, Piece
from watchkeeper.cli.printers import Lines, Printer, RawPrinter, pretty
from watchkeeper.cli.render import Terminal
from watchkeeper.domain.model import Run
from watchkeeper.ports.harness import EventKind, StreamEvent
from watchkeeper.ports.runtime import Log
from watchkeeper.runtimes.kept_log import open_kept

if TYPE_CHECKING:
    from watchkeeper.ports.runtime import Executions


@dataclass
class Kept:
    """Executions whose log is one file, with holes that are put on record when one looks."""

    path: Path
    holes: list[tuple[int, int]] = field(default_factory=list)
    on_look: Callable[[], None] = lambda: None

    def log(self, run: Run, stream: str) -> Path:
        return self.path

    def open_log(self, run: Run, stream: str) -> AbstractContextManager[Log | None]:
        return open_kept(self.path, self.dropped)

    def dropped(self) -> list[tuple[int, int]]:
        found = list(self.holes)
        self.on_look()
        return found


def _run(number: int = 1) -> Run:
    return cast("Run", type("AnyRun", (), {"number": number, "id": f"t.{number}"})())


def _reader(kept: Kept) -> LogReader:
    return LogReader(cast("Executions", kept), _run(), "stdout")


def test_a_log_is_read_on_from_where_it_stopped(tmp_path: Path) -> None:
    """And one that is not there yet is empty."""
    path = tmp_path / "stdout.log"
    reader = _reader(Kept(path))
    assert list(reader.read()) == []
    path.write_bytes(b"one\n")
    assert list(reader.read()) == [b"one\n"]
    with path.open("ab") as log:
        log.write(b"two\n")
    assert list(reader.read()) == [b"two\n"]
    assert list(reader.read()) == []


def test_what_was_dropped_is_one_gap(tmp_path: Path) -> None:
    """Its zeros are never shown."""
    path = tmp_path / "stdout.log"
    path.write_bytes(b"begin\n" + b"\0" * 100 + b"end\n")
    assert list(_reader(Kept(path, [(6, 106)])).read()) == [b"begin\n", Gap(size=100), b"end\n"]


def test_a_hole_that_is_punched_while_we_read_is_not_taken_for_output(tmp_path: Path) -> None:
    """It is on record before it is punched, so a second look at the record finds it."""
    path = tmp_path / "stdout.log"
    path.write_bytes(b"begin\nmiddle\nend\n")
    kept = Kept(path)

    def punch() -> None:
        kept.holes = [(6, 13)]
        path.write_bytes(b"begin\n" + b"\0" * 7 + b"end\n")
        kept.on_look = lambda: None

    kept.on_look = punch
    assert list(_reader(kept).read()) == [b"begin\n", Gap(size=7), b"end\n"]


class Worded:
    """A reader of lines `KIND TEXT` and `@HOUR TEXT`."""

    def __init__(self) -> None:
        self._lines = Lines()

    def feed(self, data: bytes) -> list[StreamEvent]:
        return [self._event(event.text) for event in self._lines.feed(data)]

    def _event(self, line: str) -> StreamEvent:
        word, _, text = line.partition(" ")
        if word.startswith("@"):
            return StreamEvent(kind=EventKind.TEXT, text=text, at=datetime(2026, 1, 1, int(word[1:]), tzinfo=UTC))
        return StreamEvent(kind=EventKind(word), text=text)


def _printed(pieces: list[Piece], **options: Any) -> list[tuple[str, int]]:
    shown: list[tuple[str, int]] = []
    printer = Printer(lambda event, number: shown.append((event.text, number)), Worded, **options)  # pyright: ignore[reportArgumentType]
    for piece in pieces:
        printer.take(piece)
    printer.flush()
    return shown


def test_events_are_shown_as_they_come(tmp_path: Path) -> None:
    """However the bytes were cut, and an unfinished last line at the end."""
    pieces: list[Piece] = [Begins(run=_run()), b"text o", b"ne\ntool tw", b"o", Ends(run=_run())]
    assert _printed(pieces) == [("one", 1), ("two", 1)]


def test_the_newest_only() -> None:
    """Of what was there when we began; what comes after is shown."""
    pieces: list[Piece] = [Begins(run=_run()), b"text a\ntext b\ntext c\n", Idle(task=cast("Any", None)), b"text d\n"]
    assert _printed(pieces, tail=1) == [("c", 1), ("d", 1)]
    assert _printed(pieces, tail=0) == [("d", 1)]


def test_since_a_time() -> None:
    """An event without a time stands with the one before it."""
    later = datetime(2026, 1, 1, 12, tzinfo=UTC)
    pieces: list[Piece] = [Begins(run=_run()), b"@10 early\ntool by it\n@13 late\ntool by that\n"]
    assert _printed(pieces, since=later) == [("late", 1), ("by that", 1)]


def test_each_later_run_has_a_heading() -> None:
    """The first needs none."""
    headings: list[str] = []
    pieces: list[Piece] = [Begins(run=_run(2)), b"text a\n", Ends(run=_run(2)), Begins(run=_run(3)), b"text b\n"]
    assert _printed(pieces, heading=headings.append) == [("a", 2), ("b", 3)]
    assert headings == ["── run 3 ──"]


def test_a_gap_is_one_line_in_either_form() -> None:
    """With how much is missing."""
    pieces: list[Piece] = [Begins(run=_run()), b"text a\n", Gap(size=2_500_000), b"text b\n"]
    assert _printed(pieces) == [("a", 1), ("2.5 MB of output are no longer kept", 1), ("b", 1)]
    written: list[bytes] = []
    raw = RawPrinter(written.append)
    for piece in pieces:
        raw.take(piece)
    assert b"".join(written) == "text a\n\n… 2.5 MB of output are no longer kept …\ntext b\n".encode()


@pytest.mark.parametrize(("tail", "shown"), [(2, b"b\nc"), (0, b""), (9, b"a\nb\nc")])
def test_the_newest_lines_raw(tail: int, shown: bytes) -> None:
    """The last one may be unfinished."""
    written: list[bytes] = []
    raw = RawPrinter(written.append, tail=tail)
    for piece in (Begins(run=_run()), b"a\nb", b"\nc", Ends(run=_run())):
        raw.take(piece)
    assert b"".join(written) == shown


def test_pretty_output_sends_no_control_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """Of any kind of event; a result that only repeats what was said is left out."""
    emit = pretty(Terminal({}))
    for kind in EventKind:
        emit(StreamEvent(kind=kind, text=f"{kind} \x1b[2J\x07\nsecond \x9b31m"), 1)
    emit(StreamEvent(kind=EventKind.TEXT, text="Done."), 1)
    emit(StreamEvent(kind=EventKind.RESULT, text="Done."), 1)
    out = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\x9b"} & set(out)
    assert out.count("Done.") == 1
    assert "▸ tool ␛[2J␇ second" in out


def test_a_long_answer_of_a_tool_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """After a few lines."""
    pretty(Terminal({}))(StreamEvent(kind=EventKind.TOOL_RESULT, text="1\n2\n3\n4\n5"), 1)
    assert capsys.readouterr().out == "  ↳ 1\n  ↳ 2\n  ↳ 3\n  ↳ … 2 more lines\n"
