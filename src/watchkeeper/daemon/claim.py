"""Take the next tasks from the queue, as long as there is room."""

from watchkeeper.app.claim import Claimant, claim
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.loop import Loop, Ticked
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.ids import Ids
from watchkeeper.ports.store import Store


class ClaimLoop(Loop):
    """Claims tasks until there is none or no room."""

    name = "claim"

    def __init__(self, log: Log, every_s: float, store: Store, clock: Clock, ids: Ids, claimant: Claimant) -> None:
        """Claim for `claimant`."""
        super().__init__(log, every_s)
        self._store = store
        self._clock = clock
        self._ids = ids
        self._claimant = claimant
        self._operation = ids.operation()
        self.closed = False
        """Set to claim nothing more."""

    def tick(self) -> Ticked:
        """Claim what can be claimed."""
        claimed = 0
        while not self.closed:
            # The id is renewed only after an answer: if the last one was lost, the same question gets the same answer.
            answer = claim(self._store, self._clock, self._ids, self._claimant, self._operation)
            if answer is None:
                break
            self._operation = self._ids.operation()
            claimed += 1
            self.log.info("claimed", task=answer.task_id, run=answer.run_id, fence=answer.fence)
        return Ticked(worked=claimed > 0, due_s=self._due_s())

    def _due_s(self) -> float | None:
        """When the next waiting task becomes due. One that is due and was not claimed waits for room, which a settlement makes and tells of."""
        wake_at = self._store.read(lambda tx: tx.queue.next_wake())
        if wake_at is None or self.closed:
            return None
        left_s = (wake_at - self._clock.now()).total_seconds()
        return left_s if left_s > 0 else None
