"""Daemons that race, records that lie, sockets that are gone."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from support.flow_words import daemon_log, healthy, let_go, refused, working
from support.forks import start_program
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.compose import Watchkeeper
from watchkeeper.domain.model import TaskState
from watchkeeper.errors import DaemonError, Exit
from watchkeeper.ports.service import DaemonRequest

ROUNDS = 20


@pytest.mark.timeout(300)
def test_of_daemons_that_race_one_survives(rig: Rig) -> None:
    """Twenty rounds of three that start at once: one serves, the others say so and end with 7."""
    healthy(rig)
    rig.wk("daemon", "stop")
    for number in range(ROUNDS):
        daemons = [_daemon(rig) for _ in range(3)]

        def over(racers: list[subprocess.Popen[bytes]] = daemons) -> bool:
            return sum(daemon.poll() is not None for daemon in racers) >= 2

        wait_until(over, within_s=60, what=f"two of three ended in round {number}")
        losers = [daemon for daemon in daemons if daemon.poll() is not None]
        for daemon in losers:
            err = daemon.communicate()[1].decode()
            assert (daemon.returncode, err.startswith("wk: A daemon")) == (Exit.DAEMON, True), err
        (winner,) = [daemon for daemon in daemons if daemon not in losers]
        parts = Watchkeeper.open(rig.repo, rig.environment, writes=False)
        wait_until(partial(parts.daemon_host.send, DaemonRequest.LEAVE), within_s=30, what="it listens")
        assert winner.wait(timeout=30) == 0
        winner.communicate()
    healthy(rig)


def _daemon(rig: Rig) -> subprocess.Popen[bytes]:
    return start_program(
        ["daemon", "run"],
        env=rig.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _wake(rig: Rig) -> Path:
    return Path(json.loads((rig.state / "daemon.json").read_bytes())["wake"])


def test_a_stale_wake_socket(rig: Rig) -> None:
    """A daemon that was killed leaves its socket behind: no process answers there, so the next command starts a daemon, which takes it over."""
    healthy(rig)
    rig.wk("daemon", "stop")
    rig.start_daemon()
    rig.kill_daemon()
    assert _wake(rig).is_socket()
    healthy(rig)


def test_the_sockets_are_removed_while_agents_run(rig: Rig) -> None:
    """A cleaner of temporary files took the directory: the agent is still stopped, and new tasks still start."""
    rig.start_daemon()
    task_id, _ = working(rig)
    wake = _wake(rig)
    for socket in wake.parent.iterdir():
        socket.unlink()
    wake.parent.rmdir()
    healthy(rig)
    let_go(rig)
    assert rig.wait_resting(task_id).state is TaskState.DONE


def test_an_agent_whose_socket_was_removed_is_stopped(rig: Rig) -> None:
    """The shim cannot be asked any more; the wish is fulfilled all the same."""
    rig.start_daemon()
    task_id, _ = working(rig)
    wake = _wake(rig)
    for socket in wake.parent.iterdir():
        if socket != wake:
            socket.unlink()
    rig.wk("stop", "--no-wait", task_id)
    assert rig.wait_resting(task_id).state is TaskState.STOPPED
    wait_until(lambda: not rig.survivors(), what="nothing of it is alive")


def _garbage(path: Path) -> None:
    path.write_bytes(b"\xff{{{")


def _gone(path: Path) -> None:
    path.unlink()


def _stranger(path: Path) -> None:
    record = json.loads(path.read_bytes())
    path.write_text(json.dumps({**record, "pid": os.getpid(), "start_ticks": 1}), encoding="utf-8")


def _list(path: Path) -> None:
    path.write_text("[1, 2]", encoding="utf-8")


@pytest.mark.parametrize("damage", [_garbage, _gone, _stranger, _list])
def test_a_record_of_the_daemon_that_lies(rig: Rig, damage: Callable[[Path], None]) -> None:
    """It is believed only if it names a living process that is who it says; the daemon continues, tasks are done, no other process is signalled."""
    daemon = rig.start_daemon()
    damage(rig.state / "daemon.json")
    healthy(rig)
    status = rig.wk("daemon", "status", check=False)
    if status.returncode != 0:  # the record says nothing, the lock says that one is there
        assert b"No daemon runs" not in status.stdout
        assert json.loads(rig.wk("daemon", "status", "--json", check=False).stdout)["starting"] is True
    refused(rig, "daemon", "run", code=Exit.DAEMON, detail="running already")
    assert rig.wk("daemon", "stop").returncode == 0
    daemon.wait(timeout=20)
    healthy(rig)


def test_a_record_of_a_daemon_that_is_dead(rig: Rig) -> None:
    """It names a stranger now: `wk daemon status` does not take it for the daemon, and the next command starts one."""
    rig.start_daemon()
    rig.kill_daemon()
    _stranger(rig.state / "daemon.json")
    assert rig.wk("daemon", "status", check=False).returncode == Exit.DAEMON
    healthy(rig)


def test_an_idle_daemon_writes_nothing(rig: Rig) -> None:
    """Neither its database nor any file changes while there is nothing to do, although it looks."""
    healthy(rig)
    wait_until(lambda: not rig.pending(), what="everything is done")
    before = _times(rig)
    log = daemon_log(rig)
    pid = json.loads(rig.wk("daemon", "status", "--json").stdout)["pid"]
    ticks = _switches(pid)
    wait_until(lambda: _switches(pid) > ticks + 8, within_s=30, what="it looked a few times")
    assert _times(rig) == before
    assert daemon_log(rig) == log


def _times(rig: Rig) -> dict[str, tuple[int, int]]:
    """Every file and directory with its last change and size; reading through SQLite touches its shared memory only."""
    found = {path: path.stat() for path in rig.state.rglob("*") if not path.name.endswith("-shm")}
    return {str(path): (stat.st_mtime_ns, stat.st_size) for path, stat in found.items()}


def _switches(pid: int) -> int:
    """How often the daemon has gone to sleep, over all its threads."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        for line in (task / "status").read_text(encoding="utf-8").splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                total += int(line.split()[1])
    return total


