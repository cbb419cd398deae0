"""What time it is by the server, without asking it: each transaction's first answer carries it.

The answer was given after we asked and before we read it. That bounds how far the two clocks are apart, and what we took for the distance is moved only as
far as the bounds demand: a slow answer changes nothing, a clock that was set changes it at once. Ours is the clock that never jumps.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Measured:
    """One answer."""

    server_us: int | None = None
    """What the server's clock said, in microseconds since 1970."""


def _boottime_us() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


class ServerTime:
    """How far the server's clock is from ours."""

    def __init__(self, boottime_us: Callable[[], int] = _boottime_us) -> None:
        """`boottime_us` is our clock."""
        self._boottime_us = boottime_us
        self._ahead_us: int | None = None

    @contextlib.contextmanager
    def measuring(self) -> Generator[Measured, None, None]:
        """Around a question whose answer says the server's time."""
        answer, asked = Measured(), self._boottime_us()
        yield answer
        if answer.server_us is not None:
            least, most = answer.server_us - self._boottime_us(), answer.server_us - asked
            known = self._ahead_us
            self._ahead_us = most if known is None else max(least, min(most, known))

    def now(self) -> datetime | None:
        """The server's time; None if nothing was ever heard of it."""
        if self._ahead_us is None:
            return None
        return _EPOCH + timedelta(microseconds=self._ahead_us + self._boottime_us())
