"""The loop that does what the outbox says."""

import io
from datetime import timedelta

from app.stage import Verbs

from watchkeeper.daemon.log import Log
from watchkeeper.daemon.observe import ObserveLoop
from watchkeeper.daemon.outbox import OutboxLoop


def _loop(verbs: Verbs) -> OutboxLoop:
    log = Log(verbs.clock, io.StringIO())
    observe = ObserveLoop(log, 30.0, verbs.store, "m1", None, lambda _run: None)  # pyright: ignore[reportArgumentType] - only hinted
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
