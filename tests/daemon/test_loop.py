"""The one loop class: nudged, never lost, never ended by what its tick throws."""

import io
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import pairwise

import anyio
import pytest

from watchkeeper.daemon.log import Log
from watchkeeper.daemon.loop import AT_ONCE, LONGEST_MOMENT_S, MOMENT_S, Loop, Pace, Ticked


class _Clock:
    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def recorded(self, at: datetime) -> datetime:
        return at

    def boottime_s(self) -> float:
        return 0.0


class _Counting(Loop):
    """Counts its ticks and does in each what the test gives it."""

    name = "counting"

    def __init__(self, act: Callable[[int], Ticked], every_s: float = 3600.0) -> None:
        self.out = io.StringIO()
        super().__init__(Log(_Clock(), self.out), every_s)
        self._act = act
        self.ticks = 0

    def tick(self) -> Ticked:
        self.ticks += 1
        return self._act(self.ticks)


async def _until(done: Callable[[], bool]) -> None:
    while not done():  # noqa: ASYNC110 - what is waited for happens on a loop's own thread
        await anyio.sleep(0.002)


async def _run_until(loops: Sequence[Loop], done: Callable[[], bool]) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for loop in loops:
                await tasks.start(loop.run)
            await _until(done)
            tasks.cancel_scope.cancel()


def _once(*_: object) -> Ticked:
    return Ticked()


def test_it_ticks_at_once_and_then_only_when_nudged() -> None:
    """An hour between ticks: the second one can only come from the nudge."""
    loop = _Counting(_once)

    async def main() -> None:
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                await tasks.start(loop.run)
                await _until(lambda: loop.ticks == 1)
                loop.nudge()
                await _until(lambda: loop.ticks == 2)
                tasks.cancel_scope.cancel()

    anyio.run(main)
    assert loop.ticks == 2


def test_a_nudge_during_a_tick_is_not_lost() -> None:
    """The flag is cleared before looking, so what happens while looking leads to another look."""
    loop = _Counting(lambda tick: (anyio.from_thread.run_sync(loop.nudge), Ticked())[1] if tick == 1 else Ticked())
    anyio.run(_run_until, [loop], lambda: loop.ticks >= 2)


def test_work_wakes_the_loops_that_come_after() -> None:
    after = _Counting(_once)
    before = _Counting(lambda _tick: Ticked(worked=True))
    before.wakes = (after,)
    anyio.run(_run_until, [after, before], lambda: after.ticks >= 2)


def test_a_tick_that_is_due_sooner_comes_sooner() -> None:
    loop = _Counting(lambda _tick: Ticked(due_s=0.001))
    anyio.run(_run_until, [loop], lambda: loop.ticks >= 3)


def test_an_outage_is_logged_once_and_heals_by_itself() -> None:
    """Three failures for one reason, then success: one line for the trouble, one for its end."""

    def act(tick: int) -> Ticked:
        if tick <= 3:
            raise OSError(5, "Input/output error")
        return Ticked()

    loop = _Counting(act)
    anyio.run(_run_until, [loop], lambda: loop.ticks >= 4 and "recovered" in loop.out.getvalue())
    lines = loop.out.getvalue().splitlines()
    assert [line.split(" ", 2)[2].split(":")[0] for line in lines] == ["tick failed", "recovered"]
    assert "after_failures=3" in lines[1]


def test_another_trouble_is_logged_too() -> None:
    def act(tick: int) -> Ticked:
        if tick <= 2:
            raise OSError(tick, f"trouble {tick}")
        return Ticked()

    loop = _Counting(act)
    anyio.run(_run_until, [loop], lambda: "recovered" in loop.out.getvalue())
    assert loop.out.getvalue().count("tick failed") == 2


@pytest.mark.parametrize("due_s", [-5.0, 0.0])
def test_overdue_is_now(due_s: float) -> None:
    loop = _Counting(lambda _tick: Ticked(due_s=due_s))
    anyio.run(_run_until, [loop], lambda: loop.ticks >= 2)


def test_a_few_ticks_follow_their_nudges_at_once_and_a_flood_is_slowed_down() -> None:
    """What takes a few steps takes them without a wait, also after a flood that is over."""
    pace = Pace()
    now_s = 1000.0
    for _ in range(2):
        assert [pace.tick(now_s) for _ in range(AT_ONCE)] == pytest.approx([0.0] * AT_ONCE)
        waits_s = [MOMENT_S]
        for _ in range(50):
            waits_s.append(pace.tick(now_s))
            now_s += waits_s[-1]
        assert waits_s[1] == pytest.approx(MOMENT_S) and waits_s[-1] == pytest.approx(LONGEST_MOMENT_S)
        assert all(earlier <= later * (1 + 1e-9) for earlier, later in pairwise(waits_s)), "they grow while it lasts"
        now_s += 1.0
