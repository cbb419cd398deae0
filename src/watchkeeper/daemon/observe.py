"""Look at the runs that something happened to, and at those whose launch is not decided yet."""

import threading
from collections.abc import Callable

from watchkeeper.app.observe import OBSERVED, Observation, Observer
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.loop import Loop, Ticked
from watchkeeper.domain.model import UNDECIDED_RUN_STATES, Run, RunState
from watchkeeper.errors import RecordTorn
from watchkeeper.ports.store import Store, Tx

_WHILE_UNDECIDED_S = 0.25


class ObserveLoop(Loop):
    """Observes hinted runs."""

    name = "observe"

    def __init__(
        self, log: Log, every_s: float, store: Store, machine: str, observer: Observer, seen: Callable[[Run], None]
    ) -> None:
        """Observe with `observer`; `seen` is called with every run whose agent works."""
        super().__init__(log, every_s)
        self._store = store
        self._machine = machine
        self._observer = observer
        self._seen = seen
        self._guard = threading.Lock()
        self._hints: set[str] = set()

    def hint(self, name: str) -> None:
        """Something happened to a run; `name` is its id or its execution's. From any thread."""
        with self._guard:
            self._hints.add(name)

    def tick(self) -> Ticked:
        """Look at what was hinted at, and at every launch that is not decided."""
        with self._guard:
            hints, self._hints = self._hints, set()
        chosen = self._store.read(lambda tx: self._chosen(tx, hints))
        try:
            after = observe_each(chosen, self._observer, self.log)
        except Exception:
            with self._guard:
                self._hints |= hints  # looked at in vain: they are looked at again
            raise
        for run in after:
            if run.state is RunState.RUNNING:
                self._seen(run)
        undecided = any(run.state in UNDECIDED_RUN_STATES for run in after)
        moved = any(run.state is not was.state for run, was in zip(after, chosen, strict=True))
        return Ticked(worked=moved, due_s=_WHILE_UNDECIDED_S if undecided else None)

    def _chosen(self, tx: Tx, hints: set[str]) -> list[Run]:
        undecided = tx.runs.live(self._machine, UNDECIDED_RUN_STATES)
        return undecided + tx.runs.live(self._machine, OBSERVED - UNDECIDED_RUN_STATES, named=hints)


def observe_each(runs: list[Run], observer: Observer, log: Log) -> list[Run]:
    """Observe each of the runs and log what moved; returns them as they are now. One that fails does not keep the others from being looked at."""
    after: list[Run] = []
    problems: list[Exception] = []
    for run, result in zip(runs, observer.observe_all([run.id for run in runs]), strict=True):
        if result.problem is not None and not isinstance(result.problem, RecordTorn):
            problems.append(result.problem)
        found = (
            None if result.problem is not None else result.get()
        )  # of a torn record nothing is concluded; it is noted, and named where people look
        after.append(run if found is None else found.run)
        if found is not None:
            say(run, found, log)
    problems = list(dict.fromkeys(problems))  # an outage is one problem of them all
    if problems:
        raise problems[0] if len(problems) == 1 else ExceptionGroup("several looks failed", problems)
    return after


def say(was: Run, found: Observation, log: Log) -> None:
    """Log what a look found, if it found anything new."""
    for sentence in found.sweep.spared if found.sweep else ():
        log.info("spared", run=was.id, detail=sentence)
    if found.run.state is RunState.HELD and was.state is not RunState.HELD:
        log.info("held", run=was.id, detail=found.run.reason)
    elif found.run.state is not was.state:
        log.info("observed", run=was.id, was=was.state.value, now=found.run.state.value)
