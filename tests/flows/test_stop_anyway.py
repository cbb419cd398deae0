"""A stop ends the agent in its grace and a few seconds, or says why not, whatever is broken: the database, the daemon, the shim, the directory."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.flow_words import let_go, working
from support.rig import Rig

from watchkeeper.cli.direct import DATABASE_S
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import OutcomeStatus, Run, TaskState
from watchkeeper.errors import Exit
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.boot import boot_id
from watchkeeper.runtimes.locks import hold_lock

GRACE_S = 0.3
WITHIN_S = GRACE_S + 5.0
OFF_RECORD = "stopped off the record"


@dataclass
class Trouble:
    """What is broken while a person stops a task, and how it is mended."""

    rig: Rig
    run: Run
    mend: list[Callable[[], object]] = field(default_factory=list)

    @property
    def directory(self) -> Path:
        return self.rig.state / "executions" / self.run.execution_id

    @property
    def shim(self) -> tuple[int, int]:
        record = json.loads((self.directory / "proc.json").read_bytes())
        return record["shim_pid"], record["shim_start_ticks"]

    @property
    def socket(self) -> Path:
        return Path(json.loads((self.directory / "spec.json").read_bytes())["socket"])

    def signal(self, who: tuple[int, int], sig: signal.Signals) -> None:
        assert proc.signal_checked(*who, boot_id(), sig) is proc.SignalResult.REACHED

    # The database

    def database_damaged(self) -> None:
        """Its first page is garbage; the daemon has it open, as it was."""
        path = self.rig.state / "wk.db"
        with sqlite3.connect(path) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()
        whole = path.read_bytes()
        with path.open("r+b") as file:
            file.write(b"\xa5" * 4096)
        self.mend.append(lambda: path.write_bytes(whole))

    def database_locked(self) -> None:
        """Another program has begun to write, and never ends."""
        turn = os.open(self.rig.state / "write.lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(turn, fcntl.LOCK_EX)
        self.mend.append(lambda: os.close(turn))

    def row_torn(self) -> None:
        """The row of this very task holds what no version ever wrote."""
        self._set_kind("'torn'")
        self.mend.append(lambda: self._set_kind("NULL"))

    def _set_kind(self, value: str) -> None:
        with sqlite3.connect(self.rig.state / "wk.db", timeout=30) as db:
            db.execute(f"UPDATE task SET kind = {value} WHERE id = ?", (self.run.task_id,))
        db.close()

    # The shim

    def shim_stopped(self) -> None:
        self.signal(self.shim, signal.SIGSTOP)

    def shim_stopped_again_and_again(self) -> None:
        """Every resume is undone at once: the requests that it receives are never read."""
        keeper = subprocess.Popen(
            ["python3", "-c", _KEEP_STOPPED, str(self.shim[0])], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == b"stopped\n"
        self.mend.append(lambda: (keeper.kill(), keeper.communicate()))

    def shim_killed(self) -> None:
        self.signal(self.shim, signal.SIGKILL)

    def shim_deaf(self) -> None:
        """Its address was cleared away."""
        self.socket.unlink()

    def shim_deaf_and_stopped(self) -> None:
        self.shim_deaf()
        self.shim_stopped()

    # The daemon

    def daemon_dead(self) -> None:
        self.rig.kill_daemon()

    def daemon_stopped(self) -> None:
        daemon = self.rig.daemons[-1]
        daemon.send_signal(signal.SIGSTOP)
        self.mend.append(lambda: daemon.send_signal(signal.SIGCONT))

    def daemon_replaced(self) -> None:
        """Another process holds its lock and listens at its address, and does nothing."""
        record = (self.rig.state / "daemon.json").read_bytes()
        address = json.loads(record)["wake"]
        self.rig.kill_daemon()
        lock = hold_lock(self.rig.state / "daemon.lock")
        assert lock is not None
        Path(address).unlink(missing_ok=True)
        other = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        other.bind(address)
        self.mend += [lock.close, other.close, lambda: Path(address).unlink(missing_ok=True)]

    # The directory

    def directory_deleted(self) -> None:
        shutil.rmtree(self.directory)


_KEEP_STOPPED = """
import os, select, signal, sys
pid = int(sys.argv[1])
os.kill(pid, signal.SIGSTOP)
print("stopped", flush=True)
while not select.select([sys.stdin], [], [], 0.001)[0]:
    try:
        os.kill(pid, signal.SIGSTOP)
    except ProcessLookupError:
        break
