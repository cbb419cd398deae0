"""Which things are old enough to be let go of, by more than the wall clock."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from watchkeeper.domain import clocks
from watchkeeper.domain.clocks import Reading, Watched
from watchkeeper.ports.clock import Clock, ClockMemory
from watchkeeper.ports.store import Store, Tx

Ago = Callable[[timedelta], datetime]
"""The time before which everything is at least so old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """Watches the clocks."""

    store: Store
    clock: Clock
    memory: ClockMemory

    def watched(self) -> Watched:
        """What is known of the wall clock now. Looks only. Raises OSError."""
        last = self.memory.last()
        now = Reading(boot_id=self.memory.boot_id(), boottime_s=self.clock.boottime_s(), wall=self.clock.now())
        return clocks.compare(last, now, self.store.read(_newest) if last is None else None)

    def check(self) -> Watched:
        """The same, kept for the next look. Raises OSError: then nothing is known, and nothing may be let go of for its age."""
        watched = self.watched()
        self.memory.keep(watched)
        return watched

    def trust(self) -> Watched:
        """A person says that the wall clock is right. Raises OSError."""
        watched = clocks.trusting(self.watched())
        self.memory.keep(watched)
        return watched


def ago_by(watched: Watched) -> Ago:
    """Tell ages by what is known of the clock."""
    return partial(clocks.ago, watched)


def _newest(tx: Tx) -> datetime | None:
    """When the newest entry of the journal was written."""
    entries = tx.journal.after(tx.journal.last() - 1, 1)
    return entries[0].at if entries else None
