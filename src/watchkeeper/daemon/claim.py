"""Take the next tasks from the queue, as long as there is room."""

from collections.abc import Callable
from datetime import datetime

from watchkeeper.app.claim import Claimant, claim, next_check_at
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.loop import Loop, Ticked
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.ids import Ids
from watchkeeper.ports.store import Store


class ClaimLoop(Loop):
    """Claims tasks until there is none or no room."""

    name = "claim"

    def __init__(
        self,
        log: Log,
        every_s: float,
        store: Store,
        clock: Clock,
        ids: Ids,
        claimant: Claimant,
        before: Callable[[], object] = lambda: None,
    ) -> None:
        """Claim for `claimant`. `before` is called first: it puts on record what was stopped while the database could not be written."""
        super().__init__(log, every_s)
        self._store = store
        self._clock = clock
        self._ids = ids
        self._claimant = claimant
        self._before = before
        self._operation = ids.operation()
        self.closed = False
        """Set to claim nothing more."""

    def tick(self) -> Ticked:
        """Claim what can be claimed."""
        _ = self._before()
        claimed = 0
        looked = self._clock.now()
        while not self.closed:
            looked = self._clock.now()
            # The id is renewed only after an answer: if the last one was lost, the same question gets the same answer.
            answer = claim(self._store, self._clock, self._ids, self._claimant, self._operation)
            if answer is None:
                break
            self._operation = self._ids.operation()
            claimed += 1
            self.log.info("claimed", task=answer.task_id, run=answer.run_id, fence=answer.fence)
        return Ticked(worked=claimed > 0, due_s=self._due_s(looked))

    def _due_s(self, looked: datetime) -> float | None:
        """When the next waiting task, or the next probe of a service, becomes due.

        One that was due when the last claim looked was seen by it, unless it may not claim at all. One that became due since then is due at once: no process
        else tells of it.
        """
        wake_at = self._store.read(lambda tx: next_check_at(tx, self._claimant.machine.id, looked))
        if wake_at is None or self.closed:
            return None
        return max(0.0, (wake_at - self._clock.now()).total_seconds())
