"""Telling a shim to end its agent when its socket was cleared away: a request on record in its directory, and a signal that has it look there.

The signal alone means nothing, so a USR1 from another sender is harmless. A shim looks for a request every few seconds anyway: a signal that is lost costs
time only. A shim of an earlier version does not know of requests: it gets TERM, uses the grace that it was started with, and calls the end interrupted.
"""

import signal
from collections.abc import Mapping

from watchkeeper.crash import crashpoint
from watchkeeper.domain import former_names
from watchkeeper.domain.evidence import DecidedBy, LockState
from watchkeeper.domain.model import EndReason, Run
from watchkeeper.ports.runtime import ShimUnreachable
from watchkeeper.runtimes import atomic, proc, records
from watchkeeper.runtimes.boot import pid_namespace
from watchkeeper.runtimes.executions import ExecutionDirectories
from watchkeeper.runtimes.observation import Gathered
from watchkeeper.runtimes.proc import SignalResult


def deliver(directories: ExecutionDirectories, run: Run, found: Gathered, request: Mapping[str, object]) -> bool:
    """Have exactly the shim that launched do as it would if its socket was asked: `stop` with its grace and reason, or `kill`.

    True if the request was delivered. False for a shim that may be dead or is starting: it binds its address before it writes its agent's record. Of two
    requests the later one counts, and doing the same twice is harmless.

    Raises:
        ShimUnreachable: the request could not be recorded; the shim was not told.
    """
    decision, agent = found.decision, found.agent
    if decision is None or decision.record.by is not DecidedBy.SHIM or agent is None or found.unreadable:
        return False
    if found.lock is not LockState.HELD or decision.record.pid_namespace != pid_namespace():
        return False
    number = signal.SIGTERM
    if not agent.hears_requests and request.get("how") == EndReason.EARLY_FAIL.value:
        return False  # its record would name another process as the cause
    if agent.hears_requests:
        try:
            with directories.intact(run) as files:
                atomic.replace(
                    files.fd, records.REQUEST, atomic.encode(former_names.for_any_shim(request)), point="request"
                )
        except OSError as error:
            msg = f"The shim's address was cleared away, and a request cannot be recorded: {error}"
            raise ShimUnreachable(msg) from error
        number = signal.SIGUSR1
    crashpoint("request.signal.before")
    reached = proc.signal_checked(decision.pid, decision.start_ticks, decision.record.boot_id, number)
    crashpoint("request.signal.after")
    return reached is SignalResult.REACHED
