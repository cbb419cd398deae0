"""A full disk, while adding, while a run is prepared, and while an agent ends: nothing is lost, and it heals when there is room again."""

import contextlib
import fcntl
import json
import os
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.flow_words import healthy, let_go, refused, shown, sound, working
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.model import TaskState
from watchkeeper.errors import Exit
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.boot import boot_id

MEBIBYTES = 48


@pytest.fixture
def disk(rig: Rig) -> Iterator[Rig]:
    """A rig whose state directory is a small file system of its own."""
    if os.geteuid() != 0:
        pytest.fail("needs to mount; run it as `unshare -Urm pytest …`, as the test for other users does")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={MEBIBYTES}m,mode=700", "tmpfs", str(rig.state)], check=True)
    yield rig
    rig.close()
    subprocess.run(["umount", "-l", str(rig.state)], check=True)


def _fill(rig: Rig, *, leave: int = 0) -> None:
    """Take all the room but so many bytes."""
    room = os.statvfs(rig.state)
    with (rig.state / "ballast").open("ab", buffering=0) as ballast:
        left = room.f_bavail * room.f_frsize - leave
        try:
            while left > 0:
                left -= ballast.write(b"\0" * min(left, 1 << 20))
        except OSError:
            return


def _empty(rig: Rig) -> None:
    (rig.state / "ballast").unlink()


def test_adding_to_a_full_disk(disk: Rig) -> None:
    """Refused in one sentence with nothing added; looking works; with room again it is as before."""
    healthy(disk)
    _fill(disk)
    refused(disk, "run", "hello", "--", "cat", code=Exit.STATE, detail="room")
    assert disk.wk("ls").returncode == 0 and disk.wk("status").returncode == 0
    assert len(disk.tasks()) == 1
    _empty(disk)
    healthy(disk)
    sound(disk)


def test_a_run_that_is_prepared_on_a_full_disk(disk: Rig) -> None:
    """The task waits for room, and its agent begins once when there is some."""
    disk.settings = {"WATCHKEEPER_QUEUE_LIMIT": "1"}
    first, _ = working(disk)
    second = disk.run("lines", "5", "exit", "0")
    _fill(disk)
    let_go(disk)
    log = disk.state / "daemon.log"
    wait_until(
        lambda: b"tick failed" in log.read_bytes() or disk.task(first).state is TaskState.DONE, what="it is felt"
    )
    _empty(disk)
    for task_id in (first, second):
        assert disk.wait_resting(task_id, within_s=60, keep=False).state is TaskState.DONE
        assert disk.started_runs().count(f"{task_id}.1") == 1
    sound(disk)


def test_an_agent_that_ends_on_a_full_disk(disk: Rig) -> None:
    """Its true exit status is on record: the shim has reserved the room for it, and the daemon settles when it can."""
    disk.start_daemon()
    task_id, run = working(disk, options=("--retries", "0"))
    _fill(disk)
    let_go(disk)
    record = disk.state / "executions" / run.execution_id / "exit.json"
    wait_until(record.exists, within_s=20, what="the end is on record")
    _empty(disk)
    assert disk.wait_resting(task_id, within_s=60).state is TaskState.DONE
    (ended,) = disk.runs(task_id)
    assert ended.exit is not None and ended.exit.exit_code == 0
    sound(disk)


def test_a_task_is_stopped_when_there_is_little_room(disk: Rig) -> None:
    """Too little to begin anything, enough to end something: the wish is taken, and a daemon starts to fulfil it."""
    disk.start_daemon()
    task_id, _ = working(disk)
    disk.kill_daemon()
    _fill(disk, leave=4 << 20)
    refused(disk, "run", "hello", "--", "cat", code=Exit.STATE, detail="room")
    disk.wk("stop", task_id)
    assert disk.task(task_id).state is TaskState.STOPPED
    _empty(disk)
    healthy(disk)


