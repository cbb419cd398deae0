"""Effects: what cannot be done now is tried again, and what is tried in vain is said."""

import threading
from contextlib import nullcontext
from datetime import timedelta

import pytest
from app.stage import Verbs
from support.waiting import wait_until

from watchkeeper.app import enforce, perform
from watchkeeper.app.perform import MAX_END_ATTEMPTS, SILENT_ATTEMPTS, Performer
from watchkeeper.app.record import apply_run
from watchkeeper.domain.effects import EndExecution
from watchkeeper.domain.model import EndReason, Run, RunState, StopHow, TaskState
from watchkeeper.domain.run_events import (
    AgentSeen,
)
from watchkeeper.domain.samples import AGENT
from watchkeeper.errors import RecordTorn, Refused, WatchkeeperError
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.runtime import ShimUnreachable
from watchkeeper.ports.store import OutboxRow, Tx
from watchkeeper.runtimes.process import ProcessRuntime


def test_the_end_of_a_settled_run_is_given_up_in_the_end(verbs: Verbs) -> None:
    """Its directory is missing and no agent of it was ever seen: neither told nor proven, so it is tried a dozen times and then said to have failed."""
    verbs.held()
    assert verbs.stop().state is TaskState.STOPPED
    assert verbs.state() is RunState.SETTLED
    performer = verbs.performer()
    for attempt in range(1, MAX_END_ATTEMPTS + 1):
        assert verbs.pending()
        assert "run.end_given_up" not in verbs.kinds()
        given_up = performer.perform_due().given_up
        assert bool(given_up) is (attempt == MAX_END_ATTEMPTS)
        verbs.clock.step(6)
    assert not verbs.pending()
    assert verbs.kinds().count("run.end_given_up") == 1
    assert verbs.state() is RunState.SETTLED


class _Silent(ProcessRuntime):
    """A runtime whose shims do not answer, and take their time to do so."""

    def __init__(self, verbs: Verbs, told: list[str]) -> None:
        super().__init__(verbs.root, verbs.root, None, lambda: verbs.root, verbs.clock)
        self._moved = verbs.clock
        self._told = told

    def end(self, run: Run, how: StopHow, *, grace_s: float | None, why: EndReason) -> bool:
        del how, grace_s, why
        self._told.append(f"end {run.id}")
        self._moved.step(2)
        raise ShimUnreachable("It does not answer.")

    def start_shim(self, run: Run) -> None:
        self._told.append(f"start {run.id}")


def _running(verbs: Verbs, task_id: str) -> None:
    run = verbs.prepared(task_id)

    def work(tx: Tx) -> None:
        for row in tx.outbox.due(verbs.clock.now(), 10, "m1"):
            tx.outbox.done(row.id)
        _ = apply_run(tx, run, AgentSeen(agent=AGENT), verbs.clock.now())

    verbs.store.transact("test", work)


def test_a_silent_shim_is_said_once_and_asked_more_seldom(verbs: Verbs) -> None:
    """For ever, because the agent is to end; but not in silence, and not all the time."""
    _running(verbs, "t1")
    _ = verbs.stop()
    told: list[str] = []
    performer = verbs.performer(runtime=_Silent(verbs, told))
    silent = [tuple(_after(verbs, performer, 6)) for _ in range(SILENT_ATTEMPTS + 10)]
    assert silent.count(("t1.1",)) == 1 and silent.index(("t1.1",)) == SILENT_ATTEMPTS - 1
    asked = len(told)
    assert asked <= SILENT_ATTEMPTS + 3, "it is asked once in half a minute"
    for _ in range(20):
        _ = _after(verbs, performer, 6)
    assert asked < len(told) and verbs.pending() == 1


def _after(verbs: Verbs, performer: Performer, seconds: float) -> list[str]:
    silent = performer.perform_due().silent
    verbs.clock.step(seconds)
    return silent


class _Together(_Silent):
    """Shims that answer when all of them have been asked."""

    def __init__(self, verbs: Verbs, told: list[str], many: int) -> None:
        super().__init__(verbs, told)
        self._all = threading.Barrier(many)

    def end(self, run: Run, how: StopHow, *, grace_s: float | None, why: EndReason) -> bool:
        del how, grace_s, why
        self._told.append(run.id)
        _ = self._all.wait(20)
        return True


