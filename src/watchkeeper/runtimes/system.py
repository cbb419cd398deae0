"""The system's clocks and its randomness."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watchkeeper.domain.run_record import AgentIdentity
    from watchkeeper.ports.clock import Clock

ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
"""Letters and digits of ids: none that are mistaken for one another when read aloud or typed."""

_TASK_LENGTH = 8
_EXECUTION_LENGTH = 16


def own_identity(clock: Clock) -> AgentIdentity:
    """This process, as a record of it would name it. Raises OSError."""
    from watchkeeper.domain.run_record import AgentIdentity  # noqa: PLC0415 - only a daemon names itself
    from watchkeeper.runtimes import proc  # noqa: PLC0415 - as above
    from watchkeeper.runtimes.boot import boot_id  # noqa: PLC0415 - as above

    me = proc.identity(os.getpid())
    if me is None:
        raise OSError("This process cannot find itself in /proc.")
    return AgentIdentity(pid=me[0], start_ticks=me[1], boot_id=boot_id(), started_at=clock.now())


class SystemClock:
    """The system's clocks."""

    def now(self) -> datetime:
        """The time of day in UTC."""
        return datetime.now(UTC)

    def recorded(self, at: datetime) -> datetime:
        """It is the clock that they all read."""
        return at

    def boottime_s(self) -> float:
        """Seconds since boot, time asleep included."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)


class RandomIds:
    """Random ids from the system's own source."""

    def task(self) -> str:
        """Eight characters: about 40 bits."""
        return _random(_TASK_LENGTH)

    def execution(self) -> str:
        """Sixteen characters: about 79 bits."""
        return _random(_EXECUTION_LENGTH)

    def operation(self) -> str:
        """Sixteen characters."""
        return _random(_EXECUTION_LENGTH)


def _random(length: int) -> str:
    # Not `secrets`, which imports OpenSSL. Five bits of a byte choose a letter; a number that stands for none is left out, so each is as likely.
    letters = ""
    while len(letters) < length:
        letters += "".join(ALPHABET[byte & 31] for byte in os.urandom(length) if byte & 31 < len(ALPHABET))
    return letters[:length]
