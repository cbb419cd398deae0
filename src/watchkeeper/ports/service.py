"""The one daemon of a state directory, as seen from outside and from inside."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Protocol

_MARKERS = ("WATCHKEEPER_RUN", "WATCHKEEPER_EXECUTION")
"""Variables that only an agent under Watchkeeper has."""


def inside_agent(environ: Mapping[str, str]) -> bool:
    """Whether a process with this environment is an agent under Watchkeeper, or was started by one."""
    return any(environ.get(name) for name in _MARKERS)


# A named tuple, as in `settings`: every command waits for the class.
class DaemonInfo(NamedTuple):
    """What a running daemon says of itself."""

    pid: int
    start_ticks: int
    boot_id: str
    started_at: datetime
    incarnation: int
    version: str
    wake: str
    """Where it listens for hints and orders."""
    ending: str = ""
    """The order that it is ending under; empty while it takes new work."""
    store: str = ""
    """On which database it works, in words without a password; empty if it does not say."""
    trouble: str = ""
    """What keeps it from carrying out its order; empty if nothing does."""
    frozen: bool = False
    """Its process is stopped (SIGSTOP): it is there, and does nothing."""


class LastWords(NamedTuple):
    """What a daemon said that ended without being told to."""

    pid: int
    at: datetime
    detail: str


class SpawnAnswer(StrEnum):
    """What came of starting a daemon."""

    READY = "ready"
    STARTING = "starting"
    """It had not said that it is ready when we stopped waiting."""
    ALREADY = "already"


class DaemonRequest(StrEnum):
    """A request to a running daemon. `look` is a hint; the others end it."""

    LOOK = "look"
    LEAVE = "leave"
    """End now; agents continue under their shims."""
    DRAIN = "drain"
    """Claim nothing more, and end when no run is live."""
    INTERRUPT = "interrupt"
    """End every agent with a receipt, then end."""


class Wake(Protocol):
    """Hints that a process has committed, on this machine or another. Any of them may be missed, doubled or late."""

    def fileno(self) -> int:
        """Readable when there was one since the last `clear`."""
        ...

    def clear(self) -> bool:
        """Take the hints that have come, and say whether there were any."""
        ...

    def close(self) -> None:
        """Listen no more."""
        ...


class Inbox(Protocol):
    """Where the daemon hears hints and orders."""

    def fileno(self) -> int:
        """A descriptor that is readable when something is there."""
        ...

    def read(self) -> list[str]:
        """Everything that is there, never waiting. Raises OSError."""
        ...

    def is_reachable(self) -> bool:
        """Whether what is sent to its address still comes here."""
        ...

    def close(self) -> None:
        """Stop listening."""
        ...


class DaemonHost(Protocol):
    """Holds, finds, starts and reaches the daemon of one state directory."""

    def info(self) -> DaemonInfo | None:
        """The running daemon, or None. Looks only; the lock is the truth, the record only describes who holds it."""
        ...

    def is_held(self) -> bool:
        """Whether a daemon runs, even one that has not described itself yet."""
        ...

    def hold(self, info: DaemonInfo) -> AbstractContextManager[None]:
        """Be the daemon for as long as the context lasts. Raises DaemonError if there is one already."""
        ...

    def keep_away(self) -> AbstractContextManager[None]:
        """Let no daemon run for as long as the context lasts. Raises DaemonError if there is one."""
        ...

    def describe(self, info: DaemonInfo) -> None:
        """Write the record of the daemon that we are; nothing, if the directory is not ours any more. Raises OSError."""
        ...

    def lost(self) -> str:
        """Why what we hold is not the state directory of that path any more, as a sentence; empty while it is. Only the daemon asks.

        Raises:
            OSError: it cannot be told.
        """
        ...

    def leave_words(self, words: LastWords) -> None:
        """Say why we end without having been told to; kept until the next daemon starts. Raises OSError."""
        ...

    def last_words(self) -> LastWords | None:
        """What the last daemon said, if it ended without having been told to. Looks only."""
        ...

    def listen(self) -> Inbox:
        """Open the inbox; only the daemon does. Raises OSError."""
        ...

    def send(self, request: DaemonRequest) -> bool:
        """Send an order to the daemon; False if no process listens, or if the listener does not hold the lock and so is not the daemon."""
        ...

    def spawn(self, within_s: float) -> SpawnAnswer:
        """Start a daemon, detached, and wait a moment for its word. Raises DaemonError with its own sentence if it could not start."""
        ...

    def kill(self) -> bool:
        """SIGKILL exactly the recorded daemon; False if it is not there. Only the demonstration and tests do this."""
        ...

    def wait_gone(self, within_s: float) -> bool:
        """Wait until no daemon holds the state directory; False if one still does."""
        ...
