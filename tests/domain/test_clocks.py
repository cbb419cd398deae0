"""Nothing is older than more than one clock says."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.domain import clocks
from watchkeeper.domain.clocks import OFF, Reading, Watched, ago, compare, trusting

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)


class _Machine:
    """A machine whose wall clock can be wrong, and which is looked at now and then."""

    def __init__(self, up: timedelta = timedelta(hours=1)) -> None:
        self.boot, self.up, self.true, self.error = 1, up, NOON, timedelta()
        self.watched: Watched | None = None

    @property
    def wall(self) -> datetime:
        return self.true + self.error

    def wait(self, time: timedelta) -> None:
        self.true += time
        self.up += time

    def reboot(self, off: timedelta) -> None:
        self.true += off
        self.boot, self.up = self.boot + 1, timedelta()

    def look(self, newest: datetime | None = None) -> Watched:
        reading = Reading(boot_id=str(self.boot), boottime_s=self.up.total_seconds(), wall=self.wall)
        self.watched = compare(self.watched, reading, newest)
        return self.watched


def test_a_clock_that_is_right_is_believed() -> None:
    """Over days, over a night off, over a first look at an old journal of a machine that was up all the time."""
    machine = _Machine(up=60 * DAY)
    assert ago(machine.look(NOON - 50 * DAY), 30 * DAY) == NOON - 30 * DAY
    machine.wait(5 * DAY)
    machine.look()
    machine.reboot(OFF - MINUTE)
    assert ago(machine.look(), 30 * DAY) == machine.wall - 30 * DAY


def test_what_ended_before_a_jump_is_as_old_as_it_was() -> None:
    """Minutes, not 45 days; what ends after it counts from there, and is old 30 days later."""
    machine = _Machine()
    machine.look()
    ended = machine.wall + MINUTE
    machine.wait(10 * MINUTE)
    machine.error = 45 * DAY
    watched = machine.look()
    assert watched.shift == 45 * DAY and ago(watched, 30 * DAY) < ended
    assert ago(watched, MINUTE * 11) < ended <= ago(watched, timedelta())
    after = machine.wall
    machine.wait(30 * DAY + MINUTE)
    assert ago(machine.look(), 30 * DAY) > after
    assert ago(machine.look(), 30 * DAY) > ended


def test_a_clock_that_is_set_right_again_is_believed_again() -> None:
    machine = _Machine()
    machine.look()
    machine.error = 45 * DAY
    machine.look()
    machine.wait(DAY)
    machine.error = timedelta()
    watched = machine.look()
    assert watched.shift == -45 * DAY
    machine.wait(DAY)
    assert ago(machine.look(), 30 * DAY) >= machine.wall - 31 * DAY


def test_a_jump_is_seen_over_a_start_of_the_machine() -> None:
    """Only a night is taken on the word of the wall clock."""
    machine = _Machine()
    machine.look()
    machine.wait(MINUTE)
    machine.reboot(MINUTE)
    machine.error = 45 * DAY
    watched = machine.look()
    assert 45 * DAY - OFF - MINUTE * 2 <= watched.shift <= 45 * DAY
    assert ago(watched, DAY) < NOON


def test_a_jump_is_seen_by_the_journal_where_no_look_was() -> None:
    """The first look of all, by a daemon whose clock was wrong from the start."""
    machine = _Machine()
    machine.error = 45 * DAY
    assert ago(machine.look(NOON), 30 * DAY) < NOON


def test_a_person_may_say_that_the_clock_is_right() -> None:
    machine = _Machine()
    machine.look()
    machine.error = 45 * DAY
    watched = trusting(machine.look())
    assert ago(watched, 30 * DAY) == machine.wall - 30 * DAY


def test_a_clock_that_is_set_back_makes_nothing_older() -> None:
    machine = _Machine()
    machine.look()
    machine.wait(DAY)
    machine.error = -10 * DAY
    watched = machine.look()
    assert watched.shift == -10 * DAY and not watched.jumps
    machine.error = timedelta()
    machine.wait(MINUTE)
    assert ago(machine.look(), DAY) <= NOON, "what ended while it was behind may be minutes old"


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(0, 40)),
        st.tuples(st.just("set"), st.integers(-90, 90)),
        st.tuples(st.just("end"), st.just(0)),
    ),
    max_size=30,
)


@given(_STEPS, st.integers(1, 60))
def test_nothing_goes_before_its_time_whatever_the_clock_does(steps: list[tuple[str, int]], keep: int) -> None:
    """On one boot, looked at after every step: what is let go of is truly so old, but for the drift that is tolerated."""
    machine = _Machine()
    machine.look()
    ended: list[tuple[datetime, datetime]] = []
    for what, days in steps:
        if what == "wait":
            machine.wait(days * DAY)
        elif what == "set":
            machine.error = days * DAY
        else:
            ended.append((machine.wall, machine.true))
        watched = machine.look()
        before = ago(watched, keep * DAY)
        for wall, true in ended:
            if wall < before:
                assert machine.true - true >= keep * DAY - clocks.TOLERANCE * len(steps)


def test_very_many_jumps_become_few() -> None:
    """And what they jumped over still makes nothing older."""
    machine = _Machine()
    machine.look()
    for number in range(200):
        machine.wait(MINUTE)
        machine.error = (number + 1) * DAY
        machine.look()
    watched = machine.look()
    assert len(watched.jumps) <= 64 and ago(watched, DAY) < NOON
