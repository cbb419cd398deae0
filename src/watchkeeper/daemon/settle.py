"""Decide the outcomes of the runs that have ended."""

from watchkeeper.app.settle import Settler
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.loop import Loop, Ticked
from watchkeeper.domain.model import RunState
from watchkeeper.errors import RecordTorn
from watchkeeper.ports.store import Store

_WHILE_LEFTOVERS_S = 1.0


class SettleLoop(Loop):
    """Settles ended runs."""

    name = "settle"

    def __init__(self, log: Log, every_s: float, store: Store, machine: str, settler: Settler) -> None:
        """Settle with `settler`."""
        super().__init__(log, every_s)
        self._store = store
        self._machine = machine
        self._settler = settler

    def tick(self) -> Ticked:
        """Settle every run that can be; one that fails does not keep the others waiting."""
        ended = [
            run.id for run in self._store.read(lambda tx: tx.runs.live(self._machine)) if run.state is RunState.ENDED
        ]
        problems: list[Exception] = []
        worked = False
        for run_id in ended:
            try:
                worked = self._settle(run_id) or worked
            except RecordTorn:
                continue  # noted, and named where people look; nothing is decided by guess
            except Exception as problem:  # noqa: BLE001 - collected, so that every run gets its turn, and raised together below
                problems.append(problem)
        if problems:
            raise problems[0] if len(problems) == 1 else ExceptionGroup("several settlements failed", problems)
        return Ticked(worked=worked, due_s=_WHILE_LEFTOVERS_S if ended else None)

    def _settle(self, run_id: str) -> bool:
        outcome = self._settler.settle(run_id)
        if outcome is not None:
            self.log.info(
                "settled",
                run=run_id,
                status=outcome.status.value,
                disposition=outcome.disposition.value,
                kind=outcome.kind.value if outcome.kind else None,
            )
            return True
        run = self._store.read(lambda tx: tx.runs.get(run_id))
        if run.state is RunState.HELD:
            self.log.info("held", run=run_id, says=run.reason)
        return run.state is not RunState.ENDED
