"""Ending a run past its shim: that is dead, hung, deaf, or its directory is gone.

    is its shim stopped? SIGCONT  ─▶  it does not answer  ─▶  TERM to all that is the agent's  ─▶  grace  ─▶  KILL  ─▶  does its shim end by itself?  ─▶  KILL

Every process is known by its identity (see `proc`, `sweep`). The shim goes last, and only if nothing is found alive that it could still prove anything of: a
shim that hangs keeps its lock, and for as long as it does the run cannot be settled.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from watchkeeper.domain.evidence import DecidedBy, DirectoryState, LockState
from watchkeeper.domain.model import AgentIdentity, Proof, Run, StopHow
from watchkeeper.ports.runtime import Forced, ShimUnreachable, SweepReport
from watchkeeper.runtimes import observation, proc, records
from watchkeeper.runtimes.boot import boot_id, pid_namespace
from watchkeeper.runtimes.executions import ExecutionDirectories, Unreadable
from watchkeeper.runtimes.log_pipes import LogPipes
from watchkeeper.runtimes.observation import Gathered
from watchkeeper.runtimes.originals import original
from watchkeeper.runtimes.records import BadRecord, SpecIdentity
from watchkeeper.runtimes.survivors import keeping_output
from watchkeeper.runtimes.sweep import Sweep

_LAST_WORDS_S = 2.5
"""How long a shim that is well may take from the end of all that it supervised to its own."""

_LOOK_AGAIN_S = 0.5
_GRACE_S = 10.0
"""The grace of a run whose spec cannot be read."""


class _Known(NamedTuple):
    """What is known of a run's processes."""

    agent: AgentIdentity | None
    shim: tuple[int, int] | None
    """Pid and start ticks of its shim, if it may be alive."""
    against: str = ""
    """Why nothing can be concluded from what is seen here."""


class Force:
    """Ends runs by the identity of their processes. Remembers only since when an agent has its grace, which may be lost with it at any time."""

    def __init__(
        self, directories: ExecutionDirectories, pipes: LogPipes, is_for: Callable[[SpecIdentity, Run], bool]
    ) -> None:
        """`is_for` says whether a directory's records are a run's."""
        self._directories = directories
        self._pipes = pipes
        self._is_for = is_for
        self._guard = threading.Lock()
        self._since: dict[str, float] = {}

    def end(self, run: Run, how: StopHow, grace_s: float | None, *, signalled: bool) -> Forced:
        """One step towards the end of a run whose shim does not do it. `signalled`: the shim has been sent TERM, and may be passing it on.

        Raises:
            OSError: the system is in trouble.
        """
        known = self._known(run)
        if known.against or known.agent is None:
            return Forced(sweep=_nothing_done(known.against or "whether its agent has started is unknown"))
        sweep = Sweep(run.execution_id, known.agent, shim=known.shim)
        if how is StopHow.STOP:
            grace_s = self._grace_s(run) if grace_s is None else grace_s
            left = self._left(run.execution_id, grace_s)
            if left is None:
                asked = signalled or bool(sweep.ask())
                left = self._begin(run.execution_id, grace_s) if asked else 0.0
            if left > 0 and sweep.finds():
                return Forced(wait_s=min(left, _LOOK_AGAIN_S))
        with keeping_output(self._directories, self._pipes, run):
            report = _with_shim(sweep.run(polite=False), known)
        with self._guard:
            _ = self._since.pop(run.execution_id, None)
        return Forced(sweep=report)

    def at_once(self, run: Run) -> SweepReport:
        """Everything of a run that can be found: TERM, and KILL shortly after. Raises OSError if the system is in trouble."""
        known = self._known(run)
        if known.against:
            return _nothing_done(known.against)
        with keeping_output(self._directories, self._pipes, run):
            report = Sweep(run.execution_id, known.agent, shim=known.shim).run()
            return _with_shim(report, known) if known.agent is not None else report

    def after_shim(self, run: Run) -> SweepReport:
        """What survived a shim that is known to be dead; if that is not known nothing is signalled. Raises OSError if the system is in trouble."""
        found = self._gathered(run)
        if found is None:
            return _nothing_done("its execution directory is not the one that was prepared")
        decision = found.decision
        if found.unreadable or found.identity is None or not self._is_for(found.identity, run):
            return _nothing_done("its records cannot be read")
        if found.lock is not LockState.FREE or decision is None or decision.record.by is not DecidedBy.SHIM:
            return _nothing_done("its shim is not known to be dead")
        if (decision.record.boot_id, decision.record.pid_namespace) != (boot_id(), pid_namespace()):
            return _nothing_done("its processes are not those of this boot and pid namespace")
        agent = found.agent.agent if found.agent is not None else run.agent
        with keeping_output(self._directories, self._pipes, run):
            return Sweep(run.execution_id, agent).run()

    def wake_shim(self, run: Run, found: Gathered | None) -> None:
        """Resume a shim that was suspended from outside. `found`: what its directory holds; None if that cannot be read.

        Raises:
            ShimUnreachable: it serves another directory, of which ours is a copy.
            OSError: the system is in trouble.
        """
        known = self._recorded(run, found)
        if original(self._directories.path(run), known.shim, known.agent) is not None:
            raise ShimUnreachable("Its shim is not this directory's.")
        shim = known.shim
        stat = None if shim is None else proc.stat_of(shim[0])
        if shim is not None and stat is not None and stat.state == "T":
            _ = proc.signal_checked(*shim, boot_id(), signal.SIGCONT)

    def _left(self, execution_id: str, grace_s: float) -> float | None:
        with self._guard:
            since = self._since.get(execution_id)
        return None if since is None else max(0.0, since + grace_s - time.monotonic())

    def _begin(self, execution_id: str, grace_s: float) -> float:
        with self._guard:
            self._since[execution_id] = time.monotonic()
        return grace_s

    def _gathered(self, run: Run) -> Gathered | None:
        with self._directories.open(run) as files:
            if isinstance(files, DirectoryState):
                return None
            return observation.gather(files, boot_id=boot_id(), pid_namespace=pid_namespace())

    def _known(self, run: Run) -> _Known:
        known = self._recorded(run, self._gathered(run))
        there = original(self._directories.path(run), known.shim, known.agent)
        if there is None:
            return known
        detail = f"this is a copy, and the run is that of {there}; stop it with WATCHKEEPER_HOME={there.parent.parent}"
        return known._replace(against=detail)

    def _recorded(self, run: Run, found: Gathered | None) -> _Known:
        """From the directory if it is there and can be read; else from the row and from what the kernel says of the agent's parent."""
        if found is None or found.identity is None or not self._is_for(found.identity, run) or found.unreadable:
            return _by_row(run)
        decision = found.decision
        agent = found.agent.agent if found.agent is not None else run.agent
        if decision is None or decision.record.by is not DecidedBy.SHIM:
            return _Known(agent=run.agent, shim=None)
        if decision.record.boot_id != boot_id():
            return _Known(agent=agent, shim=None, against="the machine was restarted since")
        if decision.record.pid_namespace != pid_namespace():
            detail = "its agent was started in another pid namespace, so what is seen from here proves nothing"
            return _Known(agent=agent, shim=None, against=detail)
        return _Known(agent=agent, shim=(decision.pid, decision.start_ticks))

    def _grace_s(self, run: Run) -> float:
        try:
            with self._directories.intact(run) as files:
                grace_s = records.load(files.read(records.SPEC) or b"").get("grace_s")
        except (OSError, Unreadable, BadRecord):
            return _GRACE_S
        return float(grace_s) if isinstance(grace_s, int | float) else _GRACE_S


