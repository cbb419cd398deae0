"""Do what the outbox says, when it is due."""

from watchkeeper.app.perform import Performer
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.loop import Loop, Ticked
from watchkeeper.daemon.observe import ObserveLoop
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.store import Store


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
            self._observe.hint(run_id)
        for given_up in done.given_up:
            self.log.info("not ended", run=given_up.run_id, says=given_up.says)
        due = self._store.read(lambda tx: tx.outbox.next_due(self._performer.machine))
        return Ticked(
            worked=bool(done.touched),
            due_s=None if due is None else max(0.02, (due - self._clock.now()).total_seconds()),
        )
