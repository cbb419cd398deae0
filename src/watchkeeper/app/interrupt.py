"""End every agent because the service is being stopped with them. Each gets its receipt: an outcome of kind `interrupted`."""

from watchkeeper.app.record import apply_run
from watchkeeper.domain.model import RunState
from watchkeeper.domain.run_events import (
    InterruptWanted,
    NeverLaunched,
)
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.store import Store, Tx


def interrupt_all(store: Store, clock: Clock, machine: str) -> int:
    """Ask for the end of every live run's agent on that machine; returns how many there are. What was not launched yet goes back to the queue."""

    def work(tx: Tx) -> int:
        live = tx.runs.live(machine)
        for run in live:
            if run.state is RunState.RESERVED:
                # Its preparation may be under way; the transaction that would record it is refused from now on, and the task is queued again.
                _ = apply_run(tx, run, NeverLaunched(reason="The service was stopped before it started."), clock.now())
            else:
                _ = apply_run(tx, run, InterruptWanted(), clock.now())
        return len(live)

    return store.transact("interrupt", work)
