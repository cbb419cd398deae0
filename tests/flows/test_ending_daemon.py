"""Work that is handed over while a daemon ends: it is started by a successor, or it is said that it waits; never neither."""

import json
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from support.flow_words import daemon_log, let_go, working
from support.forks import start_program
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.compose import Watchkeeper
from watchkeeper.daemon import client
from watchkeeper.domain.model import TaskState
from watchkeeper.errors import Exit
from watchkeeper.ports.service import DaemonInfo, DaemonRequest


@contextmanager
def _draining(rig: Rig, how: str = "--drain") -> Generator["subprocess.Popen[bytes]"]:
    drain = start_program(
        ["daemon", "stop", how],
        env=rig.environment,
        cwd=rig.repo,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_until(lambda: f"order={how.removeprefix('--')}" in daemon_log(rig), what="the daemon heard it")
    try:
        yield drain
    finally:
        if drain.poll() is None:
            drain.kill()
        drain.communicate()


def test_a_draining_daemon_says_that_it_starts_nothing(rig: Rig) -> None:
    """To the user who hands work over, to the one who wants a daemon, and in the end to the one who drained it."""
    rig.start_daemon()
    first, _ = working(rig)
    with _draining(rig) as drain:
        added = rig.wk("run", "--", "true")
        second = added.stdout.decode().strip()
        assert "starts nothing new" in added.stderr.decode() and "wk daemon start" in added.stderr.decode()
        status = rig.wk("daemon", "status")
        assert "waits for its agents to end" in status.stdout.decode()
        assert json.loads(rig.wk("daemon", "status", "--json").stdout)["ending"] == "drain"
        started = rig.wk("daemon", "start", check=False)
        assert started.returncode == Exit.DAEMON and "ending" in started.stderr.decode()
        let_go(rig)
        out, _ = drain.communicate(timeout=30)
    assert b"1 task waits for the next daemon" in out
    assert rig.task(first).state is TaskState.DONE and rig.task(second).state is TaskState.QUEUED
    rig.wk("daemon", "start")
    assert rig.wait_resting(second, keep=False).state is TaskState.DONE


def test_a_draining_daemon_still_stops_tasks(rig: Rig) -> None:
    """At once, and without a word about starting."""
    rig.start_daemon()
    task_id, _ = working(rig)
    with _draining(rig) as drain:
        stopped = rig.wk("stop", task_id)
        assert b"stopped" in stopped.stdout and b"starts nothing" not in stopped.stderr
        drain.communicate(timeout=30)
    assert rig.daemons[-1].wait(timeout=20) == 0


def test_a_leaving_daemon_says_who_works_on(rig: Rig) -> None:
    """And that they continue; the next daemon has them again."""
    rig.settings = {"WATCHKEEPER_QUEUE_LIMIT": "1"}
    rig.start_daemon()
    first, _ = working(rig)
    second = rig.run("exit", "0")
    said = rig.wk("daemon", "stop").stdout.decode()
    assert "1 agent goes on under its shim" in said and "1 task waits" in said
    let_go(rig)
    rig.wk("daemon", "start")
    for task_id in (first, second):
        assert rig.wait_resting(task_id, keep=False).state is TaskState.DONE


@pytest.mark.parametrize("ending", [DaemonRequest.LEAVE.value])
def test_a_daemon_that_is_about_to_be_gone_is_followed_by_another(rig: Rig, ending: str) -> None:
    """It holds its lock a while longer than it listens: a command that hands work over meanwhile waits for that and starts the next."""
    rig.wk("run", "--dry-run", "--", "true")
    parts = Watchkeeper.open(rig.repo, rig.environment, writes=True)
    held, leave = threading.Event(), threading.Event()

    def old() -> None:
        me = parts.own_identity
        info = DaemonInfo(
            pid=me.pid, start_ticks=me.start_ticks, boot_id=me.boot_id, started_at=me.started_at, incarnation=1, version="0",
            wake=str(parts.wake_address), ending=ending,
        )  # fmt: skip
        with parts.daemon_host.hold(info):
            held.set()
            leave.wait(30)

    thread = threading.Thread(target=old)
    thread.start()
    assert held.wait(10)
    threading.Timer(0.5, leave.set).start()
    assert client.ensure(parts) in {client.Ensured.STARTED, client.Ensured.STARTING}
    thread.join()
    wait_until(lambda: client.running(parts), within_s=20, what="the next one runs")


def test_a_run_that_is_only_to_be_settled_is_not_said_to_go_on(rig: Rig) -> None:
    """No daemon runs, and the agent has ended: what is left to do is to settle its run."""
    rig.start_daemon()
    task_id, run = working(rig)
    rig.kill_daemon()
    let_go(rig)
    wait_until((rig.state / "executions" / run.execution_id / "gone.json").exists, what="its shim has ended")
    wait_until(lambda: not rig.carrying(run.execution_id), what="nothing of it is alive")
    said = rig.wk("daemon", "stop").stdout.decode()
    assert "1 run is not settled" in said and "under its shim" not in said, said
    told = json.loads(rig.wk("daemon", "stop", "--json").stdout)
    assert (told["working"], told["unsettled"]) == (0, 1)
    rig.wk("daemon", "start")
    assert rig.wait_resting(task_id, keep=False).state is TaskState.DONE
