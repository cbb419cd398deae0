"""What the tests of verbs stand on."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runtimes.stage import Stage, SteppedClock
from support.records import add, make_spec, make_task, reserve
from support.side import side_commands

from watchkeeper.app.observe import Observer
from watchkeeper.app.perform import Performer
from watchkeeper.app.record import apply_run, apply_task
from watchkeeper.app.record_stop import record_stop
from watchkeeper.app.settle import Settler
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import DirectoryIdentity, Run, RunState, StopHow, StopRequest, Task
from watchkeeper.domain.run_events import (
    HeldBack,
    Prepared,
)
from watchkeeper.domain.settlement import RetryPolicy
from watchkeeper.domain.task import RunHeld
from watchkeeper.harnesses.registry import Registry
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.environment import Environments
from watchkeeper.ports.runtime import Runtime
from watchkeeper.ports.store import Tx
from watchkeeper.runtimes.environments import FileEnvironments
from watchkeeper.runtimes.process import ProcessRuntime
from watchkeeper.store.sqlite.store import SqliteStore
from watchkeeper.workspaces.git import GitWorkspace

NOWHERE = DirectoryIdentity(device=1, inode=1)
"""A directory that is nowhere to be found."""


@dataclass
class Verbs:
    """A database, a clock, a runtime."""

    root: Path
    """The state directory."""
    store: SqliteStore
    clock: SteppedClock
    runtime: Runtime
    environments: Environments

    def performer(self, **changes: Any) -> Performer:
        """Performs effects."""
        made = Performer(
            store=self.store, clock=self.clock, runtime=self.runtime, environments=self.environments, machine="m1",
            forget=GitWorkspace().forget,
        )  # fmt: skip
        return replace(made, **changes)

    def prepared(self, task_id: str = "t1", directory: DirectoryIdentity = NOWHERE) -> Run:
        """A task with a run that is prepared; the start of its shim is in the outbox."""

        def work(tx: Tx) -> Run:
            run = reserve(tx, add(tx, make_task(task_id)))
            return apply_run(tx, run, Prepared(directory=directory), self.clock.now())

        return self.store.transact("test", work)

    def launched(self, task_id: str = "t1", **spec: Any) -> Run:
        """A task with a prepared run whose execution directory is there. What its shim would write is up to the test."""
        run = self.store.transact("test", lambda tx: reserve(tx, add(tx, make_task(task_id, spec=make_spec(**spec)))))
        directory = self.runtime.prepare(self.directories().request(run))
        return self.store.transact(
            "test", lambda tx: apply_run(tx, tx.runs.get(run.id), Prepared(directory=directory), self.clock.now())
        )

    def directories(self) -> Stage:
        """Writes records into the execution directories, as shims do."""
        assert isinstance(self.runtime, ProcessRuntime)
        return Stage(self.root, self.root, self.clock, self.runtime)

    def observer(self, clock: Clock | None = None) -> Observer:
        """Looks at the evidence."""
        return Observer(store=self.store, clock=clock or self.clock, runtime=self.runtime)

    def settler(self) -> Settler:
        """Settles ended runs."""
        return Settler(
            store=self.store, clock=self.clock, runtime=self.runtime, workspace=GitWorkspace(), harness=Registry().get,
            policy=RetryPolicy(), commands=side_commands(self.store, self.clock, self.runtime),
        )  # fmt: skip

    def held(self, task_id: str = "t1") -> Run:
        """A task whose run is held, because its directory is missing."""
        run = self.prepared(task_id)
        at = self.clock.now()

        def work(tx: Tx) -> Run:
            held = apply_run(tx, run, HeldBack(reason="It is missing."), at)
            event = RunHeld(reason="It is missing.", kind=FailureKind.UNKNOWN, at=at)
            _ = apply_task(tx, tx.tasks.get(task_id), event, at)
            return held

        return self.store.transact("test", work)

    def stop(self, task_id: str = "t1", how: StopHow = StopHow.STOP, by: str = "ada") -> Task:
        """Record that a person wants a task to end; the task as it is then."""
        return record_stop(self.store, self.clock, task_id, StopRequest(how=how, by=by, at=self.clock.now()))

    def task(self, task_id: str = "t1") -> Task:
        """A task as it is recorded."""
        return self.store.read(lambda tx: tx.tasks.get(task_id))

    def run(self, run_id: str = "t1.1") -> Run:
        """A run as it is recorded."""
        return self.store.read(lambda tx: tx.runs.get(run_id))

    def state(self, run_id: str = "t1.1") -> RunState:
        """Where a run stands."""
        return self.run(run_id).state

    def kinds(self) -> list[str]:
        """The kinds of the journal's entries."""
        return [entry.kind for entry in self.store.read(lambda tx: tx.journal.after(0, 1000))]

    def pending(self) -> int:
        """How many effects wait."""
        return self.store.read(lambda tx: tx.outbox.pending())


@contextmanager
def open_verbs(root: Path) -> Generator[Verbs]:
    """A real database and a real runtime in `root`, on a clock that is moved by hand."""
    state = root / "state"
    state.mkdir(mode=0o700)
    (state / "environments").mkdir(mode=0o700)
    store = SqliteStore.open(state / "wk.db", state / "write.lock", create=True, upgrade=False, wait_s=5)
    clock = SteppedClock()
    runtime = ProcessRuntime(state, root / "sockets", None, lambda: root / "image.py", clock)
    try:
        yield Verbs(state, store, clock, runtime, FileEnvironments(state / "environments"))
    finally:
        store.close()