def test_a_stop_on_a_full_disk_is_on_record(disk: Rig) -> None:
    """Room was set aside for it, is given back, and is set aside again when there is some."""
    disk.start_daemon()
    task_id, run = working(disk)
    spare = disk.state / "spare"
    wait_until(spare.exists, what="room is set aside")
    assert spare.stat().st_blocks * 512 >= 1 << 20
    _fill(disk)
    said = disk.wk("stop", task_id).stdout
    assert f"{task_id}  stopped".encode() in said and b"off the record" not in said
    assert disk.task(task_id).stop is not None and not spare.exists()
    assert run.agent is not None and proc.has_died(run.agent.pid, run.agent.start_ticks, boot_id(), within_s=0)
    _empty(disk)
    assert disk.wait_resting(task_id).state is TaskState.STOPPED
    wait_until(spare.exists, what="room is set aside again")
    sound(disk)


def test_a_stop_on_a_disk_without_any_room_is_off_the_record(disk: Rig) -> None:
    """Not even a note fits; the agent is ended all the same, that is said, and the exit record makes it a stop."""
    disk.start_daemon()
    task_id, run = working(disk)
    wait_until((disk.state / "spare").exists, what="room is set aside")
    disk.kill_daemon()
    (disk.state / "spare").unlink()
    _fill(disk)
    said = disk.wk("stop", task_id).stdout.decode()
    assert "stopped off the record: the database cannot be written (disk full)" in said and "not even a note" in said
    assert run.agent is not None and proc.has_died(run.agent.pid, run.agent.start_ticks, boot_id(), within_s=0)
    _empty(disk)
    disk.start_daemon()
    assert disk.wait_resting(task_id).state is TaskState.STOPPED
    sound(disk)


@pytest.fixture
def small(rig: Rig) -> Iterator[Rig]:
    """A rig whose execution directories alone are on a small file system: the database has room."""
    if os.geteuid() != 0:
        pytest.fail("needs to mount; run it as `unshare -Urm pytest …`, as the test for other users does")
    executions = rig.state / "executions"
    executions.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", str(executions)], check=True)
    yield rig
    rig.close()
    subprocess.run(["umount", "-l", str(executions)], check=True)


def test_a_stop_says_that_the_rest_of_the_output_waits_for_room(small: Rig) -> None:
    """The agent has ended, and that is what was asked for: it is not waited for room, the code is 0, and every list says why the task is not at its end."""
    small.start_daemon()
    allowed = small.root / "allowed"
    task_id = small.run("lines", "50", "steps", "2000", str(allowed), options=("--title", "t"))
    run = wait_until(
        lambda: next((run for run in small.runs(task_id) if b"line 49" in small.log(run)), None), what="it prints"
    )
    ballast = small.state / "executions" / ".ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(b"\0" * 4096):
            pass
    allowed.write_text("500", encoding="utf-8")
    pipe = small.state / "executions" / run.execution_id / "stdout.pipe"
    wait_until(lambda: _unread(pipe) > 8192, what="what it prints has no room in its log")
    done = small.wk("stop", "--grace", "1", task_id)
    assert b"its agent has ended; the rest of its output waits for room on the disk" in done.stdout
    assert not small.carrying(run.execution_id)
    assert b"waits for room on the disk" in small.wk("ls").stdout
    assert "waits for room on the disk" in shown(small, task_id)
    (told,) = json.loads(small.wk("stop", "--json", task_id).stdout)
    assert (told["ended"], told["stop_failed"]) == (True, None)
    ballast.unlink()
    assert small.wait_resting(task_id).state is TaskState.STOPPED
    assert b"line 499" in small.log(run)


def _unread(pipe: Path) -> int:
    """How many bytes are in a named pipe."""
    fd = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))[0]
    finally:
        os.close(fd)


def test_the_same_for_an_ordinary_user(tmp_path: Path) -> None:
    """In a namespace of one's own, mounting needs no rights."""
    if os.environ.get("FULL_DISK_INSIDE"):
        return
    here = Path(__file__)
    name = f"{here}::test_adding_to_a_full_disk"
    done = subprocess.run(
        [
            "unshare",
            "-Urm",
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--basetemp={tmp_path / 'inside'}",
            name,
        ],
        env={**os.environ, "FULL_DISK_INSIDE": "1"},
        cwd=here.parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr
