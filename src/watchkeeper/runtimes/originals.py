"""Whose a run is, where its state directory was copied: the records of the copy name processes that are another directory's.

An agent belongs to the execution directory that its shim was started on, for as long as that is there. A directory that was moved, or put back in the place of
one that is gone, is the only one there is: it is the run's.
"""

import os
from pathlib import Path

from watchkeeper.domain.model import AgentIdentity
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.state_directory import HOME
from watchkeeper.runtimes.sweep import MARKER, environ


def original(ours: Path, shim: tuple[int, int] | None, agent: AgentIdentity | None) -> Path | None:
    """The execution directory that living processes of a run belong to, if that is not `ours`. None: they are ours, or nothing tells."""
    told = _of_shim(shim, ours.name) or _of_agent(agent, ours.name)
    if told is None:
        return None
    try:
        there = told.stat()
    except OSError:
        return None
    try:
        here = ours.stat()
    except OSError:
        return told
    return None if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino) else told


def _of_shim(shim: tuple[int, int] | None, execution_id: str) -> Path | None:
    """Its last argument, if that is a directory of this execution."""
    if shim is None or proc.identity(shim[0]) != shim:
        return None
    try:
        with open(f"/proc/{shim[0]}/cmdline", "rb") as file:  # noqa: PTH123 - as in `sweep`
            last = Path(os.fsdecode(file.read().rstrip(b"\0").rpartition(b"\0")[2]))
    except OSError:
        return None
    return last if last.is_absolute() and last.name == execution_id else None


def _of_agent(agent: AgentIdentity | None, execution_id: str) -> Path | None:
    """Its environment at its start, with the mark of this execution."""
    if agent is None or proc.has_died(agent.pid, agent.start_ticks, agent.boot_id, within_s=0.0):
        return None
    try:
        told = environ(agent.pid).split(b"\0")
    except OSError:
        return None
    homes = [entry.partition(b"=")[2] for entry in told if entry.startswith(f"{HOME}=".encode())]
    if f"{MARKER}={execution_id}".encode() not in told or not homes:
        return None
    return Path(os.fsdecode(homes[0])) / "executions" / execution_id
