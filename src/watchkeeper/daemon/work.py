"""A loop whose work is that of runs, each on a thread of its own (see `workers`): what one waits for keeps no other waiting, and is said."""

from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Generic, TypeVar

from watchkeeper.app.record import apply_run
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.loop import Loop, Ticked
from watchkeeper.daemon.workers import Late, Workers
from watchkeeper.domain.model import RunState
from watchkeeper.domain.run_events import (
    Delayed,
)
from watchkeeper.errors import RecordTorn, StateError
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.store import Store, Tx

T = TypeVar("T")


class WorkLoop(Loop, Generic[T]):
    """Does the work of every run of this machine that is in one state."""

    state: RunState
    detail: str
    """What a work is at that says nothing else, as the beginning of a sentence."""
    apart: str | None = None
    """The step of a work in which it waits for another process, by what it says."""

    def __init__(self, log: Log, every_s: float, store: Store, clock: Clock, machine: str, *, abandon_s: float) -> None:
        """Abandon a work that takes longer than `abandon_s`."""
        super().__init__(log, every_s)
        self.workers: Workers[T] = Workers(
            self.name, lambda more: self.nudge_from_thread(more=more), detail=self.detail, abandon_s=abandon_s,
            apart=self.apart,
        )  # fmt: skip
        self._store = store
        self._clock = clock
        self._machine = machine
        self._said: dict[str, str] = {}
        """By run, the trouble that was logged: the same one is logged once."""

    @abstractmethod
    def work(self, run_id: str) -> T:
        """The work of one run. On a thread of its own; any number of them at once, and never two of one run."""

    @abstractmethod
    def finished(self, run_id: str, result: T) -> bool:
        """Tell of a work that is over; True if it moved the run."""

    def nudge(self) -> None:
        """Something may have changed: those that were left in peace for a while are looked at too."""
        self.workers.rouse()
        super().nudge()

    def tick(self) -> Ticked:
        """Take what is over, and begin what is due.

        Raises:
            StateError: the database is in trouble, which does not concern one run.
        """
        over = self.workers.collect()
        moved = [self.finished(run_id, result) for run_id, result in over.results.items()]
        outage = self._report(over.problems)
        run_ids = self._store.read(lambda tx: tx.runs.ids(self._machine, self.state))
        self._forget_all_but(set(run_ids))
        for late in self.workers.late():
            self._say_late(late, is_there=late.run_id in run_ids)
        for run_id in run_ids:
            _ = self.workers.offer(run_id, partial(self.work, run_id))
        if outage is not None:
            raise outage
        return Ticked(worked=any(moved), due_s=self.workers.due_s)

    def _report(self, problems: Mapping[str, Exception]) -> StateError | None:
        """Log each run's own trouble; returns one of the database."""
        outage: StateError | None = None
        for run_id, problem in problems.items():
            if isinstance(problem, RecordTorn):
                continue  # noted, and named where people look; nothing is decided by guess
            if isinstance(problem, StateError):
                outage = problem
                continue
            said = f"{type(problem).__name__}: {problem}"
            if self._said.get(run_id) != said:
                self.log.problem("tick failed", problem, loop=self.name, run=run_id)
                self._said[run_id] = said
        return outage

    def _forget_all_but(self, run_ids: set[str]) -> None:
        self.workers.forget_all_but(run_ids)
        for gone in self._said.keys() - run_ids:
            del self._said[gone]

    def _say_late(self, late: Late, *, is_there: bool) -> None:
        """Say it in the log, and on record, where `wk why` and `wk show` find it."""
        self.log.info("run waits", run=late.run_id, detail=late.detail)
        if not is_there:
            return

        def record(tx: Tx) -> None:
            run = tx.runs.get(late.run_id)
            if run.state is self.state:
                _ = apply_run(tx, run, Delayed(reason=late.detail), self._clock.now())

        self._store.transact("delayed", record, durable=False)