"""

TROUBLES = {
    name: getattr(Trouble, name)
    for name in (
        "database_damaged",
        "database_locked",
        "row_torn",
        "shim_stopped",
        "shim_stopped_again_and_again",
        "shim_killed",
        "shim_deaf",
        "shim_deaf_and_stopped",
        "daemon_dead",
        "daemon_stopped",
        "daemon_replaced",
        "directory_deleted",
    )
}
HELD_BEFORE = {"shim_killed"}
"""The daemon may notice before the stop, and then the run is held as lost: the stop settles it on the person's word."""


@pytest.fixture
def troubled(rig: Rig) -> Iterator[Callable[[str], Trouble]]:
    made: list[Trouble] = []

    def make(name: str) -> Trouble:
        rig.start_daemon()
        _, run = working(rig)
        trouble = Trouble(rig, run)
        made.append(trouble)
        TROUBLES[name](trouble)
        return trouble

    yield make
    for trouble in made:
        for mend in trouble.mend:
            with contextlib.suppress(Exception):
                mend()


def _ended(run: Run, within_s: float) -> None:
    """Wait for the end of the agent."""
    assert run.agent is not None
    died = proc.has_died(run.agent.pid, run.agent.start_ticks, boot_id(), within_s=within_s)
    assert died, f"the agent was alive after {within_s:g} s"


def _slowness(rig: Rig) -> float:
    """How long programs take to start here and now: that of a command, and of a daemon that it may start."""
    began = time.monotonic()
    rig.wk("version")
    return 4 * (time.monotonic() - began)


KILLED = ("database_locked", "shim_stopped_again_and_again", "shim_deaf", "daemon_replaced", "directory_deleted")


@pytest.mark.parametrize(
    ("name", "command"), [*((name, "stop") for name in TROUBLES), *((name, "kill") for name in KILLED)]
)
def test_a_stop_ends_the_agent_whatever_is_broken(
    rig: Rig, troubled: Callable[[str], Trouble], name: str, command: str
) -> None:
    """Within its grace and five seconds; and when all is mended, it is on record that the person stopped it, once, and nothing runs again."""
    trouble = troubled(name)
    run = trouble.run
    within_s = WITHIN_S + _slowness(rig)
    asked = rig.popen_text(command, run.task_id)
    _ended(run, within_s)
    while trouble.mend:
        trouble.mend.pop()()
    out, err = asked.communicate(timeout=40)
    assert "Traceback" not in err
    if name in {"database_damaged", "database_locked", "row_torn"}:
        assert OFF_RECORD in out and asked.returncode == 0, (out, err, asked.returncode)
    task = rig.wait_resting(run.task_id)
    assert task.state is TaskState.STOPPED, (task, out, err)
    outcome = rig.outcome(run.id)
    assert outcome is not None
    assert (outcome.kind, outcome.status) == (FailureKind.STOPPED, OutcomeStatus.STOPPED)
    if name not in HELD_BEFORE:
        assert outcome.reason.startswith("You stopped it.") or "stopped it while it was held" in outcome.reason
    assert rig.started_runs().count(run.id) == len(rig.started_runs()) == 1
    assert not (rig.state / "stops").exists() or not list((rig.state / "stops").iterdir())
    assert not rig.carrying(run.execution_id)


def test_a_daemon_that_is_stopped_is_not_waited_for(rig: Rig) -> None:
    """However young it is; shim and agent are stopped, too, and the agent is ended from here."""
    rig.start_daemon()
    task_id, run = working(rig)
    trouble = Trouble(rig, run)
    trouble.daemon_stopped()
    try:
        trouble.shim_stopped()
        assert run.agent is not None
        trouble.signal((run.agent.pid, run.agent.start_ticks), signal.SIGSTOP)
        began = time.monotonic()
        done = rig.wk("stop", "--grace", str(GRACE_S), task_id)
        took_s = time.monotonic() - began
        assert took_s < WITHIN_S + _slowness(rig), done.stdout
        assert b"its agent has ended" in done.stdout
        _ended(run, 0.0)
    finally:
        trouble.mend.pop()()
    assert rig.wait_resting(task_id).state is TaskState.STOPPED


