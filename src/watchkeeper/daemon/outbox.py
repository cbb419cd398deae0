"""Do what the outbox says, when it is due."""

from watchkeeper.app.perform import Performer
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.loop import Loop, Ticked
from watchkeeper.daemon.observe import ObserveLoop
from watchkeeper.domain.effects import LONGEST_WAIT
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.store import Store

_SOON_S = 0.02


class OutboxLoop(Loop):
    """Performs effects."""

    name = "outbox"

    def __init__(
        self, log: Log, every_s: float, store: Store, clock: Clock, performer: Performer, observe: ObserveLoop
    ) -> None:
        """Perform with `performer`, and have the runs that were touched looked at."""
        super().__init__(log, every_s)
        self._store = store
        self._clock = clock
        self._performer = performer
        self._observe = observe

    def tick(self) -> Ticked:
        """Perform everything that is due."""
        done = self._performer.perform_due()
        for run_id in done.touched:
            if run_id not in done.acknowledged:
                self._observe.hint(run_id)
        for run_id in done.silent:
            self.log.info("shim silent", run=run_id)
        for given_up in done.given_up:
            self.log.info("not ended", run=given_up.run_id, detail=given_up.detail)
        return Ticked(worked=bool(done.touched), due_s=self._due_s())

    def _due_s(self) -> float | None:
        due = self._store.read(lambda tx: tx.outbox.next_due(self._performer.machine))
        if due is None:
            return None
        left = due - self._clock.now()
        return _SOON_S if left > LONGEST_WAIT else max(_SOON_S, left.total_seconds())
