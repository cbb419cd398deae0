"""Signals reach exactly the recorded process, or none."""

import os
import signal

import pytest
from runtimes.stage import Stage

from watchkeeper.runtimes import proc
from watchkeeper.runtimes.boot import boot_id
from watchkeeper.runtimes.proc import SignalResult


def test_fields_count_from_the_last_bracket() -> None:
    """A program may call itself anything."""
    line = "42 (a) S 1 (b)) R 7 8 9 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 987654 1 2"
    stat = proc.parse_stat(line)
    assert (stat.pid, stat.command, stat.state) == (42, "a) S 1 (b)", "R")
    assert (stat.parent, stat.group, stat.session, stat.threads, stat.start_ticks) == (7, 8, 9, 3, 987654)


@pytest.mark.parametrize("line", ["", "42", "42 (x", "42 (x) R 1 2", "x (y) " + "1 " * 30])
def test_a_broken_line_is_refused(line: str) -> None:
    """Nothing is guessed from half a line."""
    with pytest.raises(ValueError, match=r"."):
        proc.parse_stat(line)


def test_the_recorded_process_is_reached(stage: Stage) -> None:
    """Pid, start time and boot all fit."""
    child = stage.start("cat")
    assert proc.identity(child.pid) == (child.pid, child.start_ticks)
    assert proc.signal_checked(child.pid, child.start_ticks, boot_id(), signal.SIGTERM) is SignalResult.REACHED
    assert child.process.wait() == -signal.SIGTERM


@pytest.mark.parametrize(("ticks", "boot"), [(1, None), (0, "another-boot")])
def test_a_stranger_is_not_signalled(stage: Stage, ticks: int, boot: str | None) -> None:
    """A process that started at another time, or a record of another boot, names no process."""
    child = stage.start("cat")
    assert (
        proc.signal_checked(child.pid, child.start_ticks + ticks, boot or boot_id(), signal.SIGKILL)
        is SignalResult.STRANGER
    )
    assert child.process.communicate("still here")[0] == "still here"


def test_the_dead_are_gone(stage: Stage) -> None:
    """Before and after they are reaped."""
    child = stage.start("cat")
    child.process.kill()
    assert proc.has_died(child.pid, child.start_ticks, boot_id(), within_s=10)
    assert proc.identity(child.pid) is None
    child.process.wait()
    assert proc.signal_checked(child.pid, child.start_ticks, boot_id(), signal.SIGKILL) is SignalResult.GONE
    assert proc.has_died(child.pid, child.start_ticks, boot_id(), within_s=0)


def test_the_living_have_not_died(stage: Stage) -> None:
    """Looking does not harm it."""
    child = stage.start("cat")
    assert not proc.has_died(child.pid, child.start_ticks, boot_id(), within_s=0.01)
    assert proc.has_died(child.pid, child.start_ticks + 1, boot_id(), within_s=0)
    assert child.running


def test_we_and_ours_are_never_signalled() -> None:
    """Whatever a record says."""
    for pid in (0, 1, os.getpid(), os.getppid()):
        stat = proc.stat_of(pid)
        assert (
            proc.signal_checked(pid, stat.start_ticks if stat else 0, boot_id(), signal.SIGKILL)
            is SignalResult.PROTECTED
        )
