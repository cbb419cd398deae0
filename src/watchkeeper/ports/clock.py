"""Time."""

from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from watchkeeper.domain.clocks import Watched


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


class ClockMemory(Protocol):
    """What was known of this machine's clocks at the last look."""

    def boot_id(self) -> str:
        """Which boot of the machine this is. Raises OSError."""
        ...

    def last(self) -> "Watched | None":
        """The last look; None if there was none that can be read. Raises OSError where the system fails."""
        ...

    def keep(self, watched: "Watched") -> None:
        """Keep a look for the next one. Raises OSError."""
        ...
