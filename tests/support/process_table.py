"""A process table of a test's own in place of the kernel's. A pid may be given to another process between any two questions.

Every question to the kernel about a process goes to this table: the list of pids, a line of `stat`, an environment, a pidfd, a signal. Each question is a step,
and at one step of its choice a test lets something happen. So a test can recycle a pid at every step that the code takes.

A pidfd stays the pidfd of the process for which it was opened, as the kernel's does. What gets TERM or KILL dies at once.
"""

import itertools
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from watchkeeper.runtimes import force, proc, sweep
from watchkeeper.runtimes.proc import Stat

FIRST = 4_190_000
"""Pids from here on: larger than those of the processes that really run."""

_INIT = Stat(pid=1, command="init", state="S", parent=0, group=1, session=1, threads=1, start_ticks=0)


@dataclass(eq=False)
class Process:
    """One process. Two with the same pid are two."""

    pid: int
    ticks: int
    parent: int = 1
    name: str = "program"
    marker: str = ""
    session: int = 0
    alive: bool = True
    pidfds: list[int] = field(default_factory=list[int])
    """The ends that keep the pidfds of it from being readable."""

    def stat(self) -> Stat:
        """A line of `/proc/PID/stat`."""
        leader = self.session or self.pid
        return Stat(
            pid=self.pid, command=self.name, state="S", parent=self.parent, group=leader, session=leader, threads=1,
            start_ticks=self.ticks,
        )  # fmt: skip


class ProcessTable:
    """The processes that there are."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No process yet; from now on the code asks here."""
        self.steps = 0
        self.signalled: list[tuple[Process, int]] = []
        self._at: tuple[int, Callable[[], object]] | None = None
        self._living: dict[int, Process] = {}
        self._opened: dict[int, Process] = {}
        self._install(monkeypatch)

    def start(self, pid: int, ticks: int, **given: Any) -> Process:
        """A new process under a pid that is free."""
        assert pid not in self._living, "the kernel gives no pid twice"
        made = self._living[pid] = Process(pid=pid, ticks=ticks, **given)
        return made

    def end(self, process: Process) -> None:
        """It dies and is reaped; its children become init's. Twice is fine."""
        if not process.alive:
            return
        process.alive = False
        del self._living[process.pid]
        for each in self._living.values():
            each.parent = 1 if each.parent == process.pid else each.parent
        for writer in process.pidfds:
            os.close(writer)
        process.pidfds.clear()

    def recycle(self, process: Process, ticks: int, **given: Any) -> Process:
        """Another process gets the pid of one that dies."""
        self.end(process)
        return self.start(process.pid, ticks, **given)

    def at_step(self, step: int, happens: Callable[[], object]) -> None:
        """Let something happen just before a step, counted from now on."""
        self.steps, self._at = 0, (step, happens)

    def reached(self) -> set[Process]:
        """Every process that a signal came to."""
        return {process for process, _ in self.signalled}

    def close(self) -> None:
        """Close what is open."""
        for process in list(self._living.values()):
            self.end(process)

    def _step(self) -> None:
        at, self.steps = self.steps, self.steps + 1
        if self._at is not None and self._at[0] == at:
            self._at[1]()

    def _install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        listdir = os.listdir
        monkeypatch.setattr(os, "listdir", lambda path=".": self._names() if path == "/proc" else listdir(path))
        monkeypatch.setattr(os, "pidfd_open", self._open)
        monkeypatch.setattr(signal, "pidfd_send_signal", self._send)
        monkeypatch.setattr(proc, "stat_of", self._stat_of)
        monkeypatch.setattr(proc, "protected", lambda: frozenset({0, 1}))
        monkeypatch.setattr(sweep, "environ", self._environ)
        monkeypatch.setattr(sweep, "writes_below", lambda pid, execution_id: False)
        monkeypatch.setattr(force, "_serves", lambda pid, execution_id: self._is_shim(pid))
        monkeypatch.setattr(force, "_LAST_WORDS_S", 0.0)

    def _names(self) -> list[str]:
        self._step()
        return [str(pid) for pid in sorted(self._living)]

    def _stat_of(self, pid: int) -> Stat | None:
        self._step()
        if pid == 1:
            return _INIT
        found = self._living.get(pid)
        return None if found is None else found.stat()

    def _environ(self, pid: int) -> bytes:
        self._step()
        found = self._living.get(pid)
        return b"" if found is None or not found.marker else f"{sweep.MARKER}={found.marker}".encode()

    def _is_shim(self, pid: int) -> bool:
        self._step()
        return pid in self._living and self._living[pid].name == "shim"

    def _open(self, pid: int) -> int:
        self._step()
        process = self._living.get(pid)
        if process is None:
            raise ProcessLookupError(3, "No such process")
        reader, writer = os.pipe()
        process.pidfds.append(writer)
        self._opened[reader] = process
        return reader

    def _send(self, fd: int, number: int) -> None:
        self._step()
        process = self._opened[fd]
        if not process.alive:
            raise ProcessLookupError(3, "No such process")
        self.signalled.append((process, int(number)))
        if number in {signal.SIGTERM, signal.SIGKILL}:
            self.end(process)


def every_step(monkeypatch: pytest.MonkeyPatch, play: Callable[[ProcessTable, int], None]) -> int:
    """Play a story anew for each of its steps, the last time with a step that it does not reach; how many steps it has."""
    for step in itertools.count():
        with monkeypatch.context() as patch:
            table = ProcessTable(patch)
            play(table, step)
            table.close()
        if table.steps <= step:
            return table.steps
    raise AssertionError
