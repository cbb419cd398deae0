"""The time by the database's clock: what machines that share one agree on, however wrong their own clocks are."""

from datetime import datetime

from watchkeeper.ports.clock import Clock
from watchkeeper.ports.store import Store


class DatabaseClock:
    """The port's `Clock`, for a database with a clock of its own."""

    def __init__(self, store: Store, system: Clock) -> None:
        """`system` are the clocks of this machine."""
        self._store = store
        self._system = system

    def now(self) -> datetime:
        """The time of day by the database."""
        return self._store.time() or self._system.now()

    def recorded(self, at: datetime) -> datetime:
        """A time that a program of this machine read from the machine's clock, as the database's clock would have said it."""
        return at + (self.now() - self._system.now())

    def boottime_s(self) -> float:
        """Seconds since this machine was started, time asleep included."""
        return self._system.boottime_s()
