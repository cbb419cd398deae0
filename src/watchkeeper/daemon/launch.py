"""Prepare the runs that are reserved. What is reserved is read from the database, so a claim of a daemon that died is found too."""

from dataclasses import replace

from watchkeeper.app.launch import Launcher
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.work import WorkLoop
from watchkeeper.domain.model import RunState
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.store import Store

_WHILE_SETTING_UP_S = 1.0


class LaunchLoop(WorkLoop[bool]):
    """Prepares executions."""

    name = "launch"
    state = RunState.RESERVED
    detail = "Its launch has been prepared"

    def __init__(
        self,
        log: Log,
        every_s: float,
        store: Store,
        clock: Clock,
        machine: str,
        launcher: Launcher,
        *,
        abandon_s: float,
    ) -> None:
        """Prepare with `launcher`."""
        super().__init__(log, every_s, store, clock, machine, abandon_s=abandon_s)
        self._launcher = replace(launcher, on_step=self.workers.on_step)

    def work(self, run_id: str) -> bool:
        """Prepare one run; True if its set-up has not ended."""
        return self._launcher.launch(run_id)

    def finished(self, run_id: str, result: bool) -> bool:  # noqa: FBT001 - what the work came to
        """Log it. One whose set-up has not ended is left in peace for a while."""
        if result:
            self.workers.rest(run_id, _WHILE_SETTING_UP_S)
            return False
        self.log.info("prepared", run=run_id)
        return True
