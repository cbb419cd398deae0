"""One loop class for every role: do `tick` again and again, at least every so often, and at once when nudged.

A tick is a plain blocking function that does one full pass, callable from a test; it runs on a thread of the loop's own, so a slow repository or a slow disk
delays one role and not the others. It never ends the daemon, unless the database is for newer versions now: an outage is logged once, tried again with a
growing wait, and logged once more when it is over.
"""

import asyncio
import contextlib
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass

import anyio
from anyio import to_thread
from anyio.abc import TaskStatus

from watchkeeper.daemon.log import Log
from watchkeeper.errors import DatabaseNewer

_FIRST_WAIT_S = 0.25
_LONGEST_WAIT_S = 30.0
MOMENT_S = 0.02
"""What many threads do within such a moment is looked at once."""
AT_ONCE = 10
"""So many ticks follow their nudges at once. Under a flood of nudges the next ones are a moment apart, and each sees what came within it."""
LONGEST_MOMENT_S = 0.08
"""The moment grows to this while a flood lasts: a tick costs some milliseconds whatever it finds, so fewer ticks leave more time for the work itself."""
_GROWTH = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked:
    """What one pass came to."""

    worked: bool = False
    """Something was done, so the loops that come after this one have something to look at."""
    due_s: float | None = None
    """The next pass is due after so many seconds, if that is sooner than the usual time."""


class Pace:
    """Keeps ticks a moment apart once many have come in a short time."""

    def __init__(self) -> None:
        """No tick has come yet."""
        self._spare_s = AT_ONCE * MOMENT_S
        """How much of the wait between ticks may still be left out; it grows with the time that passes."""
        self._last_s = 0.0
        self._moment_s = MOMENT_S

    def tick(self, now_s: float) -> float:
        """A tick has come at a monotonic time; returns how many seconds the next one has to wait."""
        spare_s = min(AT_ONCE * MOMENT_S, self._spare_s + now_s - self._last_s)
        if spare_s == AT_ONCE * MOMENT_S:
            self._moment_s = MOMENT_S  # the flood is over
        self._spare_s, self._last_s = spare_s - self._moment_s, now_s
        if self._spare_s < 0:
            self._moment_s = min(LONGEST_MOMENT_S, self._moment_s * _GROWTH)
        return max(0.0, -self._spare_s)


class Loop(ABC):
    """Do `tick` again and again."""

    name: str = ""

    def __init__(self, log: Log, every_s: float) -> None:
        """`every_s`: the longest time between two ticks when nothing nudges."""
        self.log = log
        self.wakes: tuple[Loop, ...] = ()
        """The loops that are nudged when this one has done something."""
        self._every_s = every_s
        self._nudged = anyio.Event()
        self._trouble: str | None = None
        self._failures = 0
        self._home: asyncio.AbstractEventLoop | None = None
        self._pace = Pace()
        self._limiter = anyio.CapacityLimiter(1)

    @abstractmethod
    def tick(self) -> Ticked:
        """Do one full pass."""

    def nudge(self) -> None:
        """Something may have changed: tick soon. Only from the event loop's thread."""
        self._nudge()

    def nudge_from_thread(self, *, more: bool = False) -> None:
        """Something was done on another thread: tick soon; a moment later if `more` is about to be. A loop that has ended hears nothing."""
        home = self._home
        if home is not None:
            with contextlib.suppress(RuntimeError):
                _ = home.call_soon_threadsafe(home.call_later, MOMENT_S if more else 0.0, self._nudge)

    def _nudge(self) -> None:
        self._nudged.set()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Tick until cancelled."""
        self._home = asyncio.get_running_loop()
        task_status.started()
        while True:
            self._nudged = anyio.Event()  # clear first, then look: a nudge during the tick is not lost
            wait_s = await self._tick_once()
            with anyio.move_on_after(wait_s):
                await self._nudged.wait()
            if self._failures:
                await anyio.sleep(min(wait_s, _FIRST_WAIT_S))  # nudges do not turn an outage into a busy loop
            elif (owed_s := self._pace.tick(anyio.current_time())) > 0:
                await anyio.sleep(owed_s)

    async def _tick_once(self) -> float:
        try:
            ticked = await to_thread.run_sync(self._named_tick, limiter=self._limiter)
        except DatabaseNewer:
            raise  # a newer version has taken the database over: this daemon has nothing to do any more
        except Exception as problem:  # noqa: BLE001 - the top of a loop: after any error the other roles continue and this one tries again
            return self._failed(problem)
        if self._trouble is not None:
            self.log.info("recovered", loop=self.name, after_failures=self._failures)
            self._trouble, self._failures = None, 0
        if ticked.worked:
            for loop in self.wakes:
                loop.nudge()
        return self._every_s if ticked.due_s is None else min(self._every_s, max(0.0, ticked.due_s))

    def _named_tick(self) -> Ticked:
        threading.current_thread().name = f"wk-{self.name}"
        return self.tick()

    def _failed(self, problem: Exception) -> float:
        """Log a trouble once; the same one again is only counted."""
        said = f"{type(problem).__name__}: {problem}"
        if said != self._trouble:
            self.log.problem("tick failed", problem, loop=self.name)
            self._trouble = said
        self._failures += 1
        return min(_LONGEST_WAIT_S, _FIRST_WAIT_S * (1 << min(self._failures - 1, 10)))
