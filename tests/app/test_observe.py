"""What a look at the evidence records: times by the database's clock, and sweeps on the disk at once."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar, cast

import pytest
from app.stage import Verbs
from runtimes.stage import AT, SteppedClock

from watchkeeper.app import together
from watchkeeper.app.observe import Observer
from watchkeeper.app.off_record import note_of
from watchkeeper.domain.evidence import Evidence
from watchkeeper.domain.model import Proof, Run, RunState, StopHow
from watchkeeper.ports.runtime import SweepReport
from watchkeeper.ports.store import Store, Tx

T = TypeVar("T")

OFF = timedelta(hours=1)


@dataclass
class ShiftedClock:
    """A database whose clock is an hour ahead of this machine's, which the shims read."""

    machine: SteppedClock

    def now(self) -> datetime:
        return self.machine.now() + OFF

    def recorded(self, at: datetime) -> datetime:
        return at + OFF

    def boottime_s(self) -> float:
        return self.machine.boottime_s()


class _NotingStore:
    """A database that notes the name of each transaction, and whether it was to be on the disk at once."""

    def __init__(self, verbs: Verbs) -> None:
        self._store = verbs.store
        self.noted: list[tuple[str, bool]] = []

    def read(self, work: Callable[[Tx], T]) -> T:
        return self._store.read(work)

    def transact(self, name: str, work: Callable[[Tx], T], *, durable: bool = True) -> T:
        self.noted.append((name, durable))
        return self._store.transact(name, work, durable=durable)


def _observer(verbs: Verbs) -> Observer:
    return verbs.observer(ShiftedClock(verbs.clock))


def _alive(verbs: Verbs, task_id: str = "t1") -> Run:
    run = verbs.launched(task_id)
    directories = verbs.directories()
    directories.hold(run)
    directories.decide(run)
    directories.agent(run)
    return run


def test_the_start_of_an_agent_is_recorded_in_the_databases_time(verbs: Verbs) -> None:
    run = _alive(verbs)
    _ = _observer(verbs).observe(run.id)
    now = verbs.run()
    assert now.state is RunState.RUNNING
    assert now.agent is not None and now.agent.started_at == AT + OFF


def test_an_exit_and_its_agent_are_recorded_in_the_databases_time(verbs: Verbs) -> None:
    """Also where both are met at one look."""
    run = _alive(verbs)
    verbs.directories().exit(run, at=(AT + timedelta(seconds=5)).isoformat())
    _ = _observer(verbs).observe(run.id)
    now = verbs.run()
    assert now.state is RunState.ENDED
    assert now.agent is not None and now.agent.started_at == AT + OFF
    assert now.exit is not None and now.exit.at == AT + OFF + timedelta(seconds=5)


@pytest.mark.parametrize("shim_died", [False, True])
def test_only_what_can_be_seen_again_may_be_lost_in_a_power_cut(
    verbs: Verbs, monkeypatch: pytest.MonkeyPatch, shim_died: bool
) -> None:
    """A record in the directory is read again. A sweep ended the processes, so the next one finds none of them."""
    run = _alive(verbs)
    if shim_died:
        lock = verbs.directories().directory(run) / "lock"
        lock.unlink()
        lock.touch()
        monkeypatch.setattr(verbs.runtime, "sweep", lambda run: SweepReport(proof=Proof.SWEPT, ended=("7 agent",)))
    store = _NotingStore(verbs)
    _ = replace(verbs.observer(), store=cast("Store", store)).observe(run.id)
    assert store.noted == [("observed_shim_died", True) if shim_died else ("observed_alive", False)]


def test_many_runs_are_recorded_together_and_one_that_fails_concerns_itself_alone(
    verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One transaction for those of which the same is proven. A run that is not there tells nothing; a directory that cannot be read is a failed look."""
    monkeypatch.setattr(together, "LONGEST_S", 60.0)  # also on a busy machine
    runs = [_alive(verbs, f"t{number}") for number in range(6)]
    for run in runs[3:]:
        verbs.directories().exit(run, at=AT.isoformat())
    bad = runs[0].id
    real = verbs.runtime.observe

    def observe(run: Run, *, stop_asked: bool) -> Evidence:
        if run.id == bad:
            raise OSError(5, "Input/output error")
        return real(run, stop_asked=stop_asked)

    monkeypatch.setattr(verbs.runtime, "observe", observe)
    store = _NotingStore(verbs)
    results = replace(verbs.observer(), store=cast("Store", store)).observe_all([*(run.id for run in runs), "gone.1"])
    assert isinstance(results[0].problem, OSError)
    assert [None if result.value is None else result.value.run.state for result in results] == [
        None, RunState.RUNNING, RunState.RUNNING, RunState.ENDED, RunState.ENDED, RunState.ENDED, None,
    ]  # fmt: skip
    assert [verbs.state(run.id) for run in runs[1:]] == [RunState.RUNNING] * 2 + [RunState.ENDED] * 3
    assert store.noted == [("observed_alive", False), ("observed_ended", False)]


def test_a_stop_off_the_record_is_recorded_before_its_run_is_concluded(verbs: Verbs) -> None:
    """Also in a look at many: the run is found ended, and its task stopped."""
    runs = [_alive(verbs, task_id) for task_id in ("t1", "t2")]
    database_id = verbs.store.read(lambda tx: tx.machines.database_id())
    for run in runs:
        verbs.directories().exit(run, at=AT.isoformat())
    verbs.runtime.off_record.put(note_of(runs[1], database_id, StopHow.KILL, "ada", verbs.clock, None))
    results = verbs.observer().observe_all([run.id for run in runs])
    assert [result.get() is not None for result in results] == [True, True]
    assert verbs.task("t1").stop is None
    stopped = verbs.task("t2").stop
    assert stopped is not None and stopped.by == "ada"
    kinds = [entry.kind for entry in verbs.store.read(lambda tx: tx.journal.after(0, 1000, "t2"))]
    assert kinds.index("task.stop_asked") < kinds.index("run.exit_seen")
