"""Who may act as a machine, where machines share a database.

A machine is a state directory. Its daemon holds a lease, renews it, and stops when it is no longer the newest one; so of two directories with one id, one of
which is a copy, only one acts. A lease that has ended means that the machine is silent: its runs are shown as unreachable, and nothing else follows.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

LEASE_S = 60.0
"""How long a machine is taken to be there after its daemon was last heard of."""

RENEW_S = 15.0
"""How often a daemon renews its lease."""

WATCH_S = RENEW_S + 5.0
"""A lease that was not renewed for so long has lost the daemon that renews it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a machine's lease, or wants it."""

    word: str
    """A random word of the daemon, and behind the full stop where its state directory is."""
    name: str
    """The host's name."""
    boot_id: str
    lease_until: datetime | None = None

    @property
    def directory(self) -> str:
        """Which directory on its host."""
        return self.word.partition(".")[2]


class Contest(StrEnum):
    """What becomes of a daemon that wants to begin while another one's lease has not ended."""

    FREE = "free"
    """No other daemon acts: that one belonged to this directory, whose lock we hold."""
    WATCH = "watch"
    """This host was started anew, or it is a copy of one that works: whether the lease is renewed will tell."""
    TAKEN = "taken"
    """Another directory acts under the same id."""


def contest(other: Holder, me: Holder, now: datetime) -> Contest:
    """Whether `me` may begin where `other` was the last to."""
    if other.lease_until is None or other.lease_until <= now:
        return Contest.FREE
    if other.boot_id == me.boot_id:
        return Contest.FREE if other.directory == me.directory else Contest.TAKEN
    return Contest.WATCH if (other.name, other.directory) == (me.name, me.directory) else Contest.TAKEN
