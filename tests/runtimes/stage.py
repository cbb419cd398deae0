"""A stage for the runtime: real directories, real locks, real processes."""

import json
import secrets
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO

from watchkeeper.domain.evidence import DecidedBy
from watchkeeper.domain.model import Cause, Run, RunState
from watchkeeper.ports.runtime import ExecutionRequest
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.boot import boot_id, pid_namespace
from watchkeeper.runtimes.locks import HeldLock, hold_lock
from watchkeeper.runtimes.proc import Stat
from watchkeeper.runtimes.process import ProcessRuntime

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass
class SteppedClock:
    """A clock that moves when a test moves it."""

    wall: datetime = AT
    boottime: float = 1000.0

    def now(self) -> datetime:
        """The time of day."""
        return self.wall

    def recorded(self, at: datetime) -> datetime:
        return at

    def boottime_s(self) -> float:
        """Seconds since boot."""
        return self.boottime

    def step(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        self.wall += timedelta(seconds=seconds)
        self.boottime += seconds


@dataclass
class Child:
    """A real process with its identity."""

    process: "subprocess.Popen[str]"
    start_ticks: int

    @property
    def pid(self) -> int:
        """Its pid."""
        return self.process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def die(self) -> None:
        """Kill it and reap it."""
        self.process.kill()
        self.process.wait()

    def line(self) -> str:
        """The next line it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


def look(pid: int) -> Stat:
    """What the kernel says about a process that must be there."""
    stat = proc.stat_of(pid)
    assert stat is not None
    return stat


@dataclass
class Stage:
    """One state directory with a runtime on it."""

    state: Path
    sockets: Path
    clock: SteppedClock
    runtime: ProcessRuntime
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    """An execution's id that no other test uses: a sweep looks at the whole machine."""
    children: list[Child] = field(default_factory=list)
    locks: list[HeldLock] = field(default_factory=list)

    def run(self, execution_id: str = "exec1", **changes: object) -> Run:
        """A run that was reserved."""
        run = Run(
            id=f"run-{execution_id}",
            task_id="task1",
            number=1,
            fence=7,
            execution_id=execution_id,
            cause=Cause.INITIAL,
            state=RunState.RESERVED,
            machine="m",
            incarnation=1,
            claimed_at=AT,
        )
        return replace(run, **changes)

    def request(self, run: Run, **changes: object) -> ExecutionRequest:
        """What a shim would be told."""
        request = ExecutionRequest(
            database_id="db1",
            run=run,
            argv=("agent", None),
            cwd="/",
            environment={"HOME": "/root"},
            prompt=b"do it \xff",
            prompt_by="argument",
            before={"head": "abc"},
        )
        return replace(request, **changes)

    def prepared(self, execution_id: str = "exec1", **changes: object) -> Run:
        """A run with its directory written and on record."""
        run = self.run(execution_id)
        directory = self.runtime.prepare(self.request(run))
        return replace(run, directory=directory, state=RunState.PREPARED, **changes)

    def directory(self, run: Run) -> Path:
        """Where its directory is."""
        return self.state / "executions" / run.execution_id

    def write(self, run: Run, name: str, content: object) -> None:
        """Write a record as a shim would, or bytes as no shim would."""
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        (self.directory(run) / name).write_bytes(data)

    def start(self, *argv: str, **environment: str) -> Child:
        """A real process, waited for until it has printed a line if it is Python."""
        process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, env={"PATH": "/usr/bin:/bin", **environment}
        )
        stat = proc.stat_of(process.pid)
        assert stat is not None
        child = Child(process, stat.start_ticks)
        self.children.append(child)
        return child

    def start_with(self, stdout: IO[bytes], *argv: str) -> Child:
        """A real process with a file as its standard output, and nothing in its environment that tells whose it is."""
        process = subprocess.Popen(argv, stdout=stdout, stdin=subprocess.PIPE, text=True, env={"PATH": "/usr/bin:/bin"})
        child = Child(process, look(process.pid).start_ticks)
        self.children.append(child)
        return child

    def python(self, code: str, **environment: str) -> Child:
        """A real Python process that runs `code`."""
        return self.start(sys.executable, "-c", code, **environment)

    def hold(self, run: Run) -> HeldLock:
        """Hold the execution's lock as a shim does."""
        lock = hold_lock(self.directory(run) / "lock")
        assert lock is not None
        self.locks.append(lock)
        return lock

    def decide(self, run: Run, by: DecidedBy = DecidedBy.SHIM, shim: Child | None = None, **changes: object) -> None:
        """Publish a decision."""
        record = {
            "by": by.value,
            "boot_id": boot_id(),
            "pid_namespace": pid_namespace(),
            "pid": shim.pid if shim else 4_000_000,
            "start_ticks": shim.start_ticks if shim else 1,
            "at": AT.isoformat(),
        }
        self.write(run, "decide", record | changes)

    def agent(self, run: Run, agent: Child | None = None, shim: Child | None = None, **changes: object) -> None:
        """Write the agent's record."""
        record = {
            "pid": agent.pid if agent else 4_000_001,
            "start_ticks": agent.start_ticks if agent else 2,
            "boot_id": boot_id(),
            "pid_namespace": pid_namespace(),
            "shim_pid": shim.pid if shim else 4_000_000,
            "shim_start_ticks": shim.start_ticks if shim else 1,
            "started_at": AT.isoformat(),
        }
        self.write(run, "proc.json", record | changes)

    def exit(self, run: Run, **changes: object) -> None:
        """Write the exit record."""
        record = {
            "status": 256,
            "reason": "exited",
            "errno": None,
            "at": AT.isoformat(),
            "elapsed_s": 1.5,
            "max_rss_kib": 100,
            "user_s": 0.1,
            "system_s": 0.1,
        }
        self.write(run, "exit.json", record | changes)

    def gone(self, run: Run, **changes: object) -> None:
        """Write the proof of emptiness."""
        record = {
            "proof": "proven",
            "how": "echild",
            "at": AT.isoformat(),
            "leftovers": [{"pid": 12, "start_ticks": 3, "command": "sleep"}],
            "killed": 1,
        }
        self.write(run, "gone.json", record | changes)

    def close(self) -> None:
        """End what was started."""
        for lock in self.locks:
            lock.close()
        for child in self.children:
            child.die()
            for pipe in (child.process.stdin, child.process.stdout):
                if pipe is not None:
                    pipe.close()


Script = Callable[..., "subprocess.CompletedProcess[str]"]
"""Runs Python code with arguments, and variables as keywords, in a process of its own, and waits for it."""
