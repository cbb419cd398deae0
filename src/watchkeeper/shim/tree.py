"""Everything that descends from us: found, signalled safely, and proven gone.

Only our own unreaped children may be signalled by number, because only we can free their numbers. What is deeper is signalled through a pidfd whose start time
was checked after opening. As the subreaper we become the parent of every orphan, so killing level by level ends everything, and ECHILD proves it.
"""

import os
import signal

from . import system
from .crash import crashpoint

_MOST_LISTED = 100


def descendants() -> list[tuple[int, int, int]]:
    """Pid, parent and start ticks of every living process below us, children first."""
    me = os.getpid()
    below: dict[int, list[tuple[int, int]]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - pathlib would cost start-up time
        if entry.isdigit():
            found = system.stat(int(entry))
            if found is not None and found[0] not in "ZX":
                below.setdefault(found[1], []).append((int(entry), found[2]))
    ordered: list[tuple[int, int, int]] = []
    level = [me]
    while level:
        children = [(pid, parent, ticks) for parent in level for pid, ticks in below.get(parent, [])]
        ordered += children
        level = [pid for pid, _, _ in children]
    return ordered


def listed() -> list[dict[str, object]]:
    """The descendants as records, for the proof."""
    return [
        {"pid": pid, "start_ticks": ticks, "command": system.command(pid)}
        for pid, _, ticks in descendants()[:_MOST_LISTED]
    ]


def signal_all(number: int) -> set[int]:
    """Signal everything below us; returns who was reached."""
    me = os.getpid()
    reached: set[int] = set()
    crashpoint("shim.signal_all.before")
    for pid, parent, ticks in descendants():
        try:
            if parent == me:
                os.kill(pid, number)
            else:
                _through_pidfd(pid, ticks, number)
        except ProcessLookupError:
            continue
        except PermissionError:
            continue  # it changed its user; it stays a descendant, so emptiness is not claimed while it lives
        reached.add(pid)
    crashpoint("shim.signal_all.after")
    return reached


def _through_pidfd(pid: int, ticks: int, number: int) -> None:
    fd = os.pidfd_open(pid)
    try:
        if system.start_ticks(pid) != ticks:
            raise ProcessLookupError
        signal.pidfd_send_signal(fd, number)
    finally:
        os.close(fd)


def signal_agent(pid: int, number: int) -> None:
    """Signal the agent's process group. We have not reaped its leader, so the number is still its own."""
    crashpoint("shim.signal.before")
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        # It has not made its session yet, or its group is empty but for the leader that we have not reaped.
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
    crashpoint("shim.signal.after")


def next_ended() -> int | None:
    """A child that has ended and is not reaped yet, 0 if all live, None if there is none at all: then nothing descends from us."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return 0 if found is None else found.si_pid
