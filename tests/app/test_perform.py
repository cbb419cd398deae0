"""Effects: what cannot be done now is tried again, and what is tried in vain is said."""

from app.stage import Verbs

from watchkeeper.app.perform import MAX_END_ATTEMPTS
from watchkeeper.app.stop import stop
from watchkeeper.domain.model import RunState, StopHow, TaskState


def test_the_end_of_a_settled_run_is_given_up_in_the_end(verbs: Verbs) -> None:
    """Its directory is missing and no agent of it was ever seen: neither told nor proven, so it is tried a dozen times and then said to have failed."""
    verbs.held()
    assert stop(verbs.store, verbs.clock, "t1", StopHow.STOP, "ada").state is TaskState.STOPPED
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
