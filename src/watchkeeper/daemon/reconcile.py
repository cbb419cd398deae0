"""The net under the events: look at every live run now and then, so that a lost hint costs time and never work.

    every `daemon.poll`   did any process commit? is the end of a run on record that the database has as running?
    as often as it may    all evidence of every live run

The first costs a few system calls for each run. The second reads several files of each run, so it rests longer than the poll where there are hundreds.
"""

import time
from collections.abc import Callable

from watchkeeper.app.enforce import renew
from watchkeeper.app.observe import OBSERVED, Observer
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.loop import Loop, Ticked
from watchkeeper.daemon.observe import observe_each
from watchkeeper.domain.model import LIVE_RUN_STATES, RunState
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.store import Store

_SLEPT_S = 30.0
"""A pass that comes so much later than planned means that the machine slept or we were stopped."""

_REST_PER_LOOK = 9.0
"""After a look at everything the next one waits at least so many times the processor time of the look: the net uses a tenth of a processor at most, however
many runs there are.

What a look waits for, such as the end of a process, does not count: a lost hint must not wait for it.
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
        self._look_due_s = 0.0
        """When everything is looked at next, in seconds since boot."""
        self._mark = 0

    def tick(self) -> Ticked:
        """Look at every live run of this machine; while that rests, at those whose end is on record."""
        now_s = self._clock.boottime_s()
        late_s = 0.0 if self._planned_s is None else now_s - self._planned_s
        if late_s > _SLEPT_S:
            self.log.info("woke late", by_s=round(late_s))
        self._planned_s = now_s + self._every_s
        worked = self._look_for_ends() if now_s < self._look_due_s else self._look_at_all()
        # A command that died between its commit and its hint has sent no hint; to see that another process committed costs microseconds.
        changed, self._mark = self._store.changed(self._mark)
        self._planned_s = self._clock.boottime_s() + self._every_s
        return Ticked(worked=changed or worked)

    def _look_at_all(self) -> bool:
        used_s = time.thread_time()
        runs = self._store.read(lambda tx: tx.runs.live(self._machine, LIVE_RUN_STATES - {RunState.RESERVED}))
        self._set_room_aside()
        _ = observe_each([run for run in runs if run.state in OBSERVED], self._observer, self.log)
        for run_id in renew(self._store, self._clock, self._machine):
            self.log.info("stop overdue", run=run_id)
        rest_s = min(_LONGEST_REST_S, (time.thread_time() - used_s) * _REST_PER_LOOK)
        self._look_due_s = self._clock.boottime_s() + rest_s
        # Reserved, ended and undecided runs are the work of other loops: wake those even if nothing moved, because their own hints may have been lost.
        return bool(runs)

    def _look_for_ends(self) -> bool:
        """Observe the runs that have ended and whose end was not heard of."""
        runs = self._store.read(lambda tx: tx.runs.live(self._machine, {RunState.RUNNING}))
        executions = self._observer.runtime.executions()
        ended = [run for run in runs if executions.has_exit(run)]
        _ = observe_each(ended, self._observer, self.log)
        return bool(ended)

    def _set_room_aside(self) -> None:
        try:
            _ = self._keep_spare()
        except OSError as problem:
            self.log.problem("no spare room", problem)
