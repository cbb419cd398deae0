"""The loops whose work is that of runs: one that waits keeps no other waiting, and what it waits for is on record."""

import io
import subprocess
import sys
import threading
from typing import Any

import pytest
from app.stage import Verbs
from support.records import add, make_task, reserve
from support.waiting import wait_until

from watchkeeper.app.record import apply_run
from watchkeeper.app.steps import LOOKS, OnStep, ignore_step
from watchkeeper.app.views import live
from watchkeeper.daemon import workers as module
from watchkeeper.daemon.launch import LaunchLoop
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.settle import SettleLoop
from watchkeeper.domain.run_events import (
    ExitSeen,
)
from watchkeeper.domain.samples import EXIT
from watchkeeper.errors import DatabaseBusy


class Works:
    """Launches or settlements: those of some runs hang, those of others fail, the rest is done at once."""

    def __init__(self) -> None:
        self.on_step: OnStep = ignore_step
        self.gate = threading.Event()
        self.hang: set[str] = set()
        self.fail: dict[str, Exception] = {}
        self.done: list[str] = []
        self.hung: list[str] = []

    def __replace__(self, **changes: Any) -> "Works":
        self.on_step = changes["on_step"]
        return self

    def launch(self, run_id: str) -> None:
        if run_id in self.hang:
            self.on_step(run_id, LOOKS, "/mnt/dead")
            self.hung.append(run_id)
            assert self.gate.wait(20)
        if run_id in self.fail:
            raise self.fail[run_id]
        self.done.append(run_id)

    settle = launch


def _loop(verbs: Verbs, works: Works, monkeypatch: pytest.MonkeyPatch) -> tuple[LaunchLoop, io.StringIO]:
    monkeypatch.setattr(
        "watchkeeper.daemon.launch.replace", lambda launcher, **changes: launcher.__replace__(**changes)
    )
    out = io.StringIO()
    made = LaunchLoop(Log(verbs.clock, out), 30.0, verbs.store, verbs.clock, "m1", works, abandon_s=60.0)  # pyright: ignore[reportArgumentType] - all of a launcher that it asks
    return made, out


def _reserved(verbs: Verbs, *task_ids: str) -> None:
    for task_id in task_ids:
        verbs.store.transact("test", lambda tx, task_id=task_id: reserve(tx, add(tx, make_task(task_id))))


def test_one_that_hangs_keeps_no_other_waiting_and_is_said(verbs: Verbs, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the log, on record, and so by every command that shows the task; the reason goes when the work continues."""
    monkeypatch.setattr(module, "LATE_S", 0.0)
    _reserved(verbs, "hung", "good")
    works = Works()
    works.hang = {"hung.1"}
    loop, out = _loop(verbs, works, monkeypatch)
    assert not loop.tick().worked
    wait_until(lambda: set(loop.workers._works) == {"hung.1"} and works.hung, within_s=10, what="the good one is over")
    assert works.done == ["good.1"]
    assert loop.tick().worked
    detail = f"{LOOKS} for 0 s and more: /mnt/dead"
    assert out.getvalue().count("run waits") >= 1 and detail in out.getvalue()
    assert verbs.run("hung.1").reason == detail
    shown = live.observe(verbs.task("hung"), verbs.run("hung.1"), verbs.runtime)
    assert shown is not None and shown[:2] == ("starting", detail)
    _ = loop.tick()
    assert works.hung == ["hung.1"], "nothing is begun twice"
    assert verbs.kinds().count("run.delayed") <= 2
    works.gate.set()
    assert loop.workers.wait(20)
    assert loop.tick().worked


def test_one_that_fails_is_logged_once_and_keeps_no_other_waiting(
    verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    _reserved(verbs, "bad", "good")
    works = Works()
    works.fail = {"bad.1": OSError(5, "Input/output error")}
    loop, out = _loop(verbs, works, monkeypatch)
    _ = loop.tick()
    assert loop.workers.wait(20)
    assert loop.tick().worked
    assert set(works.done) == {"good.1"}
    assert out.getvalue().count("tick failed") == 1 and "run=bad.1" in out.getvalue()


def test_an_outage_of_the_database_is_the_loop_s_own(verbs: Verbs, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is logged once for all, and tried again with a growing wait."""
    _reserved(verbs, "bad")
    works = Works()
    works.fail = {"bad.1": DatabaseBusy("Somebody holds it.")}
    loop, _ = _loop(verbs, works, monkeypatch)
    _ = loop.tick()
    assert loop.workers.wait(20)
    with pytest.raises(DatabaseBusy):
        _ = loop.tick()


def test_one_that_cannot_be_settled_yet_is_left_in_peace_until_something_happens(
    verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its leftovers are being ended. Not a busy loop; and the news of their end is not slept over."""
    run = verbs.prepared("t1")
    verbs.store.transact("test", lambda tx: apply_run(tx, run, ExitSeen(exit=EXIT), verbs.clock.now()))
    works = Works()
    monkeypatch.setattr("watchkeeper.daemon.settle.replace", lambda settler, **changes: settler.__replace__(**changes))
    loop = SettleLoop(Log(verbs.clock, io.StringIO()), 30.0, verbs.store, verbs.clock, "m1", works, abandon_s=60.0)  # pyright: ignore[reportArgumentType] - all of a settler that it asks

    def pass_() -> int:
        _ = loop.tick()
        assert loop.workers.wait(20)
        return len(works.done)

    assert pass_() == 1
    assert pass_() == 1
    ticked = loop.tick()
    assert ticked.due_s is not None and 0.5 < ticked.due_s <= 1.0
    loop.nudge()
    assert pass_() == 2


def test_a_daemon_that_leaves_waits_for_nothing_for_ever() -> None:
    """Whatever a loop hangs in."""
    code = (
        "import threading\n"
        "from watchkeeper.daemon.own_process import end_within\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
        "end_within(0.05, lambda: print('gave up', flush=True))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, "gave up\n")
