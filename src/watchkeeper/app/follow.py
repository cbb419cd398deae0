"""Follow the output of the runs that work now: name their conversation as soon as it is known, and end early what can only fail."""

from collections.abc import Callable
from dataclasses import dataclass, field

from watchkeeper.app.read_output import Follower
from watchkeeper.app.record import apply_run
from watchkeeper.app.secrets import redactor_of
from watchkeeper.domain.model import Run, RunState
from watchkeeper.domain.run import Condemned, RunEvent, SessionSeen
from watchkeeper.errors import HarnessError
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.harness import Harness
from watchkeeper.ports.runtime import Executions
from watchkeeper.ports.store import Store, Tx


@dataclass(slots=True, kw_only=True)
class Followers:
    """One follower for each run that works. Lost with the daemon, and made anew by reading from the beginning."""

    store: Store
    clock: Clock
    executions: Executions
    harness: Callable[[str], Harness]
    _by_run: dict[str, Follower] = field(default_factory=dict)

    def follow(self, runs: list[Run]) -> bool:
        """Read on in the output of these runs, and forget all others; True if anything was recorded."""
        told = False
        working = {run.id: run for run in runs if run.state is RunState.RUNNING}
        for gone in self._by_run.keys() - working.keys():
            del self._by_run[gone]
        for run in working.values():
            follower = self._follower(run)
            if follower is not None and follower.advance():
                told = self._tell(run, follower) or told
        return told

    def _follower(self, run: Run) -> Follower | None:
        known = self._by_run.get(run.id)
        if known is not None:
            return known
        spec = self.store.read(lambda tx: tx.tasks.get(run.task_id)).spec
        try:
            reader = self.harness(spec.harness).reader(spec)
        except HarnessError:
            return None  # its harness was uninstalled meanwhile; the end is judged without it
        follower = Follower(
            reader=reader,
            path=self.executions.log(run, "stdout"),
            redactor=redactor_of(self.executions, run, spec),
            told_session=run.harness_session,
            told_condemned=run.condemned is not None,
        )
        self._by_run[run.id] = follower
        return follower

    def _tell(self, run: Run, follower: Follower) -> bool:
        session = follower.session()
        if session is not None:
            self._apply(run, SessionSeen(harness_session=session), durable=False)
            follower.told_session = session
        condemned = follower.condemned()
        if condemned is not None:
            self._apply(run, Condemned(condemnation=condemned), durable=True)
            follower.told_condemned = True
        return session is not None or condemned is not None

    def _apply(self, seen: Run, event: RunEvent, *, durable: bool) -> None:
        def work(tx: Tx) -> None:
            run = tx.runs.get(seen.id)
            if run.fence == seen.fence and run.state is RunState.RUNNING:
                _ = apply_run(tx, run, event, self.clock.now())

        self.store.transact("followed", work, durable=durable)