def _by_row(run: Run) -> _Known:
    agent = run.agent
    if agent is None or agent.boot_id != boot_id():
        return _Known(agent=agent, shim=None)
    stat = proc.stat_of(agent.pid)
    if stat is None or stat.start_ticks != agent.start_ticks:
        return _Known(agent=agent, shim=None)
    parent = proc.stat_of(stat.parent)
    is_shim = parent is not None and _serves(parent.pid, run.execution_id)
    return _Known(agent=agent, shim=(parent.pid, parent.start_ticks) if parent is not None and is_shim else None)


def _serves(pid: int, execution_id: str) -> bool:
    """Whether a process is the shim of an execution: its last argument is the execution's directory."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123 - as in `sweep`
            words = file.read().rstrip(b"\0").split(b"\0")
    except OSError:
        return False
    return os.path.basename(words[-1]) == execution_id.encode()  # noqa: PTH119 - bytes


def _with_shim(report: SweepReport, known: _Known) -> SweepReport:
    """End the shim too, if nothing is left that it supervises and it does not end by itself."""
    agent, shim = known.agent, known.shim
    if shim is None or agent is None or not proc.has_died(agent.pid, agent.start_ticks, agent.boot_id, within_s=0.0):
        return report
    if proc.has_died(*shim, boot_id(), within_s=_LAST_WORDS_S):
        return report
    if report.proof is Proof.UNPROVEN:
        return report  # it may still prove more than we can
    _ = proc.signal_checked(*shim, boot_id(), signal.SIGKILL)
    if proc.has_died(*shim, boot_id(), within_s=_LAST_WORDS_S):
        return SweepReport(proof=report.proof, ended=(*report.ended, f"{shim[0]} its shim"), spared=report.spared)
    spared = (*report.spared, f"Its shim (pid {shim[0]}) was killed and does not die.")
    return SweepReport(proof=Proof.UNPROVEN, ended=report.ended, spared=spared)


def _nothing_done(why: str) -> SweepReport:
    return SweepReport(proof=Proof.UNPROVEN, spared=(f"Nothing was signalled: {why}.",))
