"""Everything that descends from us: found, signalled safely, and proven gone.

Only our own unreaped children may be signalled by number, because only we can free their numbers. What is deeper is signalled through a pidfd whose start time
was checked after opening. As the subreaper we become the parent of every orphan, so killing level by level ends everything, and ECHILD proves it.
"""

import os

from . import system
from .crash import crashpoint

Process = tuple[int, int, int]
"""Pid, parent and start ticks."""


def descendants() -> list[Process]:
    """Every living process below us, parents first. Where there is no /proc: none."""
    below: dict[int, list[Process]] = {}
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - pathlib would cost start-up time
    except OSError:
        return []
    for name in names:
        if name.isdigit():
            found = system.stat(int(name))
            if found is not None:
                below.setdefault(found[1], []).append((int(name), found[1], found[2] if found[0] not in "ZX" else -1))
    ordered: list[Process] = []
    level = [os.getpid()]
    while level:
        # A dead process may have living children for a moment, before they are given to us: so it is walked through, and left out.
        children = [each for parent in level for each in below.get(parent, [])]
        ordered += [each for each in children if each[2] >= 0]
        level = [pid for pid, _, _ in children]
    return ordered


def signal_all(number: int) -> list[Process]:
    """Signal everything below us; returns who was reached."""
    me = os.getpid()
    reached: list[Process] = []
    crashpoint("shim.signal_all.before")
    for process in descendants():
        pid, parent, ticks = process
        try:
            if parent == me:
                os.kill(pid, number)
            else:
                system.signal_through_pidfd(pid, ticks, number)
        except OSError:
            # Gone, or it changed its user. Then it stays a descendant, so emptiness is not claimed while it lives.
            continue
        reached.append(process)
    crashpoint("shim.signal_all.after")
    return reached


class Children:
    """Our own children, looked up quickly enough to catch one that forks and exits all the time."""

    def __init__(self) -> None:
        """The kernel's list of them, where it has one."""
        try:
            self._fd = os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._fd = -1

    def kill(self) -> None:
        """Kill each. They are unreaped children, so their pids cannot belong to other processes."""
        crashpoint("shim.kill.before")
        for pid in os.pread(self._fd, 65536, 0).split() if self._fd >= 0 else ():
            try:
                os.kill(int(pid), system.SIGKILL)
            except OSError:
                continue
        crashpoint("shim.kill.after")


def signal_agent(pid: int, number: int) -> None:
    """Signal the agent's process group. We have not reaped its leader, so the number is still its own."""
    crashpoint("shim.signal.before")
    try:
        os.killpg(pid, number)
    except OSError:
        # It has not made its session yet, or we may not signal any process of its group.
        try:  # noqa: SIM105 - contextlib would cost start-up time
            os.kill(pid, number)
        except OSError:
            pass
    crashpoint("shim.signal.after")
