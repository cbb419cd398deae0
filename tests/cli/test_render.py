"""Text for people: safe, aligned, cut; and the small languages of arguments."""

import io
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.cli import render
from watchkeeper.cli.errors import ours
from watchkeeper.cli.render import Terminal, clean, clean_text, shorten, width
from watchkeeper.errors import WatchkeeperError

_BAD = {chr(code) for code in (*range(32), *range(127, 160))} | set(
    "\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\ufeff"
)


@given(st.text())
def test_nothing_that_steers_a_terminal_survives(text: str) -> None:
    """Whatever the text is: one line stays one line, and several lines hold nothing but line ends."""
    assert not _BAD & set(clean(text))
    assert not (_BAD - {"\n"}) & set(clean_text(text))


def test_readable_text_stays_as_it_is() -> None:
    """Letters of every script and joined emoji."""
    for text in ("plain", "naïve ☃ 日本語", "👩‍💻 works", "→ · …"):
        assert clean(text) == text


def test_control_codes_become_pictures() -> None:
    """So that one sees that something was there."""
    assert clean("a\x1b[31mb\x00\x7f") == "a␛[31mb␀␡"
    assert clean("a\r\n b\tc") == "a b c"
    assert clean("a\u202eb\x9b") == "a\ufffdb\ufffd"


@given(st.text(), st.integers(1, 40))
def test_shortened_text_fits(text: str, columns: int) -> None:
    """In columns, not in letters."""
    assert width(shorten(clean(text), columns)) <= columns


def test_wide_letters_count_twice() -> None:
    """As terminals draw them."""
    assert width("日本") == 4
    assert width("e\u0301") == 1
    assert shorten("日本語テキスト", 7) == "日本語…"
    assert shorten("abc", 3) == "abc"


@pytest.mark.parametrize(
    ("seconds", "detail"), [(0.2, "0s"), (59, "59s"), (61, "1m 01s"), (3600, "1h 00m"), (90061, "1d 1h"), (-5, "0s")]
)
def test_durations(seconds: float, detail: str) -> None:
    """Two units at most; a clock that jumped back gives no negative age."""
    assert render.duration(seconds) == detail


def test_what_took_no_second_took_time() -> None:
    """Nothing is done in 0s."""
    assert [render.elapsed(seconds) for seconds in (0.0, 0.99, 1.0, 61.0)] == ["<1s", "<1s", "1s", "1m 01s"]


def test_ages() -> None:
    """One unit."""
    now = datetime(2026, 1, 2, tzinfo=UTC)
    for seconds, detail in ((5, "5s"), (119, "1m"), (7199, "119m"), (7200, "2h"), (200_000, "2d"), (-9, "0s")):
        assert render.age(now - timedelta(seconds=seconds), now) == detail


def _terminal(**environ: str) -> tuple[Terminal, io.StringIO]:
    out = io.StringIO()
    return Terminal(environ, out, io.StringIO(), io.StringIO()), out


def test_a_table_is_aligned_and_uncut_where_no_person_looks() -> None:
    """So that `grep` and `awk` find what they look for."""
    terminal, out = _terminal()
    terminal.table(("ID", "TITLE"), [("a", "x" * 300), ("日本", "y")], colour=0)
    lines = out.getvalue().splitlines()
    assert lines[1] == "a     " + "x" * 300
    assert lines[2] == "日本  y"
    assert "\x1b" not in out.getvalue()
    terminal, out = _terminal()
    terminal.table(("ID", "TITLE"), [("a", "x" * 300)], at_most=200)
    assert len(out.getvalue().splitlines()[1]) == 200


def test_colour_only_on_a_terminal_that_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR and a dumb terminal are respected."""
    monkeypatch.setattr(render, "_is_terminal", lambda _: True)
    for environ, coloured in (
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({"NO_COLOR": ""}, True),
    ):
        terminal, _ = _terminal(**environ)
        assert (terminal.word("failed") != "failed") is coloured


def test_a_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last column is cut."""
    monkeypatch.setattr(render, "_is_terminal", lambda _: True)
    monkeypatch.setenv("COLUMNS", "50")
    terminal, out = _terminal(NO_COLOR="1")
    terminal.table(("ID", "TITLE"), [("abc", "x" * 300)])
    assert width(out.getvalue().splitlines()[1]) == 50


def test_long_lines_are_broken_between_words_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a word that is longer than the line is left whole, because it may be a path."""
    text = f"rights      {'word ' * 20}{'x' * 60}"
    terminal, out = _terminal()
    terminal.prose(text, hang=12)
    assert out.getvalue() == text + "\n"
    monkeypatch.setattr(render, "_is_terminal", lambda _: True)
    monkeypatch.setenv("COLUMNS", "50")
    terminal, out = _terminal()
    terminal.prose(text, hang=12)
    first, *others, last = out.getvalue().splitlines()
    assert first.startswith("rights      word") and len(first) <= 50
    assert all(line.startswith(" " * 12 + "word") and len(line) <= 50 for line in others)
    assert last == " " * 12 + "x" * 60


def test_each_line_is_broken_by_itself_and_colours_use_no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fits stays whole, whatever stands before it; colour codes are not counted."""
    monkeypatch.setattr(render, "_is_terminal", lambda _: True)
    monkeypatch.setenv("COLUMNS", "40")
    terminal, out = _terminal()
    red = terminal.style("word", render.RED, render.BOLD)
    terminal.prose(f"{'word ' * 7}{red}\n  one `wk retry abc` more\n{red} {'word ' * 9}end", hang=4)
    first, second, third, fourth = out.getvalue().splitlines()
    assert width(first) == 39 and second == "  one `wk retry abc` more"
    assert width(third) == 39 and fourth == "    word word end"


def test_what_follows_of_an_error_stands_in_like_its_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "_is_terminal", lambda _: True)
    monkeypatch.setenv("COLUMNS", "40")
    err = io.StringIO()
    terminal = Terminal({}, io.StringIO(), err, io.StringIO())
    _ = ours(WatchkeeperError("word " * 12 + "end.", hint="hint " * 10), terminal, as_json=False)
    lines = err.getvalue().splitlines()
    assert width(lines[0]) > 35 and all(width(line) <= 40 for line in lines)
    assert all(line.startswith("    ") for line in lines[1:])
