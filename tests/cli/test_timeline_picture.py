"""The pictures of a timeline."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.records import make_task
from support.zones import in_zone

from watchkeeper.app.views.timeline import Timeline, TimelineRow
from watchkeeper.cli.timeline_picture import bar, save, scale
from watchkeeper.domain.timeline import OnStep, Span
from watchkeeper.errors import StateError, UsageError

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def _span(on_step: OnStep, start: float, end: float) -> Span:
    return Span(on_step=on_step, start=START + timedelta(minutes=start), end=START + timedelta(minutes=end))


def _end(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def test_a_bar_has_one_letter_for_each_part_of_the_time() -> None:
    """A blank is a time without the task."""
    life = [_span(OnStep.WAITING, 1, 3), _span(OnStep.WORKING, 3, 6), _span(OnStep.NEEDS_YOU, 6, 9)]
    assert bar(life, START, _end(10), 10) == " ··███!!! "
    assert bar(life, START, _end(10), 10, ascii_only=True) == " ..###!!! "


def test_work_is_never_hidden_by_what_shares_its_cell() -> None:
    """However short it was."""
    life = [_span(OnStep.WAITING, 0, 4.4), _span(OnStep.WORKING, 4.4, 4.6), _span(OnStep.ENDING, 4.6, 5)]
    assert bar(life, START, _end(10), 10) == "····█     "


def test_what_is_outside_of_the_time_is_cut() -> None:
    """On both sides."""
    assert bar([_span(OnStep.WORKING, -5, 20)], START, _end(10), 5) == "█████"
    assert bar([_span(OnStep.WORKING, -5, 0)], START, _end(10), 5) == "     "
    assert bar([_span(OnStep.WORKING, 0, 1)], START, START, 5) == "     "


def test_a_scale_fits_its_columns() -> None:
    """Seconds for minutes, minutes for hours, dates for days; in local time."""
    with in_zone("Europe/Berlin"):
        assert scale(START, _end(2), 40) == "13:00:00        13:01:00        13:02:00"
        assert scale(START, _end(60), 30) == "13:00        13:30       14:00"
        assert scale(START, _end(60 * 24 * 4), 30) == "03-01        03-03       03-05"


def _timeline() -> Timeline:
    rows = (
        TimelineRow(task=make_task("t1"), spans=(_span(OnStep.WAITING, 0, 1), _span(OnStep.WORKING, 1, 5))),
        TimelineRow(task=make_task("t2"), spans=(_span(OnStep.WORKING, 2, 9),)),
    )
    return Timeline(start=START, end=_end(10), rows=rows, at_once=2)


def test_a_picture_is_drawn_as_svg_and_as_png(tmp_path: Path) -> None:
    """By the ending of the file."""
    save(_timeline(), tmp_path / "t.svg")
    save(_timeline(), tmp_path / "t.PNG")
    assert "<svg" in (tmp_path / "t.svg").read_text()
    assert (tmp_path / "t.PNG").read_bytes().startswith(b"\x89PNG")


def test_an_empty_time_can_be_drawn(tmp_path: Path) -> None:
    """It has no rows."""
    save(Timeline(start=START, end=START, rows=(), at_once=0), tmp_path / "t.svg")
    assert (tmp_path / "t.svg").exists()


def test_a_picture_that_cannot_be_made_is_said_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another ending, a directory that is not there, a library that is not installed."""
    with pytest.raises(UsageError, match=r"neither \.svg nor \.png"):
        save(_timeline(), tmp_path / "t.gif")
    with pytest.raises(StateError, match="cannot be written"):
        save(_timeline(), tmp_path / "no" / "t.svg")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match="matplotlib, which is not installed"):
        save(_timeline(), tmp_path / "t.svg")
