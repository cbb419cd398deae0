"""Decide the outcomes of the runs that have ended."""

from dataclasses import replace

from watchkeeper.app.settle import Settler
from watchkeeper.app.steps import LOOKS
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.work import WorkLoop
from watchkeeper.domain.model import Outcome, RunState
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.store import Store

_WHILE_LEFTOVERS_S = 1.0


class SettleLoop(WorkLoop[Outcome | None]):
    """Settles ended runs."""

    name = "settle"
    state = RunState.ENDED
    detail = "Its outcome has been gathered"
    apart = LOOKS

    def __init__(
        self, log: Log, every_s: float, store: Store, clock: Clock, machine: str, settler: Settler, *, abandon_s: float
    ) -> None:
        """Settle with `settler`."""
        super().__init__(log, every_s, store, clock, machine, abandon_s=abandon_s)
        self._settler = replace(settler, on_step=self.workers.on_step)

    def work(self, run_id: str) -> Outcome | None:
        """Settle one run, if it can be."""
        return self._settler.settle(run_id)

    def finished(self, run_id: str, result: Outcome | None) -> bool:
        """Log what became of it. One that is not to be settled yet is left in peace for a while."""
        if result is not None:
            self.log.info(
                "settled",
                run=run_id,
                status=result.status.value,
                disposition=result.disposition.value,
                kind=result.kind.value if result.kind else None,
            )
            return True
        run = self._store.read(lambda tx: tx.runs.get(run_id))
        if run.state is RunState.HELD:
            self.log.info("held", run=run_id, detail=run.reason)
        if run.state is RunState.ENDED:
            self.workers.rest(run_id, _WHILE_LEFTOVERS_S)
        return run.state is not RunState.ENDED
