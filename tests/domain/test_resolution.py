"""What a person makes of a held run: the whole outcome, by a stop and by another try."""

from dataclasses import replace

import pytest

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import Disposition, Outcome, OutcomeStatus, Proof, RunState, TaskState
from watchkeeper.domain.resolution import resolve_held
from watchkeeper.domain.samples import EXIT, LATER, a_run, a_task

HELD = replace(a_run(RunState.HELD), harness_session="s1", exit=EXIT, proof=Proof.PROVEN)
TASK = replace(a_task(TaskState.HELD), reason="Its directory is missing.")


def test_a_stop_settles_a_held_run_as_stopped() -> None:
    assert resolve_held(TASK, HELD, LATER, stopped=True, by="ada") == Outcome(
        run_id=HELD.id,
        fence=HELD.fence,
        status=OutcomeStatus.STOPPED,
        disposition=Disposition.STOPPED,
        kind=FailureKind.STOPPED,
        reason="ada stopped it while it was held.",
        at=LATER,
        proof=Proof.PROVEN,
        harness_session="s1",
        exit=EXIT,
    )


@pytest.mark.parametrize(("kind", "recorded"), [(FailureKind.UNKNOWN, FailureKind.UNKNOWN), (None, FailureKind.LOST)])
def test_another_try_gives_a_held_run_up_as_failed(kind: FailureKind | None, recorded: FailureKind) -> None:
    """It keeps the kind that is known of it; a run of which none is known was lost."""
    assert resolve_held(TASK, replace(HELD, kind=kind), LATER, stopped=False, by="ada") == Outcome(
        run_id=HELD.id,
        fence=HELD.fence,
        status=OutcomeStatus.FAILED,
        disposition=Disposition.FAILED,
        kind=recorded,
        reason="ada gave the held run up: Its directory is missing.",
        at=LATER,
        proof=Proof.PROVEN,
        harness_session="s1",
        exit=EXIT,
    )


def test_what_was_found_since_goes_before_what_is_on_record() -> None:
    outcome = resolve_held(TASK, replace(HELD, proof=Proof.UNPROVEN), LATER, stopped=True, by="ada", proof=Proof.SWEPT)
    assert outcome.proof is Proof.SWEPT
    assert outcome.reason == "ada stopped it while it was held. It is not proven that nothing of it is alive."
