"""A daemon whose lock file, state directory or life is not its own any more ends itself, says why, and leaves its agents at work."""

import json
import os
import shutil
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.flow_words import daemon_log, healthy, let_go, refused, working
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.compose import Watchkeeper
from watchkeeper.daemon import client
from watchkeeper.domain.model import TaskState
from watchkeeper.errors import Exit
from watchkeeper.ports.service import DaemonRequest
from watchkeeper.ports.store import Tx
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.sockets import reach

if TYPE_CHECKING:
    from subprocess import Popen


def _parts(rig: Rig) -> Watchkeeper:
    return Watchkeeper.open(rig.repo, rig.environment, writes=True)


def _ended(rig: Rig, daemon: "Popen[bytes]", detail: str) -> None:
    """It ended by itself, with the code of a daemon's trouble, and says why in its log and in what it leaves behind."""
    assert daemon.wait(timeout=20) == Exit.DAEMON
    log = (rig.root / "daemon.log").read_text(encoding="utf-8")
    assert " lost: " in log and detail in log


def _delete_lock(rig: Rig) -> None:
    (rig.state / "daemon.lock").unlink()


def _replace_lock(rig: Rig) -> None:
    (rig.state / "lock.new").touch()
    (rig.state / "lock.new").rename(rig.state / "daemon.lock")


@pytest.mark.parametrize("damage", [_delete_lock, _replace_lock])
def test_a_daemon_without_its_lock_file_ends(rig: Rig, damage: Callable[[Rig], None]) -> None:
    """The lock that it holds keeps no process away any more. The next daemon adopts its agent."""
    daemon = rig.start_daemon()
    task_id, run = working(rig)
    damage(rig)
    _ended(rig, daemon, "lock file")
    status = rig.wk("daemon", "status", check=False)
    assert status.returncode == Exit.DAEMON
    assert f"pid {daemon.pid}".encode() in status.stdout and b"lock file" in status.stdout
    assert "lock file" in json.loads(rig.wk("daemon", "status", "--json", check=False).stdout)["last_words"]["detail"]
    assert rig.survivors(), "its agent goes on"
    rig.start_daemon()
    assert json.loads(rig.wk("daemon", "status", "--json").stdout)["last_words"] is None
    let_go(rig)
    assert rig.wait_resting(task_id).state is TaskState.DONE
    assert rig.started_runs() == [run.id]


def test_of_two_daemons_after_the_lock_file_was_deleted_one_is_left(rig: Rig) -> None:
    """The first, which notices, does not take the second one's record, address or lock with it; and nothing starts twice."""
    rig.settings = {"WATCHKEEPER_DAEMON_POLL": "3"}
    first = rig.start_daemon()
    task_id, run = working(rig)
    _delete_lock(rig)
    second = rig.start_daemon()
    _ended(rig, first, "daemon")
    record = json.loads((rig.state / "daemon.json").read_bytes())
    assert record["pid"] == second.pid and Path(record["wake"]).is_socket()
    healthy(rig)
    let_go(rig)
    assert rig.wait_resting(task_id, keep=False).state is TaskState.DONE
    assert rig.started_runs().count(run.id) == 1
    assert second.poll() is None


def test_a_daemon_whose_state_directory_was_moved_ends(rig: Rig) -> None:
    """And the one that is started where it is now has its agent."""
    daemon = rig.start_daemon()
    task_id, _ = working(rig)
    moved = rig.root / "moved"
    rig.state.rename(moved)
    _ended(rig, daemon, "moved or deleted")
    assert "moved" in json.loads((moved / "daemon-ended.json").read_bytes())["detail"]
    assert not (moved / "daemon.json").exists()
    moved.rename(rig.state)
    rig.start_daemon()
    let_go(rig)
    assert rig.wait_resting(task_id).state is TaskState.DONE


def test_a_daemon_whose_state_directory_was_replaced_by_a_copy_ends(rig: Rig) -> None:
    """Its path leads to another directory: it writes nothing there."""
    daemon = rig.start_daemon()
    healthy(rig)
    rig.state.rename(rig.root / "original")
    shutil.copytree(rig.root / "original", rig.state, ignore=shutil.ignore_patterns("*.sock"))
    _ended(rig, daemon, "Another directory")
    assert not (rig.state / "daemon-ended.json").exists()