def _descriptors() -> set[tuple[str, str]]:
    """Our open descriptors and what they are. Others may close meanwhile: what earlier tests left to be collected."""
    found: set[tuple[str, str]] = set()
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # that of this very look
            found.add((each.name, str(each.readlink())))
    return found


def test_a_daemon_that_the_system_does_not_start(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence and exit code 7, and no descriptor is left open."""
    healthy(rig)
    rig.wk("daemon", "stop")
    host = Watchkeeper.open(rig.repo, rig.environment, writes=False).daemon_host
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    before = _descriptors()
    with pytest.raises(DaemonError, match="/no/such/python") as refusal:
        host.spawn(1.0)
    assert refusal.value.exit_code == Exit.DAEMON and refusal.value.hint
    assert _descriptors() - before == set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_daemon_without_a_terminal_heeds_no_signal_of_one(rig: Rig, number: signal.Signals) -> None:
    daemon = in_session_of_its_own(rig)
    assert Path(f"/proc/{daemon.pid}/comm").read_text() == "wk-daemon\n"
    assert b"python" not in Path(f"/proc/{daemon.pid}/cmdline").read_bytes()
    daemon.send_signal(number)
    _ = rig.wk("run", "--wait", "--", "true")
    assert daemon.poll() is None
    daemon.terminate()
    assert daemon.wait(timeout=30) == 0


def test_ctrl_c_ends_a_daemon_in_the_foreground(rig: Rig) -> None:
    leader, follower = os.openpty()
    daemon = in_session_of_its_own(rig, terminal=follower)
    _ = rig.wk("run", "--wait", "--", "true")
    os.write(leader, b"\x03")
    assert daemon.wait(timeout=30) == 0
    os.close(leader)
    os.close(follower)


def in_session_of_its_own(rig: Rig, terminal: int | None = None) -> subprocess.Popen[bytes]:
    """A daemon that is ready, with this terminal for its own or with none."""
    reader, writer = os.pipe()
    take = "" if terminal is None else "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    run = f"{take}import runpy, sys; sys.argv[1:] = ['daemon', 'run']; runpy.run_module('watchkeeper', run_name='__main__')"
    daemon = subprocess.Popen(
        [sys.executable, "-c", run],
        env={**rig.environment, "WATCHKEEPER_READY_FD": str(writer)},
        cwd=rig.repo,
        pass_fds=(writer,),
        stdin=subprocess.DEVNULL if terminal is None else terminal,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    rig.daemons.append(daemon)
    os.close(writer)
    assert os.read(reader, 100) == b"ready"
    os.close(reader)
    return daemon
