"""The daemon's log is an interface."""

import errno
import io
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from watchkeeper.daemon.log import MESSAGES, Log

PAGE = Path(__file__).parents[2] / "docs" / "daemon.md"


class _Clock:
    def now(self) -> datetime:
        return datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    def recorded(self, at: datetime) -> datetime:
        return at

    def boottime_s(self) -> float:
        return 0.0


def _log() -> tuple[Log, io.StringIO]:
    out = io.StringIO()
    return Log(_Clock(), out), out


def test_a_line_is_a_time_a_level_a_message_and_pairs() -> None:
    log, out = _log()
    log.info("claimed", task="k3f9", fence=7, kind=None)
    assert out.getvalue() == "2026-01-02T03:04:05.000+00:00 info claimed: task=k3f9 fence=7\n"


def test_a_value_never_breaks_the_line() -> None:
    log, out = _log()
    log.info("held", detail='two\nlines and "quotes"\x1b[31m')
    assert out.getvalue().count("\n") == 1
    assert '"two\\nlines' in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_a_problem_names_its_error() -> None:
    log, out = _log()
    log.problem("tick failed", OSError(28, "No space left on device"), loop="settle")
    assert "problem tick failed: loop=settle error=OSError" in out.getvalue()


class _Full(io.StringIO):
    """A file on a disk that is full until it is said not to be."""

    full = True

    def write(self, text: str, /) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)


def test_a_log_that_cannot_be_written_raises_nothing() -> None:
    """What is missing is counted, and said once when there is room again."""
    out = _Full()
    log = Log(_Clock(), out, debug=True)
    log.info("claimed", task="k3f9")
    log.problem("tick failed", OSError(28, "No space left on device"), loop="settle")
    out.full = False
    log.info("claimed", task="k3fa")
    log.info("claimed", task="k3fb")
    messages = [line.split(" ", 2)[2] for line in out.getvalue().splitlines()]
    assert messages == ["missing: lines=2", "claimed: task=k3fa", "claimed: task=k3fb"]


def test_a_message_that_is_not_listed_is_refused() -> None:
    with pytest.raises(KeyError):
        _log()[0].info("something else")


def test_the_page_lists_every_message() -> None:
    rows = dict(
        re.findall(
            r"^\| `([a-z ]+)` \| (.+) \|$", PAGE.read_text(encoding="utf-8").split("## Its log")[1], re.MULTILINE
        )
    )
    assert rows == dict(MESSAGES)
