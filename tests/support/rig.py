"""A Watchkeeper of its own for one test: a scratch state directory, a git repository, real processes, and a look at the database from outside.

Processes get their crash points through the environment. `once` makes sure that of all processes that reach the point only the first one dies.
"""

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from support.forks import run_program, start_program
from support.readable import wait_readable
from support.waiting import wait_until

from watchkeeper.compose import Watchkeeper
from watchkeeper.domain.model import RESTING_TASK_STATES, Outcome, Run, RunState, Task, TaskState
from watchkeeper.domain.side_command import SideCommand
from watchkeeper.errors import NotFound, StateError
from watchkeeper.ports.service import DaemonRequest
from watchkeeper.ports.store import JournalEntry, Tx
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.boot import boot_id
from watchkeeper.runtimes.daemon_host import LocalDaemonHost

QUICK = {
    "WATCHKEEPER_DAEMON_START_GRACE": "2.5",
    "WATCHKEEPER_DAEMON_POLL": "0.5",
    "WATCHKEEPER_QUEUE_RETRY_BASE": "0.05",
    "WATCHKEEPER_QUEUE_RELAUNCH_BASE": "0.05",
    "WATCHKEEPER_STOP_GRACE": "0.3",
}
"""Settings under which nothing waits longer than it must."""

AGENT = Path(__file__).with_name("agent.py")
_PYTHON = (sys.executable, "-I", "-S")
"""The agent needs the standard library alone, and starts twice as fast without the rest."""
MARKER = "WATCHKEEPER_EXECUTION"

T = TypeVar("T")


