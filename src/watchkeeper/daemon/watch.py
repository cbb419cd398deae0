"""Wait for the end of agents' processes, each through a pidfd that was checked against the agent's identity.

A shim tells of the end itself; this is how its own violent death is noticed at once, since its agent dies with it.
"""

import contextlib
import os

import anyio
from anyio.abc import TaskGroup

from watchkeeper.daemon.observe import ObserveLoop
from watchkeeper.domain.model import Run
from watchkeeper.ports.runtime import Runtime

_AGAIN_S = 0.2


class Watches:
    """One waiting task for each agent that works."""

    def __init__(self, tasks: TaskGroup, runtime: Runtime) -> None:
        """Wait in `tasks`."""
        self._tasks = tasks
        self._runtime = runtime
        self._watched: set[str] = set()

    def watch(self, run: Run, observe: ObserveLoop) -> None:
        """Watch a run's agent, once. Only from the event loop's thread."""
        if run.id in self._watched or run.agent is None:
            return
        self._watched.add(run.id)
        self._tasks.start_soon(self._wait, run, observe)

    async def _wait(self, run: Run, observe: ObserveLoop) -> None:
        try:
            # Where the system has no descriptor for it, the looks must do.
            with contextlib.suppress(OSError):
                await self._wait_for_end(run, observe)
            # It is dead, and its shim is about to say how; one that does not is looked at in peace.
            await anyio.sleep(_AGAIN_S)
            observe.hint(run.id)
            observe.nudge()
        finally:
            self._watched.discard(run.id)

    async def _wait_for_end(self, run: Run, observe: ObserveLoop) -> None:
        fd = self._runtime.watch(run)
        if fd is not None:
            try:
                await anyio.wait_readable(fd)
            finally:
                os.close(fd)
            observe.hint(run.id)
            observe.nudge()
