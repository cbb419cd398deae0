"""Processes by identity, and the only place of the supervisor that signals.

A pid alone does not identify a process: the kernel reuses it as soon as the process is reaped. A process is named by pid, start time in ticks and boot
id, and a signal goes through a pidfd (R7):

    open a pidfd for the pid  ─▶  read the start time of that pid  ─▶  is it the recorded one?  ─▶  signal the pidfd

If the start time read *after* opening is the recorded one, the recorded process had the pid when it was opened, and the pidfd never refers to another.
We never signal ourselves, our ancestors or pid 1, whatever a record says.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Self

from watchkeeper.crash import crashpoint
from watchkeeper.runtimes.boot import boot_id as current_boot_id

if TYPE_CHECKING:
    import signal

_ZOMBIE_STATES = frozenset({"Z", "X", "x"})


class SignalResult(StrEnum):
    """What became of an attempt to reach a recorded process."""

    REACHED = "reached"
    GONE = "gone"
    STRANGER = "stranger"
    """Another process bears the pid now, or the record is of another boot."""
    PROTECTED = "protected"
    """It is this process, one of its ancestors, or pid 1."""
    FORBIDDEN = "forbidden"
    """The kernel does not let us signal it."""


# A named tuple, as in `settings`: every command waits for the class.
class Stat(NamedTuple):
    """A line of `/proc/PID/stat`."""

    pid: int
    command: str
    state: str
    parent: int
    group: int
    session: int
    threads: int
    start_ticks: int

    @property
    def alive(self) -> bool:
        """Whether it still runs; a zombie leader whose threads continue counts as running."""
        return self.state not in _ZOMBIE_STATES or self.threads > 1


def parse_stat(text: str) -> Stat:
    """Parse `/proc/PID/stat`. The command may hold blanks and brackets, so fields count from the last `)`. Raises ValueError."""
    before, bracket, after = text.rpartition(")")
    number, _, command = before.partition("(")
    fields = after.split()
    least = 20
    if not bracket or len(fields) < least:
        msg = "not a line of /proc/PID/stat"
        raise ValueError(msg)
    return Stat(
        pid=int(number),
        command=command,
        state=fields[0],
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        threads=int(fields[17]),
        start_ticks=int(fields[19]),
    )


def stat_of(pid: int) -> Stat | None:
    """What the kernel reports about a pid now, or None if no process has it. Raises OSError."""
    # Python turns ESRCH into ProcessLookupError: the process went between opening and reading.
    with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - hot path
        return parse_stat(file.read().decode("utf-8", "surrogateescape"))
    return None


def identity(pid: int) -> tuple[int, int] | None:
    """Pid and start ticks of a process that is alive, or None. Raises OSError."""
    found = stat_of(pid)
    return (found.pid, found.start_ticks) if found is not None and found.alive else None


def protected() -> frozenset[int]:
    """Pids that are never signalled: ourselves, our ancestors, and the machine's first process."""
    pids = {0, 1}
    pid = os.getpid()
    while pid not in pids:
        pids.add(pid)
        found = stat_of(pid)
        pid = found.parent if found is not None else 0
    return frozenset(pids)


class Reached:
    """A process that was checked and is pinned: a signal through this reaches that process or none. Use as a context manager."""

    def __init__(self, pid: int, fd: int) -> None:
        """Own the pidfd."""
        self.pid = pid
        self._fd = fd

    def __enter__(self) -> Self:
        """Keep it open."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of it."""
        self.close()

    def close(self) -> None:
        """Let go of it. Twice is fine."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def detach(self) -> int:
        """Hand the pidfd over to the caller, who closes it."""
        fd, self._fd = self._fd, -1
        return fd

    def send(self, sig: signal.Signals) -> SignalResult:
        """Signal it: reached, gone or forbidden."""
        import signal  # noqa: PLC0415 - who only asks for identities sends none

        try:
            crashpoint("proc.signal.before")
            signal.pidfd_send_signal(self._fd, sig)
            crashpoint("proc.signal.after")
        except ProcessLookupError:
            return SignalResult.GONE
        except PermissionError:
            return SignalResult.FORBIDDEN
        return SignalResult.REACHED

    def wait(self, timeout_s: float) -> bool:
        """Wait until it has died (whether or not its parent has reaped it); False if it lives on after `timeout_s`."""
        poller = select.poll()
        poller.register(self._fd, select.POLLIN)
        return bool(poller.poll(max(0.0, timeout_s) * 1000))


def reach(pid: int, start_ticks: int, boot_id: str) -> Reached | SignalResult:
    """Pin a recorded process, or say why it cannot be. Raises OSError if the system is in trouble."""
    if boot_id != current_boot_id():
        return SignalResult.STRANGER
    if pid <= 1 or pid in protected():
        return SignalResult.PROTECTED
    return _pin(pid, start_ticks)


def open_checked(pid: int, start_ticks: int) -> int | None:
    """A pidfd of exactly this process, for waiting only; None if it is gone. The caller closes it. Raises OSError."""
    pinned = _pin(pid, start_ticks)
    return None if isinstance(pinned, SignalResult) else pinned.detach()


def has_died(pid: int, start_ticks: int, boot_id: str, *, within_s: float) -> bool:
    """Whether a recorded process is dead, or dies within `within_s`. Sends nothing. Raises OSError if the system is in trouble."""
    if boot_id != current_boot_id():
        return True
    pinned = _pin(pid, start_ticks)
    if isinstance(pinned, SignalResult):
        return True
    with pinned:
        return pinned.wait(within_s)


def _pin(pid: int, start_ticks: int) -> Reached | SignalResult:
    try:
        reached = Reached(pid, os.pidfd_open(pid))
    except ProcessLookupError:
        return SignalResult.GONE
    try:
        now = stat_of(pid)
    except BaseException:
        reached.close()
        raise
    if now is None or now.start_ticks != start_ticks:
        reached.close()
        return SignalResult.GONE if now is None else SignalResult.STRANGER
    return reached


def signal_checked(pid: int, start_ticks: int, boot_id: str, sig: signal.Signals) -> SignalResult:
    """Signal exactly the recorded process, or none. Raises OSError if the system is in trouble."""
    reached = reach(pid, start_ticks, boot_id)
    if isinstance(reached, SignalResult):
        return reached
    with reached:
        return reached.send(sig)


def wait_all(processes: list[Reached], timeout_s: float) -> list[Reached]:
    """Wait until all have died or `timeout_s` has passed; returns those that live on."""
    deadline = time.monotonic() + timeout_s
    return [process for process in processes if not process.wait(deadline - time.monotonic())]
