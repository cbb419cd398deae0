"""What local times mean where the clocks change, in every zone that there is."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from support.zones import in_zone

from watchkeeper.domain.local_time import instant, last_time_of_day, next_time_of_day

_FIRST, _LAST = datetime(2009, 1, 1, tzinfo=UTC), datetime(2040, 1, 1, tzinfo=UTC)
_STEP = timedelta(days=4)
_SECOND = timedelta(seconds=1)


def _offset(at: datetime, zone: ZoneInfo) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta()


def _changes(zone: ZoneInfo) -> Iterator[tuple[datetime, timedelta, timedelta]]:
    """Every change of a zone's clocks in these years: the first instant after it, the offset before, the one after."""
    at, before = _FIRST, _offset(_FIRST, zone)
    while at < _LAST:
        later = at + _STEP
        if _offset(later, zone) != before:
            low, high = at, later
            while high - low > _SECOND:
                middle = low + timedelta(seconds=(high - low) // _SECOND // 2)
                low, high = (middle, high) if _offset(middle, zone) == before else (low, middle)
            later = high
            yield high, before, _offset(high, zone)
        at, before = later, _offset(later, zone)


def _different_zones() -> list[ZoneInfo]:
    """One zone for each set of changes: most names are others' names."""
    zones: dict[tuple[timedelta, ...], ZoneInfo] = {}
    samples = [_FIRST + timedelta(days=37 * step) for step in range(300)]
    for name in sorted(available_timezones()):
        zone = ZoneInfo(name)
        zones.setdefault(tuple(_offset(at, zone) for at in samples), zone)
    return list(zones.values())


def test_in_no_zone_a_time_means_one_before_it() -> None:
    """In a gap the first instant after it, of two the later; outside of changes the only one."""
    changes = 0
    for zone in _different_zones():
        for at, before, after in _changes(zone):
            changes += 1
            wall_before, wall_after = ((at + offset).replace(tzinfo=None) for offset in (before, after))
            low, high = sorted((wall_before, wall_after))
            gap = wall_after > wall_before
            for wall in (low, low + (high - low) / 2, high - _SECOND):
                wanted = at if gap else (wall - after).replace(tzinfo=UTC)
                assert instant(wall, zone) == wanted, (zone, wall)
                assert wanted.astimezone(zone).replace(tzinfo=None) >= wall
            assert instant(low - _SECOND, zone) == (low - _SECOND - before).replace(tzinfo=UTC), (zone, low)
            assert instant(high, zone) == (high - after).replace(tzinfo=UTC), (zone, high)
    assert changes > 1000


@pytest.mark.parametrize(
    ("zone", "wall", "means"),
    [
        ("Europe/Berlin", "2027-03-28T02:30", "2027-03-28T01:00+00:00"),
        ("Europe/Berlin", "2027-10-31T02:30", "2027-10-31T01:30+00:00"),
        ("Australia/Lord_Howe", "2027-10-03T02:15", "2027-10-02T15:30+00:00"),
        ("Pacific/Apia", "2011-12-30T12:00", "2011-12-30T10:00+00:00"),
        ("Asia/Kathmandu", "2027-01-01T00:00", "2026-12-31T18:15+00:00"),
    ],
)
def test_known_times(zone: str, wall: str, means: str) -> None:
    """By the zone itself, and as the zone of the process."""
    assert instant(datetime.fromisoformat(wall), ZoneInfo(zone)) == datetime.fromisoformat(means)
    with in_zone(zone):
        assert instant(datetime.fromisoformat(wall)) == datetime.fromisoformat(means)


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("now", "next_", "last"),
    [
        ("2027-03-28T00:59:59+00:00", "2027-03-28T01:00:00+00:00", "2027-03-27T01:30:00+00:00"),  # the gap is to come
        ("2027-03-28T01:00:00+00:00", "2027-03-29T00:30:00+00:00", "2027-03-28T01:00:00+00:00"),  # it is over
        ("2027-10-31T00:40:00+00:00", "2027-10-31T01:30:00+00:00", "2027-10-30T00:30:00+00:00"),  # 02:40, the first time
        ("2027-10-31T01:30:00+00:00", "2027-11-01T01:30:00+00:00", "2027-10-31T01:30:00+00:00"),  # 02:30, the second time
    ],
)  # fmt: skip
def test_a_time_of_day_where_clocks_change(now: str, next_: str, last: str) -> None:
    at = datetime.fromisoformat(now)
    assert next_time_of_day(2, 30, at, BERLIN) == datetime.fromisoformat(next_)
    assert last_time_of_day(2, 30, at, BERLIN) == datetime.fromisoformat(last)


def test_a_time_of_day_is_found_when_midnight_comes_twice() -> None:
    """Azores, 2027-10-31 00:59:59 is followed by 00:00."""
    zone = ZoneInfo("Atlantic/Azores")
    first = datetime(2027, 10, 31, 0, 30, tzinfo=UTC)  # 00:30, the first time
    assert next_time_of_day(0, 15, first, zone) == datetime(2027, 10, 31, 1, 15, tzinfo=UTC)


@pytest.mark.parametrize("wall", ["0001-01-01T00:00", "9999-12-31T23:59"])
def test_a_time_at_the_end_of_the_calendar_is_refused(wall: str) -> None:
    with pytest.raises((OverflowError, ValueError)):
        instant(datetime.fromisoformat(wall))
