"""Gathering the evidence of one execution, in the order that makes it exact.

    decide  ─▶  lock  ─▶  gone.json  ─▶  exit.json  ─▶  proc.json  ─▶  spec.json  ─▶  does the directory still have its name?

*Decision before lock* is the rule of `domain.evidence`: a decision `shim` followed by a free lock means that that shim is dead, and all that is read later
is final. After the lock the records are read newest first. The shim writes proc, exit, gone in this order, each durable before the next, so a reader of
one of them must find those before it; a missing one was taken away, and is named as unreadable instead of being taken for "never written".
"""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from watchkeeper.domain.evidence import DecidedBy, GoneFact, LockState
from watchkeeper.domain.model import EndReason, ExitFact
from watchkeeper.runtimes import proc, records
from watchkeeper.runtimes.executions import OpenExecution, Unreadable
from watchkeeper.runtimes.records import AgentRecord, BadRecord, Decision, SpecIdentity

T = TypeVar("T")

_LITTLE_BYTES = 64 * 1024
"""With less a pipe cannot be emptied, which holds as much, and no record be written."""

_LOOKS = 3
"""A shim may decide between two reads; then we look again. It decides once, so two looks are enough."""

_DYING_S = 1.0
"""A dying process lets go of its locks an instant before it counts as dead."""


@dataclass(slots=True)
class Gathered:
    """What was found. `unreadable` names what is there and cannot be used, or must be there and is not."""

    decision: Decision | None = None
    lock: LockState = LockState.UNKNOWN
    gone: GoneFact | None = None
    exit: ExitFact | None = None
    agent: AgentRecord | None = None
    identity: SpecIdentity | None = None
    refused: int | None = None
    """The error with which the system refused the launch, if that is on record. It only explains; nothing rests on it."""
    no_room: bool = False
    """Whether there is no room on the disk; looked at where a shim has only the rest of the output to write."""
    unreadable: list[str] = field(default_factory=list[str])

    def complain(self, name: str) -> None:
        """Name a record, once."""
        if name not in self.unreadable:
            self.unreadable.append(name)


def gather(files: OpenExecution, *, boot_id: str, pid_namespace: str) -> Gathered:
    """Read everything. Raises OSError if the system is in trouble."""
    found = _read_once(files)
    for _ in range(_LOOKS - 1):
        if not _undecided_with_records(found):
            break
        found = _read_once(files)
    if _undecided_with_records(found):
        found.complain(records.DECISION)
    if _shim_may_live(files, found, boot_id=boot_id, pid_namespace=pid_namespace):
        found.lock = LockState.UNKNOWN
    elif found.lock is LockState.FREE and _launched(found) and not files.exists(records.LOCK):
        # Its lock told nothing, its death does; and only what is read after that is final.
        found = _read_once(files)
    _compare(found)
    if found.exit is not None and found.gone is None:
        room = os.fstatvfs(files.fd)
        found.no_room = room.f_bavail * room.f_frsize < _LITTLE_BYTES
    return found


def _read_once(files: OpenExecution) -> Gathered:
    found = Gathered()
    found.decision = _read(files, found, records.DECISION, records.parse_decision)
    found.lock = files.lock()
    found.gone = _read(files, found, records.GONE, records.parse_gone)
    found.exit = _read(files, found, records.EXIT, records.parse_exit)
    found.agent = _read(files, found, records.AGENT, records.parse_agent)
    with contextlib.suppress(Unreadable, BadRecord):
        refused = files.read(records.REFUSED)
        found.refused = None if refused is None else records.parse_refused(refused)
    spec = _read(files, found, records.SPEC, records.parse_spec)
    if spec is None:
        found.complain(records.SPEC)
    else:
        found.identity = spec.identity
    return found


def _read(files: OpenExecution, found: Gathered, name: str, parse: Callable[[bytes], T]) -> T | None:
    try:
        data = files.read(name)
        return None if data is None else parse(data)
    except (Unreadable, BadRecord):
        found.complain(name)
        return None


def _undecided_with_records(found: Gathered) -> bool:
    """No decision, but records that only follow one."""
    followed = found.agent is not None or found.exit is not None or found.gone is not None
    return found.decision is None and records.DECISION not in found.unreadable and followed


def _compare(found: Gathered) -> None:
    """Name the records that contradict the others."""
    if found.gone is not None and found.exit is None:
        found.complain(records.EXIT)
    if found.exit is not None and found.exit.reason is not EndReason.SPAWN_FAILED and found.agent is None:
        found.complain(records.AGENT)
    decision, agent = found.decision, found.agent
    if decision is None:
        return
    if decision.record.by is not DecidedBy.SHIM:
        # Another process decided that no agent will ever run, so these cannot be about an agent.
        for name, record in ((records.AGENT, agent), (records.EXIT, found.exit), (records.GONE, found.gone)):
            if record is not None:
                found.complain(name)
        return
    if agent is not None and (
        agent.shim_pid,
        agent.shim_start_ticks,
        agent.agent.boot_id,
        agent.pid_namespace,
    ) != (decision.pid, decision.start_ticks, decision.record.boot_id, decision.record.pid_namespace):
        found.complain(records.AGENT)


def _launched(found: Gathered) -> bool:
    return found.decision is not None and found.decision.record.by is DecidedBy.SHIM


def _shim_may_live(files: OpenExecution, found: Gathered, *, boot_id: str, pid_namespace: str) -> bool:
    """Whether a free lock is contradicted: the shim that decided is alive without it, or that cannot be seen from here and the file was taken away.

    A lock file that is deleted under a living shim must not make us take that shim for dead and end its agent.
    """
    decision = found.decision
    if found.lock is not LockState.FREE or decision is None or not _launched(found):
        return False
    if found.gone is not None or decision.record.boot_id != boot_id:
        return False
    if decision.record.pid_namespace != pid_namespace:
        return not files.exists(records.LOCK)
    return not proc.has_died(decision.pid, decision.start_ticks, boot_id, within_s=_DYING_S)
