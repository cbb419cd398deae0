"""Nothing that the system refuses ends a daemon, and what it was ordered is done when it can be."""

import json
import resource
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.flow_words import daemon_log, healthy, let_go, working
from support.forks import start_program
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.model import TaskState
from watchkeeper.errors import Exit


@contextmanager
def _stopping(rig: Rig, how: str) -> Generator["subprocess.Popen[bytes]"]:
    stop = start_program(
        ["daemon", "stop", how],
        env=rig.environment, cwd=rig.repo, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield stop
    finally:
        if stop.poll() is None:
            stop.kill()
        stop.communicate()


def _trouble(rig: Rig) -> str:
    return str(json.loads((rig.state / "daemon.json").read_bytes())["trouble"])


@pytest.mark.parametrize(("how", "state"), [("--interrupt", TaskState.NEEDS_INPUT), ("--drain", TaskState.DONE)])
def test_an_order_is_obeyed_when_the_database_is_back(rig: Rig, how: str, state: TaskState) -> None:
    """Until then the daemon lives, says what it waits for, and tries again."""
    daemon = rig.start_daemon()
    task_id, _ = working(rig)
    (rig.state / "wk.db").rename(rig.root / "wk.db")
    with _stopping(rig, how) as stop:
        wait_until(lambda: _trouble(rig), within_s=20, what="it says what it waits for")
        assert daemon.poll() is None and stop.poll() is None
        assert b"tried again" in rig.wk("daemon", "status").stdout
        (rig.root / "wk.db").rename(rig.state / "wk.db")
        if how == "--drain":
            let_go(rig)
        out, err = stop.communicate(timeout=40)
        assert stop.returncode == 0, out + err
    assert daemon.wait(timeout=20) == 0
    assert rig.task(task_id).state is state and not rig.survivors()


@pytest.mark.parametrize("how", ["--drain", "--interrupt"])
def test_a_command_does_not_call_it_done_while_agents_work(rig: Rig, how: str) -> None:
    """The daemon died before it had ended them, or none runs at all: the exit code says that they continue."""
    rig.start_daemon()
    working(rig)
    with _stopping(rig, "--drain") as stop:
        wait_until(lambda: "order=drain" in daemon_log(rig), what="the daemon heard it")
        rig.kill_daemon()
        out, _ = stop.communicate(timeout=20)
        assert stop.returncode == Exit.DAEMON and b"1 agent goes on" in out
    again = rig.wk("daemon", "stop", how, check=False)
    assert again.returncode == Exit.DAEMON and b"1 agent goes on" in again.stdout
    assert rig.wk("daemon", "stop").returncode == 0


def test_a_daemon_without_descriptors_lives(rig: Rig) -> None:
    """It says so, and continues when it has some again."""
    daemon = rig.start_daemon()
    task_id, _ = working(rig)
    was = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (3, was[1]))
    let_go(rig)
    queued = rig.run("exit", "0", options=("--shared",))
    wait_until(lambda: "Too many open files" in daemon_log(rig), within_s=20, what="it is felt")
    assert daemon.poll() is None
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, was)
    for each in (task_id, queued):
        assert rig.wait_resting(each, keep=False).state is TaskState.DONE
    assert daemon.poll() is None


def test_a_log_on_a_full_disk_ends_nothing(rig: Rig) -> None:
    """Every write of it fails: tasks are done all the same."""
    with Path("/dev/full").open("wb", buffering=0) as full:
        daemon = subprocess.Popen(
            [sys.executable, "-m", "watchkeeper", "daemon", "run"],
            env=rig.environment, stdin=subprocess.DEVNULL, stdout=full, stderr=full,
        )  # fmt: skip
    rig.daemons.append(daemon)
    wait_until((rig.state / "daemon.json").exists, what="it began")
    healthy(rig)
    assert daemon.poll() is None
