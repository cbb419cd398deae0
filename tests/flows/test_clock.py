"""A daemon whose clock is 45 days ahead removes nothing that is minutes old."""

import json
from pathlib import Path

import pytest
from support.flow_words import daemon_log, healthy
from support.rig import Rig
from support.waiting import wait_until

CLOCKS = """
import datetime, json, pathlib
from watchkeeper.runtimes.system import SystemClock
FILE = pathlib.Path(__file__).with_name("days.json")
now, boottime_s = SystemClock.now, SystemClock.boottime_s
SystemClock.now = lambda self: now(self) + datetime.timedelta(days=json.loads(FILE.read_text())["wall"])
SystemClock.boottime_s = lambda self: boottime_s(self) + 86400 * json.loads(FILE.read_text())["boot"]
"""
"""Loaded by every process of the rig before anything else."""


class _Clocks:
    def __init__(self, rig: Rig) -> None:
        rig.source = rig.root / "clocks"
        rig.source.mkdir()
        (rig.source / "sitecustomize.py").write_text(CLOCKS, encoding="utf-8")
        self._file = rig.source / "days.json"
        self.set(wall=0, boot=0)

    def set(self, *, wall: int, boot: int) -> None:
        """How many days the clocks of the rig are ahead."""
        self._file.with_suffix(".new").write_text(json.dumps({"wall": wall, "boot": boot}), encoding="utf-8")
        self._file.with_suffix(".new").rename(self._file)


@pytest.fixture
def clocks(rig: Rig) -> _Clocks:
    return _Clocks(rig)


def _logs(rig: Rig) -> list[Path]:
    return list((rig.state / "executions").iterdir())


def test_a_clock_that_jumped_takes_no_log(rig: Rig, clocks: _Clocks) -> None:
    """Not by the daemon, not by hand; said in its log, by `doctor` and by `prune`; taken when a person trusts the clock."""
    healthy(rig)
    rig.wk("daemon", "stop")
    clocks.set(wall=45, boot=0)
    rig.start_daemon()
    healthy(rig)
    pruned = rig.wk("prune", "--older-than", "1d", "--json")
    assert json.loads(pruned.stdout)["executions"] == [] and json.loads(pruned.stdout)["tasks"] == []
    assert len(_logs(rig)) == 2 and len(rig.tasks()) == 2
    assert b"45" in pruned.stderr and b"--trust-clock" in pruned.stderr
    doctor = rig.wk("doctor", check=False).stdout.decode()
    assert "went forward by" in doctor and "wk prune --trust-clock" in doctor
    dry = json.loads(rig.wk("prune", "--trust-clock", "--dry-run", "--json").stdout)
    assert len(dry["executions"]) == 1 and len(_logs(rig)) == 2
    trusted = json.loads(rig.wk("prune", "--trust-clock", "--json").stdout)
    assert len(trusted["executions"]) == 1 and trusted["jumps"] == [] and len(_logs(rig)) == 1
    assert "went forward" not in rig.wk("doctor", check=False).stdout.decode()


def test_time_that_truly_passed_counts(rig: Rig, clocks: _Clocks) -> None:
    """The machine was up all the time: the clock that counts since boot saw it pass."""
    healthy(rig)
    rig.wk("daemon", "stop")
    clocks.set(wall=45, boot=45)
    rig.start_daemon()
    wait_until(lambda: not _logs(rig), what="it is removed")
    assert "clock changed" not in daemon_log(rig)