@dataclass
class Rig:
    """One scratch installation."""

    root: Path
    crash: Mapping[str, str] = field(default_factory=dict)
    daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)
    begun: list["subprocess.Popen[str]"] = field(default_factory=list)
    source: Path | None = None
    """Another source tree to run instead of the installed one: a mutant."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings beside the quick ones, as variables."""

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True)
        for name in ("state", "home", "repo", "run"):
            (self.root / name).mkdir(mode=0o700)
        git = ["git", "-C", str(self.repo), "-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run([*git, "init", "-q"], check=True)
        (self.repo / "README").write_text("A repository.\n", encoding="utf-8")
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-qm", "Begin"], check=True)

    @property
    def repo(self) -> Path:
        return self.root / "repo"

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def starts(self) -> Path:
        return self.root / "starts"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root / "home"),
            "LANG": "C.UTF-8",
            "XDG_RUNTIME_DIR": str(self.root / "run"),
            "WATCHKEEPER_HOME": str(self.state),
            **QUICK,
            **self.settings,
            **self.crash,
            **({"PYTHONPATH": str(self.source)} if self.source else {}),
        }

    def arm(self, point: str, *, how: str = "KILL") -> None:
        """From now on the first process that reaches the point dies there."""
        self.crash = {
            "WATCHKEEPER_CRASH_AT": point,
            "WATCHKEEPER_CRASH_ONCE": str(self.root / "died"),
            "WATCHKEEPER_CRASH_SIGNAL": how,
            "WATCHKEEPER_CRASH_GATE": str(self.root / "gate"),
        }

    def record_points(self) -> Path:
        """From now on every process appends the points it reaches; returns the file."""
        log = self.root / "points"
        self.crash = {"WATCHKEEPER_CRASH_LOG": str(log), "WATCHKEEPER_CRASH_GATE": str(self.root / "gate")}
        return log

    def open_gate(self) -> None:
        """Crash points count from here on: this is where the flow's own story begins."""
        (self.root / "gate").touch()

    def disarm(self) -> None:
        """No process that is started from now on dies at a point."""
        self.crash = {}

    @property
    def died(self) -> bool:
        """Whether a process has died at the armed point."""
        return (self.root / "died").exists()

    # Commands

    def wk(self, *args: str, given: bytes = b"", check: bool = True) -> subprocess.CompletedProcess[bytes]:
        """Run one command; with `check` it must end with 0."""
        done = run_program(args, env=self.environment, cwd=self.repo, given=given)
        if check and done.returncode != 0:
            message = (
                f"wk {' '.join(args)} ended with {done.returncode}:\n{done.stdout.decode()}\n{done.stderr.decode()}"
            )
            raise AssertionError(message)
        if b"daemon is still starting" in done.stderr and not self.crash:
            self._await_daemon()
        return done

    def _await_daemon(self) -> None:
        """Wait until a daemon listens, this one or one that was there before; what a test says next is about it. One that cannot start fails the test later."""
        host = LocalDaemonHost(self.state, lambda: self.root / "nowhere", self.environment)
        late = time.monotonic() + 20
        wait_until(
            lambda: host.send(DaemonRequest.LOOK) or time.monotonic() > late, within_s=30, what="a daemon listens"
        )

    def git(self, *args: str) -> str:
        """What git prints about the repository."""
        done = subprocess.run(["git", "-C", str(self.repo), *args], capture_output=True, check=True, text=True)
        return done.stdout

    def popen(self, *args: str) -> subprocess.Popen[bytes]:
        """Begin a command and return it; `close` ends it if it is still there."""
        null = subprocess.DEVNULL
        begun = start_program(args, env=self.environment, cwd=self.repo, stdin=null, stdout=null)
        self.daemons.insert(0, begun)
        return begun

    def popen_text(self, *args: str) -> "subprocess.Popen[str]":
        """Begin a command whose output is read later; `close` ends it if it is still there."""
        begun = start_program(
            args,
            env=self.environment,
            cwd=self.repo,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.begun.append(begun)
        return begun

    def run(self, *agent: str, options: tuple[str, ...] = ()) -> str:
        """Hand the test agent over and return the task's id."""
        done = self.wk("run", "--json", *options, "--", *_PYTHON, str(AGENT), str(self.starts), *agent)
        return str(json.loads(done.stdout)["id"])

    # The daemon

    def start_daemon(self) -> subprocess.Popen[bytes]:
        """Start a daemon as our child and wait until it is ready or dead."""
        reader, writer = os.pipe()
        log = (self.root / "daemon.log").open("ab")
        daemon = start_program(
            ["daemon", "run"],
            env={**self.environment, "WATCHKEEPER_READY_FD": str(writer)},
            pass_fds=(writer,),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        log.close()
        os.close(writer)
        readable = wait_readable(reader, within_s=30)
        os.close(reader)
        assert readable, "the daemon neither became ready nor died"
        self.daemons.append(daemon)
        return daemon

    def keep_daemon(self) -> subprocess.Popen[bytes]:
        """The running daemon; a new one if the last one has died."""
        if not self.daemons or self.daemons[-1].poll() is not None:
            return self.start_daemon()
        return self.daemons[-1]

    def kill_daemon(self) -> None:
        """`kill -9` of the daemon that we started last."""
        self.daemons[-1].kill()
        self.daemons[-1].wait()

    # Looking

    def tasks(self) -> list[Task]:
        """All tasks, oldest first; none if there is no database yet."""
        return self._read(lambda tx: list(reversed(tx.tasks.in_states(list(TaskState), 1000)))) or []

    def task(self, task_id: str) -> Task:
        found = self._read(lambda tx: tx.tasks.get(task_id))
        assert found is not None
        return found

    def runs(self, task_id: str) -> list[Run]:
        return self._read(lambda tx: tx.runs.of_task(task_id)) or []

    def outcome(self, run_id: str) -> Outcome | None:
        return self._read(lambda tx: tx.outcomes.get(run_id))

    def commands(self, task_id: str) -> list[SideCommand]:
        """The checks and set-ups around the runs of a task."""
        return self._read(lambda tx: tx.commands.of_task(task_id)) or []

    def journal(self) -> list[JournalEntry]:
        return self._read(lambda tx: tx.journal.after(0, 100_000)) or []

    def pending(self) -> int:
        return self._read(lambda tx: tx.outbox.pending()) or 0

    def _read(self, work: Callable[[Tx], T]) -> T | None:
        try:
            parts = Watchkeeper.open(self.repo, self.environment, writes=False, repository=False)
            with contextlib.closing(parts.store) as store:
                return store.read(work)
        except (StateError, NotFound):
            return None

    def faults(self) -> list[str]:
        """What is wrong with the database, whichever it is, and how many claims are left."""

        def look(tx: Tx) -> list[str]:
            left = [f"a claim is left: {run.id}" for run in tx.runs.live() if run.state is not RunState.HELD]
            return [*tx.waits.audit(), *left]

        parts = Watchkeeper.open(self.repo, self.environment, writes=False, repository=False)
        with contextlib.closing(parts.store) as store:
            store.check(thorough=True)
            return store.read(look)

    def log(self, run: Run, stream: str = "stdout") -> bytes:
        path = self.state / "executions" / run.execution_id / f"{stream}.log"
        return path.read_bytes() if path.exists() else b""

    def log_hash(self, run: Run) -> str:
        return hashlib.sha256(self.log(run)).hexdigest()

    def started_runs(self) -> list[str]:
        """The runs whose agent really began, one entry for each beginning."""
        return self.starts.read_text(encoding="utf-8").split() if self.starts.exists() else []

    def wait_resting(self, task_id: str, *, within_s: float = 30.0, keep: bool = True) -> Task:
        """Wait until nothing more happens to the task by itself, keeping a daemon alive meanwhile."""

        def resting() -> Task | None:
            if keep:
                self.keep_daemon()
            task = self.task(task_id)
            return task if task.state in RESTING_TASK_STATES else None

        return wait_until(resting, within_s=within_s, what=f"task {task_id} came to rest ({self.root})")

    def survivors(self) -> list[int]:
        """Living processes that carry the mark of an execution of this rig."""
        return self.carrying(*(path.name for path in (self.state / "executions").glob("*")))

    def carrying(self, *execution_ids: str) -> list[int]:
        """Living processes that carry the mark of one of these executions, wherever its directory is."""
        ids = {f"{MARKER}={each}".encode() for each in execution_ids}
        found: list[int] = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if ids & set((entry / "environ").read_bytes().split(b"\0")) and proc.identity(int(entry.name)):
                        found.append(int(entry.name))
        return found

    def stopped_shim(self) -> tuple[int, int] | None:
        """Pid and start ticks of one of our shims that a crash point has stopped."""
        ours = str(self.state / "executions").encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    found = proc.stat_of(int(entry.name))
                    if found and found.state == "T" and ours in (entry / "cmdline").read_bytes():
                        return found.pid, found.start_ticks
        return None

    def close(self) -> None:
        """End every process of this rig: daemons that are our children, and, by their checked identity, what carries our mark."""
        for command in self.begun:
            if command.poll() is None:
                command.kill()
            _ = command.communicate()
        for daemon in self.daemons:
            if daemon.poll() is None:
                daemon.kill()
            daemon.wait()
        with contextlib.suppress(StateError):
            parts = Watchkeeper.open(self.repo, self.environment, writes=False, repository=False)
            parts.daemon_host.kill()
        deadline = time.monotonic() + 10
        while (left := self._processes()) and time.monotonic() < deadline:
            for pid in left:
                who = proc.identity(pid)
                if who is not None:
                    proc.signal_checked(*who, boot_id(), signal.SIGKILL)

    def _processes(self) -> list[int]:
        """What carries our mark, shims, whose last argument is in our state directory, and what has that in its environment: a new daemon, say."""
        found = self.survivors()
        ours, told = str(self.state / "executions").encode(), f"WATCHKEEPER_HOME={self.state}".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    is_ours = ours in (entry / "cmdline").read_bytes() or told in (
                        entry / "environ"
                    ).read_bytes().split(b"\0")
                    if is_ours and proc.identity(int(entry.name)):
                        found.append(int(entry.name))
        return found
