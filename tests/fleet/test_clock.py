"""A machine whose clock is an hour off: all that is recorded and compared is the database's time."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.fleet import Fleet
from support.postgres import shared_databases

from watchkeeper.domain.model import TaskState
from watchkeeper.runtimes.system import SystemClock
from watchkeeper.store.clock import DatabaseClock
from watchkeeper.store.postgres.time import ServerTime

HOUR = timedelta(hours=1)
NEAR = timedelta(seconds=30)
_OFF = """
from datetime import timedelta
from watchkeeper.runtimes.system import SystemClock
right = SystemClock.now
SystemClock.now = lambda self: right(self) + timedelta(seconds={seconds})

from watchkeeper.runtimes import shim_image
shift = "import time; right_ns = time.time_ns; time.time_ns = lambda: right_ns() + {seconds} * 10 ** 9; "
shim_image._RUN = shift + shim_image._RUN
"""
"""A machine has one clock: its shims, which import none of our code, read it too."""


class Off(SystemClock):
    """A clock that is an hour ahead."""

    def now(self) -> datetime:
        return super().now() + HOUR


@pytest.fixture(params=[3600, -3600])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """The second machine's clock is off."""
    databases = shared_databases()
    made = Fleet(tmp_path, databases.empty())
    made.rigs[1].source = tmp_path / "off"
    (tmp_path / "off").mkdir()
    (tmp_path / "off" / "sitecustomize.py").write_text(_OFF.format(seconds=request.param), encoding="utf-8")
    yield made
    made.close()
    databases.drop(made.url)


def test_a_clock_that_is_off_changes_nothing(fleet: Fleet) -> None:
    """A task is claimed when its time has come, not before and not an hour later, and the records say when that was."""
    here, there = fleet.rigs
    there.start_daemon()
    (task,) = fleet.add(1, machine=fleet.node(1))
    done = here.wait_resting(task.id, keep=False)
    assert done.state is TaskState.DONE
    due = datetime.now(UTC) + timedelta(seconds=4)
    (later,) = fleet.add(1, machine=fleet.node(1), on_hold=due)
    done = here.wait_resting(later.id, keep=False)
    (run,) = here.runs(later.id)
    assert done.state is TaskState.DONE and run.claimed_at >= due
    now = datetime.now(UTC)
    outcome = here.outcome(run.id)
    assert outcome is not None and run.settled_at is not None and done.ended_at is not None
    assert run.exit is not None and run.agent is not None and run.shim_started_at is not None
    by_programs = (run.exit.at, run.agent.started_at, run.shim_started_at, done.created_at, done.updated_at)
    by_us = (run.claimed_at, run.settled_at, done.ended_at, outcome.at, *(entry.at for entry in here.journal()))
    for at in (*by_programs, *by_us):
        assert abs(now - at) < NEAR
    machine = fleet.read(lambda tx: tx.machines.get(fleet.node(1)))
    assert machine is not None and machine.lease_until is not None
    assert now < machine.lease_until < now + timedelta(seconds=90)


def test_times_of_other_programs_are_translated(tmp_path: Path) -> None:
    """A shim reads the machine's clock; what it says is recorded as the database would have said it."""
    databases = shared_databases()
    url = databases.empty()
    fleet = Fleet(tmp_path, url)
    clock = DatabaseClock(fleet.store(0), Off())
    assert abs(clock.now() - datetime.now(UTC)) < NEAR
    assert abs(clock.recorded(Off().now()) - datetime.now(UTC)) < NEAR
    fleet.close()
    databases.drop(url)


def test_a_slow_answer_moves_nothing_and_a_clock_that_is_set_does() -> None:
    """The distance of two clocks is moved only as far as an answer proves."""
    ours = [0]
    server = ServerTime(lambda: ours[0])

    def ask(*, answered_at: int, server_us: int) -> None:
        with server.measuring() as measured:
            measured.server_us = server_us
            ours[0] = answered_at

    assert server.now() is None
    ask(answered_at=1_000, server_us=1_000_000)
    first = server.now()
    ask(answered_at=9_000_000, server_us=1_001_000)  # nine seconds for an answer that was given at once
    assert first is not None and server.now() == first + timedelta(microseconds=9_000_000 - 1_000)
    ask(answered_at=9_000_500, server_us=5_000_000_000)
    moved = server.now()
    assert moved is not None and abs(moved - datetime.fromtimestamp(5_000, UTC)) < timedelta(milliseconds=1)
