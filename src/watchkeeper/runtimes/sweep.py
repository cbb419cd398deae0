"""Ending what survived a shim that was killed.

Only a shim that lives can prove that nothing of its agent is left. Once it was killed, survivors are found by looking:

    look  ─▶  end what was found  ─▶  look  ─▶ … ─▶  two looks in a row find nothing

Found are: processes that carry the execution's marker in their environment, the recorded agent itself, and everything that is provably theirs, that is,
descends from one of them or is in a session or group that one of them leads. What started before the agent cannot be its, whatever it carries. What carries
another execution's marker is left alone. A process that shed marker, parent and session cannot be found; that is why this proves `swept` and not `proven`.
One that shed them and can still write to the run's files is not provably the agent's either: it is named, and nothing is claimed.

A process that forks and exits all the time may slip through any one listing. So a look reads whatever is new, state and environment, until a listing shows
nothing new: a process that had gone before it was read left a child that a later listing shows. A look that never comes to that point does not count as empty.

No process is signalled on its number alone (see `proc`), and nothing that is only likely to be the agent's is signalled at all: it is named instead.
"""

import errno
import os
import signal
import time
from collections.abc import Iterator, Mapping
from enum import StrEnum

from watchkeeper.crash import crashpoint
from watchkeeper.domain.model import AgentIdentity, Proof
from watchkeeper.ports.runtime import SweepReport
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.boot import boot_id
from watchkeeper.runtimes.holders import writes_below
from watchkeeper.runtimes.proc import Reached, SignalResult, Stat

MARKER = "WATCHKEEPER_EXECUTION"
"""The variable by which an agent's processes are known."""

_GRACE_S = 2.0
_LIMIT_S = 20.0
_LOOKS_IN_A_ROW = 2
_LISTINGS = 50
_AT_ONCE = 200
"""How many are ended in one go, each holding a descriptor; the next look finds the others."""


class MarkerOwner(StrEnum):
    """Whose a process says it is."""

    OURS = "ours"
    OTHER = "other"
    NONE = "none"
    HIDDEN = "hidden"
    """Its environment cannot be read."""


