"""Time."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Two clocks: one for people and records, one that never jumps."""

    def now(self) -> datetime:
        """The time of day, aware, in UTC."""
        ...

    def boottime_s(self) -> float:
        """Seconds since the machine was started, time asleep included (CLOCK_BOOTTIME)."""
        ...