def test_many_that_are_to_end_are_told_side_by_side(verbs: Verbs) -> None:
    """One after the other would wait forever here."""
    for number in range(6):
        _running(verbs, f"t{number}")
    for number in range(6):
        _ = verbs.stop(f"t{number}")
    told: list[str] = []
    done = verbs.performer(runtime=_Together(verbs, told, 6)).perform_due()
    assert set(told) == set(done.touched) == {f"t{number}.1" for number in range(6)}
    assert verbs.pending() == 0


class _OneSlow(_Silent):
    """A runtime with one shim that takes its time: it answers when the others are on record."""

    verbs: Verbs

    def end(self, run: Run, how: StopHow, *, grace_s: float | None, why: EndReason) -> bool:
        del how, grace_s, why
        if run.id == "t0.1":
            wait_until(lambda: self._recorded() == 5, within_s=20, what="the others are recorded meanwhile")
        return True

    def _recorded(self) -> int:
        return sum(kind == "run.stop_told" for kind in self.verbs.kinds())


def test_the_quick_are_recorded_while_a_slow_one_is_asked(verbs: Verbs) -> None:
    """The caller sees that their ends are acted on, and a daemon that ends meanwhile has them on record."""
    for number in range(6):
        _running(verbs, f"t{number}")
    for number in range(6):
        _ = verbs.stop(f"t{number}")
    runtime = _OneSlow(verbs, [])
    runtime.verbs = verbs
    done = verbs.performer(runtime=runtime).perform_due()
    assert set(done.touched) == {f"t{number}.1" for number in range(6)}
    assert verbs.pending() == 0


@pytest.mark.parametrize(
    "problem",
    [
        Refused("It may not."),
        WatchkeeperError("The row cannot be."),
        RecordTorn(place="run", key="t1.1", reason="it is torn", task_id="t1"),
    ],
    ids=["refused", "impossible", "torn"],
)
def test_one_end_that_cannot_be_recorded_keeps_no_other_from_it(
    verbs: Verbs, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    """They are recorded together, and where that fails each by itself."""
    record = enforce.record

    def refuse_one(tx: Tx, row: OutboxRow, run: Run, made: enforce.Step, clock: Clock, wait_s: float) -> None:
        if run.id == "t1.1":
            raise problem
        record(tx, row, run, made, clock, wait_s)

    for number in range(3):
        _running(verbs, f"t{number}")
    for number in range(3):
        _ = verbs.stop(f"t{number}")
    monkeypatch.setattr(enforce, "record", refuse_one)
    performer = verbs.performer(runtime=_Together(verbs, [], 3))
    with nullcontext() if isinstance(problem, RecordTorn) else pytest.raises(type(problem)):
        _ = performer.perform_due()
    assert not verbs.store.read(lambda tx: tx.outbox.due(verbs.clock.now(), 10, "m1")), "it is tried later, not at once"
    (left,) = verbs.store.read(lambda tx: tx.outbox.due(verbs.clock.now() + timedelta(hours=1), 10, "m1"))
    assert isinstance(left.effect, EndExecution) and left.effect.run_id == "t1.1"


def test_what_is_to_end_keeps_nothing_from_starting(verbs: Verbs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six shims that do not answer, two seconds each, asked before the start was queued: it comes first, and they share what a pass has time for."""
    monkeypatch.setattr(perform, "_AT_ONCE", 2)
    for number in range(6):
        _running(verbs, f"t{number}")
    for number in range(6):
        _ = verbs.stop(f"t{number}")
    _ = verbs.prepared("new")
    told: list[str] = []
    performer = verbs.performer(runtime=_Silent(verbs, told))
    _ = performer.perform_due()
    assert told[0] == "start new.1"
    assert 1 <= len(told) - 1 <= 2
    for _ in range(6):
        _ = performer.perform_due()
    assert {f"end t{number}.1" for number in range(6)} <= set(told), "all of them have their turn"
