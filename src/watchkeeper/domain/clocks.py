"""How old something is, as far as more than one clock says so.

The wall clock may be wrong: set by hand, by a bad time server, by a machine that woke with an empty battery. Where it goes forward and no other clock sees that
time pass, it has jumped, and time that was jumped over makes nothing older. The other clocks are the one that counts since boot and, where that tells nothing,
the newest entry of the journal.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

TOLERANCE = timedelta(minutes=1)
"""How far two clocks of one machine may drift apart between two looks."""

OFF = timedelta(hours=12)
"""How long a machine is taken to have been off on the word of the wall clock alone: a night. Time beyond that makes nothing older."""

_MOST_JUMPS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """The wall clock went from one time to a later one, and no other clock saw that time pass."""

    before: datetime
    after: datetime

    @property
    def length(self) -> timedelta:
        """How much time was jumped over."""
        return self.after - self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the clocks say at one moment."""

    boot_id: str
    boottime_s: float
    """Seconds since boot, time asleep included."""
    wall: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is known of the wall clock."""

    reading: Reading
    """The last look."""
    jumps: tuple[Jump, ...] = ()
    """Oldest first."""
    shift: timedelta = field(default=timedelta(), compare=False)
    """How far the wall clock moved against the others since the look before: forward, or back if it is negative."""


def compare(last: Watched | None, now: Reading, newest: datetime | None) -> Watched:
    """Compare the clocks with the last look; where there was none, with the newest entry of the journal, if there is one."""
    known = newest if last is None else last.reading.wall
    jumps = _up_to(now.wall, () if last is None else last.jumps)
    if known is None:
        return Watched(reading=now, jumps=jumps)
    passed = _passed(None if last is None else last.reading, now)
    shift = now.wall - known - passed
    if shift > TOLERANCE:
        jumps = _few((*jumps, Jump(before=now.wall - shift, after=now.wall)))
    elif not (now.wall < known - TOLERANCE or (_same_boot(last, now) and shift < -TOLERANCE)):
        shift = timedelta()
    return Watched(reading=now, jumps=jumps, shift=shift)


def ago(watched: Watched, age: timedelta) -> datetime:
    """The time on the wall clock before which everything is at least so old, whatever was jumped over."""
    left, to = age, watched.reading.wall
    for jump in reversed(watched.jumps):
        counted = max(to - jump.after, timedelta())
        if left <= counted:
            break
        left -= counted
        to = min(to, jump.before)
    return to - left


def trusting(watched: Watched) -> Watched:
    """What is known when a person says that the clock is right: nothing was jumped over."""
    return Watched(reading=watched.reading)


def _same_boot(last: Watched | None, now: Reading) -> bool:
    return last is not None and last.reading.boot_id == now.boot_id and now.boottime_s >= last.reading.boottime_s


def _passed(last: Reading | None, now: Reading) -> timedelta:
    """The most time that can have passed since the last look, by what counts since boot."""
    if last is not None and last.boot_id == now.boot_id and now.boottime_s >= last.boottime_s:
        return timedelta(seconds=now.boottime_s - last.boottime_s)
    return timedelta(seconds=now.boottime_s) + OFF


def _up_to(wall: datetime, jumps: Iterable[Jump]) -> tuple[Jump, ...]:
    """Of jumps what lies in the past: a clock that was set back has not jumped over what is ahead of it."""
    return tuple(
        Jump(before=jump.before, after=min(jump.after, wall)) for jump in jumps if jump.before + TOLERANCE < wall
    )


def _few(jumps: tuple[Jump, ...]) -> tuple[Jump, ...]:
    """Of very many the oldest become one, which makes things younger and never older."""
    if len(jumps) <= _MOST_JUMPS:
        return jumps
    return (Jump(before=jumps[0].before, after=jumps[1].after), *jumps[2:])
