"""What becomes of a message, whatever happens to its task."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.domain.failure import ROWS, FailureKind
from watchkeeper.domain.message import (
    ANSWERS,
    FINAL_MESSAGE_STATES,
    MOST_BYTES_AT_ONCE,
    MOST_TRIES,
    Addressed,
    Message,
    MessageState,
    RunCame,
    Taken,
    TaskStopped,
    decide_message,
    goes_on,
    joined,
    next_turn,
)
from watchkeeper.domain.model import Disposition, Outcome, OutcomeStatus, Proof
from watchkeeper.domain.samples import LATER
from watchkeeper.errors import Refused

S = MessageState
NEW = Message(task_id="t", number=1, text="Go on.", by="me", at=LATER)


def outcome(run_id: str, disposition: Disposition, kind: FailureKind | None) -> Outcome:
    """An outcome of that kind."""
    status = OutcomeStatus.SUCCEEDED if kind is None else OutcomeStatus.FAILED
    return Outcome(
        run_id=run_id, fence=1, status=status, disposition=disposition, kind=kind, reason="", at=LATER, proof=Proof.PROVEN
    )  # fmt: skip


kinds = st.one_of(st.none(), st.sampled_from(list(FailureKind)))
events = st.one_of(
    st.builds(Taken, run_id=st.sampled_from(["t.1", "t.2"])),
    st.builds(
        RunCame,
        outcome=st.builds(outcome, st.sampled_from(["t.1", "t.2"]), st.sampled_from(list(Disposition)), kinds),
        again=st.booleans(),
    ),
    st.just(TaskStopped(at=LATER)),
    st.builds(Addressed, continues=st.booleans()),
)


@given(st.lists(events, max_size=40))
def test_a_message_ends_once_and_is_taken_only_while_it_waits(
    sequence: list[Taken | RunCame | TaskStopped | Addressed],
) -> None:
    message = NEW
    for event in sequence:
        try:
            after = decide_message(message, event)
        except Refused:
            assert isinstance(event, Taken | RunCame)
            continue
        if message.state in FINAL_MESSAGE_STATES:
            assert after == message
        if after.state is S.TAKEN and message.state is not S.TAKEN:
            assert message.state is S.WAITING and isinstance(event, Taken) and after.run_id == event.run_id
        if isinstance(event, RunCame):
            assert message.state is S.TAKEN and event.outcome.run_id == message.run_id
        assert (after.settled_at is not None) is (after.state in FINAL_MESSAGE_STATES)
        assert after.tries <= MOST_TRIES and (after.tries < MOST_TRIES or after.state is S.FAILED)
        assert (after.state is S.FAILED) <= (after.kind is not None)
        assert (after.task_id, after.number, after.text, after.by, after.at) == (NEW.task_id, 1, NEW.text, "me", LATER)
        message = after


@pytest.mark.parametrize("kind", [None, *sorted(ANSWERS)])
def test_what_the_agent_replied_to_is_answered(kind: FailureKind | None) -> None:
    taken = decide_message(NEW, Taken(run_id="t.2"))
    after = decide_message(taken, RunCame(outcome=outcome("t.2", Disposition.NEEDS_INPUT, kind)))
    assert (after.state, after.run_id, after.kind) == (S.ANSWERED, "t.2", None)


@pytest.mark.parametrize("kind", sorted(set(FailureKind) - ANSWERS - {FailureKind.STOPPED}))
def test_a_failed_run_gives_it_back_and_the_third_that_counts_ends_it(kind: FailureKind) -> None:
    message = NEW
    for number in range(1, 6):
        message = decide_message(message, Taken(run_id=f"t.{number}"))
        message = decide_message(message, RunCame(outcome=outcome(f"t.{number}", Disposition.RETRY, kind)))
        if message.state is S.FAILED:
            break
    assert message.kind is kind
    expected = (S.FAILED, MOST_TRIES, "t.3") if ROWS[kind].counts else (S.WAITING, 0, "t.5")
    assert (message.state, message.tries, message.run_id) == expected


def test_a_task_that_failed_leaves_no_message_waiting_unless_a_person_asks_for_another_run() -> None:
    taken = decide_message(NEW, Taken(run_id="t.1"))
    lost = outcome("t.1", Disposition.FAILED, FailureKind.LOST)
    assert decide_message(taken, RunCame(outcome=lost)).state is S.FAILED
    assert decide_message(taken, RunCame(outcome=lost, again=True)).state is S.WAITING


def test_a_stop_answers_what_waits_and_leaves_what_a_run_has_to_that_run() -> None:
    taken = decide_message(NEW, Taken(run_id="t.1"))
    assert decide_message(NEW, TaskStopped(at=LATER)).state is S.STOPPED
    assert decide_message(taken, TaskStopped(at=LATER)) == taken
    ended = outcome("t.1", Disposition.STOPPED, FailureKind.STOPPED)
    assert decide_message(taken, RunCame(outcome=ended)).state is S.STOPPED


def several(*sizes: int, continues: bool = False) -> list[Message]:
    """Messages with so many characters."""
    return [replace(NEW, number=n, text="x" * size, continues=continues) for n, size in enumerate(sizes, 1)]


@given(st.lists(st.integers(0, MOST_BYTES_AT_ONCE), max_size=8), st.booleans(), st.one_of(st.none(), st.just("s1")))
def test_a_turn_takes_the_first_that_wait_in_order_and_at_least_one(
    sizes: list[int], continues: bool, session: str | None
) -> None:
    waiting = several(*sizes, continues=continues)
    turn = next_turn("t.2", "t", waiting, session, "m")
    assert (turn is None) is (not waiting)
    if turn is None:
        return
    assert turn.numbers == tuple(range(1, len(turn.numbers) + 1)) != ()
    chosen = sizes[: len(turn.numbers)]
    assert len(chosen) == 1 or sum(chosen) <= MOST_BYTES_AT_ONCE
    assert len(chosen) == len(sizes) or sum(sizes[: len(chosen) + 1]) > MOST_BYTES_AT_ONCE
    assert (turn.session, turn.machine) == ((session, "m") if continues and session else (None, ""))


def test_a_new_conversation_begins_with_the_prompt() -> None:
    assert joined("Do it.", several(2)) == "Do it.\n\nxx"
    assert joined(None, several(2, 1)) == "xx\n\nx"


@pytest.mark.parametrize("disposition", list(Disposition))
def test_a_task_goes_on_with_what_came_meanwhile_unless_it_is_stopped_held_or_tried_again(
    disposition: Disposition,
) -> None:
    ended = outcome("t.1", disposition, FailureKind.CRASH)
    rests = disposition in {Disposition.DONE, Disposition.FAILED, Disposition.NEEDS_INPUT}
    assert goes_on(ended, several(1)) is rests
    assert not goes_on(replace(ended, at=LATER + timedelta(1)), [])
