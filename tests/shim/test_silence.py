"""An agent that prints nothing for longer than its task allows is ended; time that was not its own does not count."""

import os
from pathlib import Path
from unittest.mock import patch

import pytest
from shim.stage import Bench, python

from watchkeeper.shim import quiet
from watchkeeper.shim.quiet import Quiet

# Silence is time without output, so these agents must let time pass; the tests themselves wait for their ends.
MUTE = "import time\nprint('up', flush=True)\ntime.sleep(300)"
TALKS = """
import sys, time
for number in range(30):
    print(number, file=sys.stderr if number % 2 else sys.stdout, flush=True)
    time.sleep(0.1)
"""
"""Three seconds of words on one stream or the other."""


def test_a_silent_agent_is_ended(bench: Bench) -> None:
    """As with a deadline: TERM, recorded as the reason."""
    execution = bench.execution(python(MUTE), silence_s=0.4)
    assert execution.run() == 0
    record = execution.record("exit.json")
    assert (record["reason"], record["status"]) == ("silence", 15)
    assert record["elapsed_s"] >= 0.4
    assert execution.record("stop.json")["how"] == "silence"
    assert execution.survivors() == []


def test_an_agent_that_never_prints_anything_is_ended_too(bench: Bench) -> None:
    execution = bench.execution(["/bin/sleep", "300"], silence_s=0.3)
    assert execution.run() == 0
    assert execution.record("exit.json")["reason"] == "silence"


def test_an_agent_that_talks_is_left_alone(bench: Bench) -> None:
    """On standard output or on standard error, for longer than it may be silent."""
    execution = bench.execution(python(TALKS), silence_s=1.5)
    assert execution.run() == 0
    assert execution.record("exit.json")["reason"] == "exited"


@pytest.fixture
def watched(tmp_path: Path):
    """Looks at two logs, on a clock of the test's own: the time of each look, and whether it is over then."""
    fd = os.open(tmp_path, os.O_RDONLY)
    now = [1000.0]
    with patch.object(quiet.time, "monotonic", lambda: now[0]):
        watch = Quiet(fd, 60.0)

        def look(after_s: float) -> bool:
            now[0] += after_s
            return watch.is_over()

        yield look
    os.close(fd)


def test_it_is_over_when_enough_looks_have_seen_nothing(watched) -> None:
    assert [watched(1.0) for _ in range(59)] == [False] * 59
    assert watched(1.0)


def test_growth_of_either_log_begins_anew(watched, tmp_path: Path) -> None:
    for name in ("stdout.log", "stderr.log"):
        assert not any(watched(1.0) for _ in range(59))
        with (tmp_path / name).open("ab") as log:
            log.write(b"x")
        assert not watched(1.0)


@pytest.mark.parametrize("gap_s", [61.0, 3600.0, 86400.0])
def test_a_gap_is_no_silence(watched, gap_s: float) -> None:
    """A machine that slept, or a shim that was frozen together with its agent, has not watched it be silent."""
    assert not any(watched(1.0) for _ in range(30))
    assert not watched(gap_s)
    assert not any(watched(1.0) for _ in range(20))
