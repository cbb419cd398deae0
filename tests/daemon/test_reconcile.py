"""The net under the hints: what every hint was lost of is noticed within one poll, however many runs there are."""

import io
import itertools
from collections.abc import Sequence

import pytest
from app.stage import Verbs
from support.records import add, make_task

from watchkeeper.app.observe import Observation, Observer
from watchkeeper.app.together import DecisionResult
from watchkeeper.daemon import reconcile
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.reconcile import ReconcileLoop
from watchkeeper.domain.model import Run, RunState
from watchkeeper.store.sqlite.store import SqliteStore

POLL_S = 2.0


@pytest.fixture
def loop(verbs: Verbs, monkeypatch: pytest.MonkeyPatch) -> ReconcileLoop:
    """One whose looks at everything cost so much that each is followed by the longest rest."""
    used = itertools.count()
    monkeypatch.setattr(reconcile.time, "thread_time", lambda: float(next(used)) * 5)
    log = Log(verbs.clock, io.StringIO())
    return ReconcileLoop(log, POLL_S, verbs.store, "m1", verbs.clock, verbs.observer(), lambda: True)


def _working(verbs: Verbs, task_id: str) -> Run:
    run, directories = verbs.launched(task_id), verbs.directories()
    directories.hold(run)
    directories.decide(run)
    directories.agent(run)
    found = verbs.observer().observe(run.id)
    assert found is not None and found.run.state is RunState.RUNNING
    return found.run


def _state(verbs: Verbs, run: Run) -> RunState:
    return verbs.store.read(lambda tx: tx.runs.get(run.id)).state


def test_an_end_that_no_hint_told_of_is_noticed_while_the_look_at_all_rests(
    verbs: Verbs, loop: ReconcileLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends, works = _working(verbs, "t1"), _working(verbs, "t2")
    assert loop.tick().worked
    looked: list[str] = []
    observe_all = Observer.observe_all

    def counted(self: Observer, run_ids: Sequence[str]) -> list[DecisionResult[Observation | None]]:
        looked.extend(run_ids)
        return observe_all(self, run_ids)

    monkeypatch.setattr(Observer, "observe_all", counted)
    verbs.clock.step(POLL_S)
    _ = loop.tick()
    assert looked == [], "nothing has happened, and all is not looked at again"
    verbs.directories().exit(ends)
    verbs.clock.step(POLL_S)
    assert loop.tick().worked
    assert looked == [ends.id]
    assert (_state(verbs, ends), _state(verbs, works)) == (RunState.ENDED, RunState.RUNNING)
    verbs.clock.step(10.0)
    _ = loop.tick()
    assert looked[1:] == [works.id], "after the rest all that are live are looked at"


def test_a_commit_that_no_hint_told_of_is_noticed_while_the_look_at_all_rests(
    verbs: Verbs, loop: ReconcileLoop
) -> None:
    """A command was killed between its commit and its hint."""
    _ = loop.tick()
    verbs.clock.step(POLL_S)
    _ = loop.tick()
    verbs.clock.step(POLL_S)
    assert not loop.tick().worked
    other = SqliteStore.open(verbs.root / "wk.db", verbs.root / "other", create=False, upgrade=False, wait_s=5)
    other.transact("test", lambda tx: add(tx, make_task("t9")))
    other.close()
    verbs.clock.step(POLL_S)
    assert loop.tick().worked
