"""The loop that does what the outbox says."""

import io
from datetime import timedelta

import pytest
from app.stage import Verbs

from watchkeeper.app.record import apply_run
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.observe import ObserveLoop
from watchkeeper.daemon.outbox import OutboxLoop
from watchkeeper.domain.model import EndReason, Run, StopHow
from watchkeeper.domain.run_events import AgentSeen
from watchkeeper.domain.samples import AGENT
from watchkeeper.ports.runtime import ShimUnreachable
from watchkeeper.ports.store import Tx


class _Hinted(ObserveLoop):
    """Keeps the hints."""

    def __init__(self, verbs: Verbs) -> None:
        super().__init__(Log(verbs.clock, io.StringIO()), 30.0, verbs.store, "m1", verbs.observer(), lambda _run: None)
        self.kept: list[str] = []

    def hint(self, name: str) -> None:
        self.kept.append(name)


def _loop(verbs: Verbs, observe: ObserveLoop | None = None) -> OutboxLoop:
    log = Log(verbs.clock, io.StringIO())
    observe = observe or _Hinted(verbs)
    return OutboxLoop(log, 30.0, verbs.store, verbs.clock, verbs.performer(), observe)


def test_a_clock_that_is_set_back_does_not_put_the_next_pass_off(verbs: Verbs) -> None:
    """The effect was put off for an instant; then the clock was set back by an hour."""
    verbs.prepared()
    loop = _loop(verbs)
    first = loop.tick()  # there is no directory to start a shim in, so it is tried again
    assert first.due_s is not None and first.due_s <= 5
    verbs.clock.wall -= timedelta(hours=1)
    before = verbs.pending()
    again = loop.tick()
    assert verbs.pending() == before
    assert again.due_s is not None and again.due_s <= 5


def test_a_run_whose_shim_acts_is_not_looked_at_before_that_tells(
    verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look in between would be in vain. The others are looked at, because nothing else tells what became of them."""

    def end(run: Run, how: StopHow, *, grace_s: float | None, why: EndReason) -> bool:
        del how, grace_s, why
        if run.task_id == "deaf":
            raise ShimUnreachable("It does not answer.")
        return True

    def running(tx: Tx) -> None:
        for row in tx.outbox.due(verbs.clock.now(), 10, "m1"):
            tx.outbox.done(row.id)
        for run in tx.runs.live():
            _ = apply_run(tx, run, AgentSeen(agent=AGENT), verbs.clock.now())

    for task_id in ("acts", "deaf"):
        verbs.prepared(task_id)
    verbs.store.transact("test", running)
    monkeypatch.setattr(verbs.runtime, "end", end)
    for task_id in ("acts", "deaf"):
        _ = verbs.stop(task_id)
    observe = _Hinted(verbs)
    assert _loop(verbs, observe).tick().worked
    assert observe.kept == ["deaf.1"]
    assert verbs.run("acts.1").stop_told is StopHow.STOP
