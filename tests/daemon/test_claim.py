"""The loop that claims: when it looks again."""

from dataclasses import dataclass, field
from datetime import datetime
from io import StringIO
from pathlib import Path

import pytest
from support.records import NOON, add, later, make_task

from watchkeeper.app.claim import Claimant
from watchkeeper.daemon import claim as claiming
from watchkeeper.daemon.log import Log
from watchkeeper.runtimes.system import RandomIds
from watchkeeper.store.sqlite.store import SqliteStore


@dataclass
class Clock:
    """A clock that is set by hand."""

    at: datetime = field(default=NOON)

    def now(self) -> datetime:
        return self.at

    def recorded(self, at: datetime) -> datetime:
        return at

    def boottime_s(self) -> float:
        return (self.at - NOON).total_seconds()


@pytest.mark.parametrize(
    ("due_in_s", "asked_after_s", "expected"), [(2.0, 1.0, 1.0), (2.0, 3.0, 0.0), (0.0, 1.0, None)]
)
def test_a_task_that_becomes_due_while_the_loop_looks_is_due_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, due_in_s: float, asked_after_s: float, expected: float | None
) -> None:
    """Its time comes after the claim has looked and before the loop asks when to look again: nothing else would report it."""
    store = SqliteStore.open(tmp_path / "wk.db", tmp_path / "write.lock", create=True, upgrade=False)
    machine = store.transact("begin", lambda tx: tx.machines.begin_incarnation("m1", "boot", NOON))
    store.transact("add", lambda tx: add(tx, make_task(wake_at=later(due_in_s))))
    clock = Clock()

    def nothing(*_: object) -> None:
        """A claim that finds nothing, while time goes by."""
        clock.at = later(asked_after_s)

    monkeypatch.setattr(claiming, "claim", nothing)
    claimant = Claimant(machine=machine, limit=4)
    loop = claiming.ClaimLoop(Log(clock, StringIO()), 30.0, store, clock, RandomIds(), claimant)
    assert loop.tick().due_s == expected
    store.close()
