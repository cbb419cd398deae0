"""What a look at the evidence records: times by the database's clock, and sweeps on the disk at once."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar, cast

import pytest
from app.stage import Verbs
from runtimes.stage import AT, SteppedClock

from watchkeeper.app.observe import Observer
from watchkeeper.domain.model import Proof, Run, RunState
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


def _alive(verbs: Verbs) -> Run:
    run = verbs.launched()
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
