"""Prepare the runs that are reserved, one after the other. What is reserved is read from the database, so a claim of a daemon that died is found too."""

from watchkeeper.app.launch import Launcher
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.loop import Loop, Ticked
from watchkeeper.domain.model import RunState
from watchkeeper.errors import RecordTorn
from watchkeeper.ports.store import Store


class LaunchLoop(Loop):
    """Prepares executions."""

    name = "launch"

    def __init__(self, log: Log, every_s: float, store: Store, machine: str, launcher: Launcher) -> None:
        """Prepare with `launcher`."""
        super().__init__(log, every_s)
        self._store = store
        self._machine = machine
        self._launcher = launcher

    def tick(self) -> Ticked:
        """Prepare every reserved run; one that fails does not keep the others waiting."""
        reserved = [
            run.id for run in self._store.read(lambda tx: tx.runs.live(self._machine)) if run.state is RunState.RESERVED
        ]
        problems: list[Exception] = []
        for run_id in reserved:
            try:
                self._launcher.launch(run_id)
                self.log.info("prepared", run=run_id)
            except RecordTorn:
                continue  # noted, and named where people look
            except Exception as problem:  # noqa: BLE001 - collected, so that every run gets its turn, and raised together below
                problems.append(problem)
        if problems:
            raise problems[0] if len(problems) == 1 else ExceptionGroup("several launches failed", problems)
        return Ticked(worked=bool(reserved))
