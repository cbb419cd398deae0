"""Time."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Two clocks: one for people and records, one that never jumps."""

    def now(self) -> datetime:
        """The time of day, aware, in UTC; where machines share a database, by its clock."""
        ...

    def recorded(self, at: datetime) -> datetime:
        """What another program of this machine read from the machine's clock, as our records say it."""
        ...

    def boottime_s(self) -> float:
        """Seconds since the machine was started, time asleep included (CLOCK_BOOTTIME)."""
        ...
