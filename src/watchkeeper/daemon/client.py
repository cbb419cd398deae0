"""How commands find, start and stop the daemon. Imports nothing heavy: it is on the path of every command that writes."""

import time
from collections.abc import Callable
from enum import StrEnum

from watchkeeper.compose import Watchkeeper
from watchkeeper.errors import DaemonError, InsideAgent
from watchkeeper.ports.service import DaemonHost, DaemonInfo, DaemonRequest, SpawnAnswer, inside_agent

_WORD_S = 0.1
"""How long a command that has done its own work already waits for a new daemon's word."""

_GONE_S = 5.0
"""How long it waits for one that is about to be gone, so that it can start the next."""

_START_S = 20.0
_AGAIN_S = 0.02


class Ensured(StrEnum):
    """Whether a daemon runs now."""

    ALREADY = "already"
    STARTED = "started"
    STARTING = "starting"
    ENDING = "ending"
    """One runs, takes no new work and will end: what waits is for its successor."""


def running(parts: Watchkeeper) -> DaemonInfo | None:
    """The running daemon, or None. Reads only."""
    return parts.daemon_host.info()


def ensure(parts: Watchkeeper, *, within_s: float = _WORD_S) -> Ensured:
    """Have a running daemon look, or start one.

    Raises:
        InsideAgent: none runs, and this is an agent's shell: a daemon is never born inside an agent.
        DaemonError: it could not be started, or the one that runs works on another database.
    """
    host = parts.daemon_host
    began, ending = time.monotonic(), ""
    while True:
        heard = host.send(DaemonRequest.LOOK)
        # Asked after the order was sent: a daemon that reports that it is ending may have missed the order.
        info = host.info()
        if info is not None:
            # Kept for the next look: one that leaves deletes its record before its lock, and is not one that is starting.
            ending = info.ending
        if info is not None and info.store not in {"", parts.store_name}:
            raise DaemonError(
                f"The daemon that runs works on another database ({info.store}).",
                hint="`wk daemon stop` ends it; agents continue. `wk config show` says which database is set here.",
            )
        if heard and ending != DaemonRequest.LEAVE:
            return Ensured.ENDING if ending else Ensured.ALREADY
        if not host.is_held():
            return _spawn(parts, within_s)
        # One holds the lock and does not listen: it is starting, and will look at everything, or it is leaving, and another one is needed.
        if time.monotonic() - began >= (max(within_s, _GONE_S) if ending else within_s):
            return Ensured.ENDING if ending else Ensured.STARTING
        _ = host.wait_gone(_AGAIN_S)


def _spawn(parts: Watchkeeper, within_s: float) -> Ensured:
    host = parts.daemon_host
    if inside_agent(parts.environ):
        raise InsideAgent(hint="Ask a person to run `wk daemon start`.")
    if _start_service(parts):
        return _answer_of_service(host, within_s)
    match host.spawn(within_s):
        case SpawnAnswer.READY:
            return Ensured.STARTED
        case SpawnAnswer.ALREADY:
            _ = host.send(DaemonRequest.LOOK)
            return Ensured.ALREADY
        case SpawnAnswer.STARTING:
            return Ensured.STARTING


def _start_service(parts: Watchkeeper) -> bool:
    """Where the daemon is installed as a service it is started as one: only so does it outlive the login. False: it is not installed, or does not start so."""
    from watchkeeper.ports.unit import UnitState  # noqa: PLC0415 - most commands find a daemon

    unit = parts.unit
    if not unit.path.exists():
        return False
    try:
        if unit.state() is UnitState.FOREIGN:
            return False
        unit.start()
    except (DaemonError, OSError):
        return False
    return True


def _answer_of_service(host: DaemonHost, within_s: float) -> Ensured:
    """The service was started: wait a moment until it listens."""
    deadline = time.monotonic() + within_s
    while not host.send(DaemonRequest.LOOK):
        if time.monotonic() >= deadline:
            return Ensured.STARTING
        # The daemon is systemd's child, not ours: only another look tells that it listens, and it may not even hold its lock yet.
        time.sleep(_AGAIN_S)
    return Ensured.STARTED


def start(parts: Watchkeeper) -> Ensured:
    """Start a daemon and wait until it is ready. Raises as `ensure` does, and DaemonError if one runs that takes no new work."""
    answer = ensure(parts, within_s=_START_S)
    if answer is Ensured.ENDING:
        raise DaemonError(
            "A daemon runs that is ending and starts nothing new.",
            hint="`wk daemon status` says what it waits for; when it has ended: wk daemon start",
        )
    return answer


def stop(
    parts: Watchkeeper, how: str, *, within_s: float | None = None, on_wait: Callable[[str], None] | None = None
) -> bool:
    """Tell the daemon to end (`leave`, `drain` or `interrupt`) and wait for it; False if none runs.

    Args:
        parts: everything, joined.
        how: what becomes of the agents: left running under their shims, waited for, or ended with receipts.
        within_s: give up waiting after so long; None waits for as long as it takes, except that a daemon told to leave does so within seconds.
        on_wait: called about once a second while waiting, with what keeps the daemon from carrying out the order, or an empty text.

    Raises:
        DaemonError: it did not hear, or did not end in time.
    """
    host = parts.daemon_host
    request = DaemonRequest(how)
    if not _send_when_it_listens(host, request):
        return False
    left = within_s if within_s is not None else (_START_S if request is DaemonRequest.LEAVE else None)
    while not host.wait_gone(1.0 if left is None else min(1.0, left)):
        if on_wait is not None:
            info = host.info()
            on_wait("" if info is None else info.trouble)
        if left is not None:
            left -= 1.0
            if left <= 0:
                raise DaemonError(
                    "The daemon has not ended yet.", hint="`wk daemon status` shows it; its log says what it waits for."
                )
    return True


def _send_when_it_listens(host: DaemonHost, request: DaemonRequest) -> bool:
    """Send the order, and wait for a daemon that is still starting; False if none runs. Raises DaemonError."""
    deadline = time.monotonic() + _START_S
    while host.is_held():
        if host.send(request):
            return True
        if time.monotonic() >= deadline:
            raise DaemonError(
                "The daemon holds its lock but does not listen.", hint="Try again; its log says what it is at."
            )
        _ = host.wait_gone(_AGAIN_S)
    return False


def kill_for_demo(parts: Watchkeeper) -> bool:
    """SIGKILL the daemon, to show that nothing is lost by it."""
    return parts.daemon_host.kill()
