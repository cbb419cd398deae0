"""Waiting for the end of agents' processes."""

import os
import time
from typing import TYPE_CHECKING, Any, cast

import anyio
import anyio.lowlevel
import pytest

from watchkeeper.daemon import watch
from watchkeeper.daemon.watch import Watches
from watchkeeper.domain.model import RunState
from watchkeeper.domain.samples import a_run

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from watchkeeper.daemon.observe import ObserveLoop
    from watchkeeper.ports.runtime import Runtime

ROUNDS = 5
PAUSE_S = 0.05


class _Dead:
    """A runtime in which every agent is dead, and shows it, or cannot be watched any more."""

    def __init__(self, *, shows: bool) -> None:
        self._shows = shows
        self._watched = 0
        self.enough = anyio.Event()

    def watch(self, _run: object) -> int | None:
        self._watched += 1
        if self._watched > ROUNDS:
            self.enough.set()
        if not self._shows:
            return None
        reader, writer = os.pipe()
        os.close(writer)
        return reader


class _Observe:
    """Sees the run at work at each look, as for as long as its shim has not said how it ended."""

    def __init__(self, tasks: "TaskGroup") -> None:
        self._tasks = tasks
        self.watches: Watches | None = None

    def hint(self, _name: str) -> None:
        """Look at it."""

    def nudge(self) -> None:
        self._tasks.start_soon(self._look)

    async def _look(self) -> None:
        await anyio.lowlevel.checkpoint()
        assert self.watches is not None
        self.watches.watch(a_run(RunState.RUNNING), cast("ObserveLoop", cast("Any", self)))


@pytest.mark.parametrize("shows", [True, False])
def test_a_dead_agent_whose_shim_says_nothing_is_looked_at_in_peace(
    shows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two looks there is a pause, however soon its death is seen again."""
    monkeypatch.setattr(watch, "_AGAIN_S", PAUSE_S)

    async def main() -> None:
        runtime = _Dead(shows=shows)
        async with anyio.create_task_group() as tasks:
            observe = _Observe(tasks)
            observe.watches = Watches(tasks, cast("Runtime", cast("Any", runtime)))
            observe.nudge()
            with anyio.fail_after(20):
                await runtime.enough.wait()
            tasks.cancel_scope.cancel()

    began = time.monotonic()
    anyio.run(main)
    assert time.monotonic() - began >= ROUNDS * PAUSE_S