def test_everything_is_stopped_where_the_database_cannot_be_read(rig: Rig, troubled: Callable[[str], Trouble]) -> None:
    """All tasks are found by their directories alone, and so is one by the beginning of its id; what there is no directory of is refused."""
    trouble = troubled("database_damaged")
    unknown = rig.wk("stop", "zzzz", check=False)
    assert unknown.returncode == Exit.STATE and b"damaged" in unknown.stderr
    rig.wk("stop", "--all", "--dry-run")
    (would,) = json.loads(rig.wk("stop", "--all", "--dry-run", "--json").stdout)
    assert trouble.run.agent is not None
    assert (would["id"], would["off_record"]) == (trouble.run.task_id, "the database is damaged")
    assert f"pid {trouble.run.agent.pid}" in would["would"]
    assert proc.identity(trouble.run.agent.pid) is not None and not (rig.state / "stops").exists()
    done = rig.wk("kill", "--all", "--yes", "--json")
    (told,) = json.loads(done.stdout)
    assert (told["off_record"], told["noted"], told["ended"]) == ("the database is damaged", True, True)
    _ended(trouble.run, 1.0)
    again = rig.wk("kill", trouble.run.task_id[:4])
    assert b"had been stopped off the record already" in again.stdout


@pytest.mark.parametrize("command", [("kill",), ("stop", "--all", "--yes", "--grace", "0.3")])
def test_what_a_killed_shim_and_a_dead_agent_left_is_ended_off_the_record(rig: Rig, command: tuple[str, ...]) -> None:
    """Shim and agent are dead, and nothing records that: the wish is kept all the same, and what the agent left in other sessions is found by its mark."""
    rig.start_daemon()
    task_id, run = working(rig, "stubborn")
    trouble = Trouble(rig, run)
    rig.kill_daemon()
    trouble.shim_killed()
    assert run.agent is not None
    trouble.signal((run.agent.pid, run.agent.start_ticks), signal.SIGKILL)
    _ended(run, 5.0)
    assert rig.carrying(run.execution_id)
    trouble.database_locked()
    try:
        began = time.monotonic()
        done = rig.wk(*command, *(() if "--all" in command else (task_id,)), check=False)
        took_s = time.monotonic() - began
        told = (done.returncode, done.stdout.decode(), done.stderr.decode())
        assert done.returncode == Exit.OK and OFF_RECORD in told[1] and task_id in told[1], told
        assert took_s < DATABASE_S + WITHIN_S + _slowness(rig), told
        assert not rig.carrying(run.execution_id)
        (note,) = (rig.state / "stops").iterdir()
    finally:
        trouble.mend.pop()()
    rig.start_daemon()
    assert rig.wait_resting(task_id).state is TaskState.STOPPED
    assert not note.exists()


def test_a_stop_off_the_record_outlives_the_daemon_and_beats_a_retry(
    rig: Rig, troubled: Callable[[str], Trouble]
) -> None:
    """The note waits for a daemon that can write; before that the run is not settled, and its task not tried again."""
    rig.settings = {"WATCHKEEPER_RUN_RETRIES": "3"}
    trouble = troubled("database_damaged")
    rig.wk("stop", trouble.run.task_id)
    rig.kill_daemon()
    (note,) = (rig.state / "stops").iterdir()
    told = json.loads(note.read_bytes())
    assert (told["task"], told["run"], told["how"]) == (trouble.run.task_id, trouble.run.id, "stop")
    trouble.mend.pop()()
    rig.start_daemon()
    assert rig.wait_resting(trouble.run.task_id).state is TaskState.STOPPED
    assert len(rig.runs(trouble.run.task_id)) == 1 and not note.exists()
    asked = [entry for entry in rig.journal() if entry.kind == "task.stop_asked"]
    assert [entry.data["request_how"] for entry in asked] == ["stop"]
    rig.wk("retry", trouble.run.task_id)
    let_go(rig)
    assert rig.wait_resting(trouble.run.task_id).state is TaskState.DONE


@pytest.mark.parametrize("broken", [False, True])
def test_a_copy_of_the_state_directory_ends_no_agent_of_the_original(rig: Rig, broken: bool) -> None:
    """The copy's records name the same processes. It says whose they are, signals nothing, and the original continues."""
    rig.start_daemon()
    task_id, run = working(rig)
    copy = rig.root / "copy"
    _ = subprocess.run(["cp", "-a", rig.state, copy], check=True)
    if broken:
        with sqlite3.connect(copy / "wk.db") as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()
        with (copy / "wk.db").open("r+b") as file:
            file.write(b"\xa5" * 4096)
    rig.settings = {"WATCHKEEPER_HOME": str(copy)}
    done = rig.wk("stop", task_id, "--grace", "1s", check=False)
    told = (done.stdout + done.stderr).decode()
    if not broken:
        rig.wk("daemon", "stop")
    rig.settings = {}
    assert done.returncode == Exit.TIMEOUT, told
    assert "stop failed" in told and f"the run is that of {rig.state / 'executions' / run.execution_id}" in told
    assert run.agent is not None and proc.identity(run.agent.pid) is not None
    let_go(rig)
    assert rig.wait_resting(task_id).state is TaskState.DONE
