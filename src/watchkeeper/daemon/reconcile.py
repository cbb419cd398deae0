"""The net under the events: look at every live run now and then, so that a lost hint costs time and never work."""

import time
from collections.abc import Callable

from watchkeeper.app.enforce import renew
from watchkeeper.app.observe import OBSERVED, Observer
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.loop import Loop, Ticked
from watchkeeper.daemon.observe import look
from watchkeeper.domain.model import LIVE_RUN_STATES, RunState
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.store import Store

_SLEPT_S = 30.0
"""A pass that comes so much later than planned means that the machine slept or we were stopped."""

_REST_PER_LOOK = 9.0
"""After a pass the loop rests at least so many times the processor time of the pass: the net uses a tenth of a processor at most, however many runs there are.

What a pass waits for, such as the end of a process, does not count: a lost hint must not wait for it.
"""

_LONGEST_REST_S = 10.0


class ReconcileLoop(Loop):
    """Observes all live runs, and notices that the machine slept."""

    name = "reconcile"

    def __init__(
        self,
        log: Log,
        every_s: float,
        store: Store,
        machine: str,
        clock: Clock,
        observer: Observer,
        keep_spare: Callable[[], bool],
    ) -> None:
        """Observe with `observer`; `keep_spare` sets room aside for stops on a full disk, if there is some."""
        super().__init__(log, every_s)
        self._store = store
        self._machine = machine
        self._clock = clock
        self._observer = observer
        self._keep_spare = keep_spare
        self._planned_s: float | None = None
        self._mark = 0

    def tick(self) -> Ticked:
        """Look at every live run of this machine."""
        now_s, used_s = self._clock.boottime_s(), time.thread_time()
        late_s = 0.0 if self._planned_s is None else now_s - self._planned_s
        if late_s > _SLEPT_S:
            self.log.info("woke late", by_s=round(late_s))
        self._planned_s = now_s + self._every_s
        runs = self._store.read(lambda tx: tx.runs.live(self._machine, LIVE_RUN_STATES - {RunState.RESERVED}))
        self._set_room_aside()
        _ = look([run for run in runs if run.state in OBSERVED], self._observer, self.log)
        for run_id in renew(self._store, self._clock, self._machine):
            self.log.info("stop overdue", run=run_id)
        # A command that died between its commit and its hint has sent no hint; to see that another process committed costs microseconds.
        changed, self._mark = self._store.changed(self._mark)
        # Reserved, ended and undecided runs are the work of other loops: wake those even if nothing moved, because their own hints may have been lost.
        rest_s = min(_LONGEST_REST_S, (time.thread_time() - used_s) * _REST_PER_LOOK)
        self._planned_s = self._clock.boottime_s() + max(self._every_s, rest_s)
        return Ticked(worked=changed or bool(runs), rest_s=rest_s)

    def _set_room_aside(self) -> None:
        try:
            _ = self._keep_spare()
        except OSError as problem:
            self.log.problem("no spare room", problem)
