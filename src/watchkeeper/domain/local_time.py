"""From a local time, as people and programs write it, to the instant that it means.

When clocks are set forward, some local times never occur; when they are set back, some occur twice. Each still means one instant, and never one before the
time that was written:

    a time in the gap       the first instant after the gap
    a time that occurs twice    the later of the two

Only the conversion from UTC to local time is used, which is unambiguous in every zone.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

_REACH = timedelta(hours=26)
"""No zone is further from UTC; the instant that is looked for lies within."""

_STEP = timedelta(hours=6)
"""Clocks are not changed twice within so short a time."""

_SECOND = timedelta(seconds=1)


def instant(wall: datetime, zone: tzinfo | None = None) -> datetime:
    """The instant, in UTC, that a local time without a zone means.

    Args:
        wall: the local time; what it says of its own zone is ignored.
        zone: the zone; None is that of this process.

    Raises:
        OverflowError: it is too close to the first or the last time that can be written.
        ValueError: the same, where the system says so.
    """
    naive = wall.replace(tzinfo=None, fold=0)
    found: datetime | None = None
    for start, end, offset in _stretches(naive.replace(tzinfo=UTC, microsecond=0), zone):
        at = (naive - offset).replace(tzinfo=UTC)
        if start <= at < end:
            found = at  # the stretches are in order: the last one counts
        elif found is None and at < start:
            found = start  # it is in the gap before this stretch, unless a later one shows it
    if found is None:
        raise OverflowError("no instant near this local time")  # a zone further from UTC than any is
    return found


def next_time_of_day(hour: int, minute: int, now: datetime, zone: tzinfo | None = None) -> datetime:
    """The first instant after `now` at which the clock shows this time of day, or would if it were not in a gap. Raises as `instant`."""
    return next(at for at in _times_of_day(hour, minute, now, zone, (-1, 0, 1, 2, 3)) if at > now)


def last_time_of_day(hour: int, minute: int, now: datetime, zone: tzinfo | None = None) -> datetime:
    """The last instant, not after `now`, that this time of day means. Raises as `instant`."""
    return next(at for at in _times_of_day(hour, minute, now, zone, (1, 0, -1, -2, -3)) if at <= now)


def _times_of_day(
    hour: int, minute: int, now: datetime, zone: tzinfo | None, days: tuple[int, ...]
) -> Iterator[datetime]:
    """The time of day on some days by the calendar: a day on which the clocks change has no 24 hours."""
    today = now.astimezone(zone).replace(tzinfo=None, hour=hour, minute=minute, second=0, microsecond=0)
    return (instant(today + timedelta(days=each), zone) for each in days)


def _stretches(about: datetime, zone: tzinfo | None) -> Iterator[tuple[datetime, datetime, timedelta]]:
    """The stretches of one offset each around an instant, in order: first instant, end, offset."""
    start = at = about - _REACH
    offset = _offset(at, zone)
    while at < about + _REACH:
        later = at + _STEP
        changed = _offset(later, zone)
        if changed != offset:
            edge = _edge(at, later, offset, zone)
            yield start, edge, offset
            start, offset = edge, changed
        at = later
    yield start, at, offset


def _edge(before: datetime, after: datetime, offset: timedelta, zone: tzinfo | None) -> datetime:
    """The first instant in between at which the offset is another one."""
    while after - before > _SECOND:
        middle = before + timedelta(seconds=int((after - before).total_seconds()) // 2)
        if _offset(middle, zone) == offset:
            before = middle
        else:
            after = middle
    return after


def _offset(at: datetime, zone: tzinfo | None) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta()