def test_a_daemon_of_an_earlier_life_ends_and_writes_nothing_meanwhile(rig: Rig) -> None:
    """Another life has begun in the database, as by a daemon that the lock did not keep away."""
    rig.settings = {"WATCHKEEPER_DAEMON_POLL": "2"}
    daemon = rig.start_daemon()
    parts = _parts(rig)
    node = parts.state.node()

    def begin(tx: Tx) -> None:
        tx.machines.begin_incarnation(node, "boot", parts.clock.now(), holder="another")

    parts.store.transact("test", begin)
    task_id = rig.run("exit", "0")
    _ended(rig, daemon, "life")
    assert rig.task(task_id).state is TaskState.QUEUED and not rig.started_runs()
    assert rig.wait_resting(task_id).state is TaskState.DONE


def test_a_stranger_at_the_wake_address_is_no_daemon(rig: Rig) -> None:
    """A process listens there, and no process holds the lock: a daemon is started."""
    healthy(rig)
    rig.wk("daemon", "stop")
    parts = _parts(rig)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
        with reach(parts.wake_address) as name:
            stranger.bind(name)
        assert not parts.daemon_host.send(DaemonRequest.LOOK)
        assert client.ensure(parts, within_s=20) is client.Ensured.STARTED
    healthy(rig)


def test_sockets_lie_in_the_state_directory(rig: Rig) -> None:
    """However long its path is and whatever is in it; an agent is stopped through its socket there."""
    deep = Rig(rig.root / ("deep" * 30) / "x\n'\"?#%25 \u00fc")
    try:
        deep.start_daemon()
        task_id, _ = working(deep)
        assert {path.name[-5:] for path in (deep.state / "sockets").iterdir()} == {".sock"}
        assert list((deep.root / "run").iterdir()) == []
        deep.wk("stop", task_id)
        assert deep.task(task_id).state is TaskState.STOPPED
        assert "interrupted" not in daemon_log(deep)
    finally:
        deep.close()


@pytest.mark.parametrize("command", [("run", "--", "true"), ("ls",), ("daemon", "start"), ("daemon", "stop")])
def test_a_state_path_that_is_not_utf_8_is_refused(rig: Rig, command: tuple[str, ...]) -> None:
    """In a sentence, with the code of the state directory; nothing is made there."""
    path = f"{rig.root}/x\udcff"
    rig.settings = {"WATCHKEEPER_HOME": path}
    refused(rig, *command, code=Exit.STATE, detail="is not UTF-8")
    assert not Path(path).exists()


def test_a_state_directory_that_is_named_from_here_is_the_same_for_daemon_and_agent(rig: Rig) -> None:
    """The daemon begins in another directory, the agent perhaps too; and `wk` inside an agent looks where its daemon does."""
    rig.settings = {"WATCHKEEPER_HOME": os.path.relpath(rig.state, rig.repo)}
    script = 'echo "home=$WATCHKEEPER_HOME"'
    task_id = json.loads(rig.wk("run", "--json", "--", "sh", "-c", script).stdout)["id"]
    rig.settings = {}
    assert rig.wait_resting(task_id, keep=False).state is TaskState.DONE
    (run,) = rig.runs(task_id)
    assert rig.log(run).decode() == f"home={rig.state}\n"


def test_a_daemon_that_somebody_has_stopped_is_not_called_well(rig: Rig) -> None:
    """It holds its lock and its address takes what is sent; only the kernel tells that it does nothing."""
    daemon = rig.start_daemon()
    assert rig.wk("daemon", "status").returncode == 0
    daemon.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: _state(daemon.pid) == "T", what="it is stopped")
        mend = f"kill -CONT {daemon.pid}"
        for command in ("status", "daemon status", "doctor"):
            told = rig.wk(*command.split(), check=False).stdout.decode()
            assert "stopped (SIGSTOP)" in told and mend in told, (command, told)
        assert rig.wk("daemon", "status", check=False).returncode == Exit.DAEMON
        assert json.loads(rig.wk("status", "--json").stdout)["daemon"]["frozen"] is True
    finally:
        daemon.send_signal(signal.SIGCONT)
    wait_until(lambda: rig.wk("daemon", "status", check=False).returncode == 0, what="it goes on")


def _state(pid: int) -> str:
    found = proc.stat_of(pid)
    return "" if found is None else found.state