class Sweep:
    """One sweep for one execution, on the boot and in the pid namespace that its agent ran in."""

    def __init__(
        self,
        execution_id: str,
        agent: AgentIdentity | None,
        *,
        grace_s: float = _GRACE_S,
        shim: tuple[int, int] | None = None,
    ) -> None:
        """Sweep for `execution_id`, whose recorded agent is `agent`; TERM is followed by KILL after `grace_s`.

        `shim`: pid and start ticks of its shim if that may live: it is neither doubted nor signalled.
        """
        self._execution_id = execution_id
        self._marker = f"{MARKER}={execution_id}".encode()
        self._agent = agent if agent is not None and agent.boot_id == boot_id() else None
        self._grace_s = grace_s
        self._boot_id = boot_id()
        self._leaders: set[tuple[int, int]] = set()
        """Processes that were the agent's when we looked, as pid and start ticks; a session is known by its leader's pid."""
        self._others: set[tuple[int, int]] = set()
        """Processes that carry another execution's marker, as pid and start ticks."""
        self._hopeless: set[tuple[int, int]] = set()
        self._ended: dict[tuple[int, int], str] = {}
        self._spared: dict[int, str] = {}
        self._proven = True
        self._shim = shim

    def ask(self) -> tuple[Stat, ...]:
        """Look once, and send TERM to all that is found; returns it. Does not wait. Raises OSError if the system is in trouble."""
        all_, marks, _ = self._scan()
        found = self._theirs(all_, marks)
        for stat in found:
            reached = proc.reach(stat.pid, stat.start_ticks, self._boot_id)
            if isinstance(reached, Reached):
                with reached:
                    _ = reached.send(signal.SIGTERM)
                    _ = reached.send(signal.SIGCONT)  # one that was halted could not even hear it
        return tuple(found)

    def finds(self) -> bool:
        """Look once, and say whether anything of the execution is alive. Raises OSError if the system is in trouble."""
        all_, marks, settled = self._scan()
        return not settled or bool(self._theirs(all_, marks))

    def run(self, *, polite: bool = True) -> SweepReport:
        """Look and end until two looks in a row find nothing. `polite`: TERM goes first. Raises OSError if the system is in trouble."""
        deadline = time.monotonic() + _LIMIT_S
        empty = 0
        while empty < _LOOKS_IN_A_ROW:
            all_, marks, settled = self._scan()
            found = [stat for stat in self._theirs(all_, marks) if (stat.pid, stat.start_ticks) not in self._hopeless]
            empty = empty + 1 if settled and not found else 0
            if not empty and time.monotonic() > deadline:
                self._proven = False
                for stat in found:
                    self._doubt(stat, "was still there when the sweep gave up")
                break
            if found:
                self._end(found[:_AT_ONCE], polite=polite)
                polite = False
        self._doubt_holders()
        return SweepReport(
            proof=Proof.SWEPT if self._proven else Proof.UNPROVEN,
            ended=tuple(f"{pid} {command}" for (pid, _), command in self._ended.items()),
            spared=tuple(self._spared.values()),
        )

    def _scan(self) -> tuple[dict[int, Stat], dict[int, MarkerOwner], bool]:
        """Everything that can be seen, the marks of what could be the agent's, and whether the last listing showed nothing that was not read."""
        all_: dict[int, Stat] = {}
        marks: dict[int, MarkerOwner] = {}
        for _ in range(_LISTINGS):
            news = False
            for pid in [int(name) for name in os.listdir("/proc") if name.isdecimal()]:  # noqa: PTH208 - names are what is wanted
                stat, known = proc.stat_of(pid), all_.get(pid)
                if stat is None:
                    # It went between the listing and now, and may have left a child that the next listing shows.
                    news = news or known is None
                elif known is None or known.start_ticks != stat.start_ticks:
                    # A pid that was seen before may be another process's by now.
                    news = True
                    all_[pid] = stat
                    _ = marks.pop(pid, None)
                    if stat.alive and stat.start_ticks >= self._since:
                        marks[pid] = self._known_owner(stat)
            if not news:
                return all_, marks, True
        return all_, marks, False

    def _known_owner(self, stat: Stat) -> MarkerOwner:
        """The mark of a process. One that ends has no environment any more, so a process of another execution keeps that mark."""
        who = (stat.pid, stat.start_ticks)
        if who in self._others:
            return MarkerOwner.OTHER
        mark = self._marker_owner(stat)
        if mark is MarkerOwner.OTHER:
            self._others.add(who)
        return mark

    @property
    def _since(self) -> int:
        """What started before this, in ticks since boot, cannot be the agent's."""
        return self._agent.start_ticks if self._agent is not None else 0

    def _theirs(self, all_: Mapping[int, Stat], marks: Mapping[int, MarkerOwner]) -> list[Stat]:
        """Everything alive that is provably the execution's and may be signalled."""
        self._name_stranger(all_)
        young = [all_[pid] for pid in marks]
        untouchable = proc.protected() | self._living_shim(all_)
        ours: dict[int, Stat] = {}
        for stat in young:
            if marks[stat.pid] is MarkerOwner.OURS or self._is_agent(stat):
                if stat.pid in untouchable:
                    self._doubt(
                        stat,
                        "carries the run's marker, but is this program or one of its parents: it was not signalled",
                    )
                else:
                    ours[stat.pid] = stat
        candidates = [
            stat for stat in young if marks[stat.pid] is not MarkerOwner.OTHER and stat.pid not in untouchable
        ]
        self._add_theirs(ours, candidates, all_)
        for stat in candidates:
            if stat.pid not in ours:
                self._doubt_unknown(stat, marks[stat.pid], all_)
        return list(ours.values())

    def _add_theirs(self, ours: dict[int, Stat], candidates: list[Stat], all_: Mapping[int, Stat]) -> None:
        """Add descendants and members of sessions and groups until there are no more."""
        grown = True
        while grown:
            grown = False
            self._leaders.update((stat.pid, stat.start_ticks) for stat in ours.values())
            led = self._led(all_)
            for stat in candidates:
                if stat.pid in ours:
                    continue
                parent = ours.get(stat.parent)
                # A parent is older than its child; if not, the number was given to another process while we looked.
                descends = parent is not None and parent.start_ticks <= stat.start_ticks
                if descends or stat.session in led or stat.group in led:
                    ours[stat.pid] = stat
                    grown = True

    def _living_shim(self, all_: Mapping[int, Stat]) -> frozenset[int]:
        shim = self._shim
        known = shim is not None and shim[0] in all_ and all_[shim[0]].start_ticks == shim[1]
        return frozenset({shim[0]} if shim is not None and known else ())

    def _doubt_holders(self) -> None:
        """Name who is left and can write to the run's files: the agent may have started it, and it shed everything else that would tell."""
        all_, marks, _ = self._scan()
        spared = proc.protected() | self._living_shim(all_)
        for pid, mark in marks.items():
            if (
                mark in {MarkerOwner.NONE, MarkerOwner.HIDDEN}
                and pid not in spared
                and writes_below(pid, self._execution_id)
            ):
                self._doubt(
                    all_[pid], "has the run's files open for writing, so it may be the agent's: it was not signalled"
                )

    def _led(self, all_: Mapping[int, Stat]) -> set[int]:
        """Ids of the sessions and groups that the agent's processes lead or led.

        The kernel does not reuse a pid while a session or group has it as its id. So the id is the agent's unless another process has the number.
        """
        led = {pid for pid, ticks in self._leaders if pid not in all_ or all_[pid].start_ticks == ticks}
        agent = self._agent
        if agent is not None and agent.pid in all_ and all_[agent.pid].start_ticks == agent.start_ticks:
            led.add(agent.pid)
        return led

    def _is_agent(self, stat: Stat) -> bool:
        agent = self._agent
        return agent is not None and (stat.pid, stat.start_ticks) == (agent.pid, agent.start_ticks)

    def _name_stranger(self, all_: Mapping[int, Stat]) -> None:
        """Note it if another process has the recorded pid."""
        agent = self._agent
        if agent is None or agent.pid not in all_ or self._is_agent(all_[agent.pid]):
            return
        self._spared[agent.pid] = (
            f"Process {agent.pid} is not the recorded agent (it started at another time): it was not signalled."
        )

    def _doubt_unknown(self, stat: Stat, mark: MarkerOwner, all_: Mapping[int, Stat]) -> None:
        """Name what may be the agent's without being provably so."""
        agent = self._agent
        if mark is MarkerOwner.HIDDEN and os.geteuid() in uids(stat.pid):
            self._doubt(stat, "does not let its environment be read, so it may be the agent's: it was not signalled")
        elif agent is not None and agent.pid in {stat.session, stat.group} and agent.pid not in all_:
            # The session's leader is gone, and with it the proof that the number still means the agent's session.
            self._doubt(stat, "is in what may be the agent's session: it was not signalled")

    def _doubt(self, stat: Stat, why: str) -> None:
        self._proven = False
        self._spared[stat.pid] = f"Process {stat.pid} ({stat.command}) {why}."

    def _marker_owner(self, stat: Stat) -> MarkerOwner:
        try:
            environment = environ(stat.pid)
        except PermissionError:
            return MarkerOwner.HIDDEN
        prefix = f"{MARKER}=".encode()
        markers = {entry for entry in environment.split(b"\0") if entry.startswith(prefix)}
        if self._marker in markers:
            return MarkerOwner.OURS
        return MarkerOwner.OTHER if markers else MarkerOwner.NONE

    def _end(self, found: list[Stat], *, polite: bool) -> None:
        """TERM and then KILL everything that was found; later looks get KILL at once."""
        crashpoint("sweep.end.before")
        reached: list[Reached] = []
        by_pid = {stat.pid: stat for stat in found}
        try:
            for stat in found:
                process = proc.reach(stat.pid, stat.start_ticks, self._boot_id)
                if isinstance(process, Reached):
                    reached.append(process)
                elif process is SignalResult.PROTECTED:
                    self._give_up(stat, "is this program or one of its parents: it was not signalled")
            for sig in (signal.SIGTERM, signal.SIGKILL) if polite else (signal.SIGKILL,):
                self._send(reached, by_pid, sig)
        finally:
            for process in reached:
                process.close()
        crashpoint("sweep.end.after")

    def _send(self, reached: list[Reached], by_pid: Mapping[int, Stat], sig: signal.Signals) -> None:
        living = proc.wait_all(reached, 0.0)
        told: list[Reached] = []
        for process in living:
            stat = by_pid[process.pid]
            match process.send(sig):
                case SignalResult.FORBIDDEN:
                    self._give_up(stat, "may not be signalled by us")
                case _:
                    told.append(process)
        still = {process.pid for process in proc.wait_all(told, self._grace_s)}
        for process in told:
            stat = by_pid[process.pid]
            if process.pid not in still:
                self._ended[(stat.pid, stat.start_ticks)] = stat.command
            elif sig is signal.SIGKILL:
                self._give_up(stat, "was killed but does not die")

    def _give_up(self, stat: Stat, why: str) -> None:
        self._hopeless.add((stat.pid, stat.start_ticks))
        self._doubt(stat, why)


def environ(pid: int) -> bytes:
    """The environment a process was started with; empty if it has gone. Raises OSError, PermissionError if it is kept from us."""
    # A leader that has exited while its threads continue shows nothing itself.
    for path in (f"/proc/{pid}/environ", *_thread_environs(pid)):
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - hot path
                data = file.read()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if data:
            return data
    return b""


def _thread_environs(pid: int) -> Iterator[str]:
    try:
        names = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - names are what is wanted
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ESRCH}:
            return
        raise
    yield from (f"/proc/{pid}/task/{name}/environ" for name in names if name != str(pid))


def uids(pid: int) -> frozenset[int]:
    """The user ids of a process: real, effective, saved, file system. Empty if it has gone. Raises OSError."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:  # noqa: PTH123 - hot path
            lines = file.read().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return frozenset()
    return frozenset(int(uid) for line in lines if line.startswith(b"Uid:") for uid in line.split()[1:])
