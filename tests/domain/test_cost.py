"""What runs cost: known, claimed and unknown money are never mixed."""

from dataclasses import replace

import pytest
from support.records import make_outcome, make_run, make_task

from watchkeeper.domain.cost import UNKNOWN, Cost, CostClass, cost_of, total
from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.model import EndReason, OutcomeStatus, Proof
from watchkeeper.domain.outcome_record import Outcome, Usage
from watchkeeper.domain.run_record import Run
from watchkeeper.domain.samples import AGENT, EXIT

RUN = make_run(make_task(), 1)
OUTCOME = make_outcome(RUN)
PAID = Usage(input_tokens=10, output_tokens=5, cost_usd=0.25)


def _settled(reason: EndReason = EndReason.EXITED, usage: Usage = PAID, status: int = 0) -> tuple[Run, Outcome]:
    fact = replace(EXIT, reason=reason, status=status)
    return replace(RUN, agent=AGENT, exit=fact), replace(OUTCOME, exit=fact, usage=usage)


@pytest.mark.parametrize("reason", [EndReason.EXITED, EndReason.ANSWERED])
def test_the_total_of_a_program_that_ended_by_itself_is_known(reason: EndReason) -> None:
    """Its final event gave it."""
    assert cost_of(*_settled(reason)) == Cost(known=CostClass.KNOWN, usd=0.25, input_tokens=10, output_tokens=5)


@pytest.mark.parametrize(
    "reason", sorted(set(EndReason) - {EndReason.EXITED, EndReason.ANSWERED, EndReason.SPAWN_FAILED})
)
def test_a_number_of_a_program_that_was_ended_is_claimed(reason: EndReason) -> None:
    """It may have spent more."""
    assert cost_of(*_settled(reason)).known is CostClass.CLAIMED


def test_a_number_of_a_program_that_a_signal_ended_is_claimed() -> None:
    """It was killed from outside, or it crashed."""
    assert cost_of(*_settled(status=9)).known is CostClass.CLAIMED


def test_without_a_number_the_cost_is_unknown_and_never_zero() -> None:
    """Tokens are kept all the same."""
    found = cost_of(*_settled(usage=replace(PAID, cost_usd=None)))
    assert found == Cost(known=CostClass.UNKNOWN, input_tokens=10, output_tokens=5)


def test_a_run_that_is_not_settled_is_unknown() -> None:
    """It may be spending at this moment."""
    assert cost_of(RUN, None) == UNKNOWN


def test_nothing_was_spent_where_no_agent_ran() -> None:
    """The process could not be started, or it is proven that there never was one."""
    run, outcome = _settled(EndReason.SPAWN_FAILED, Usage())
    assert cost_of(run, outcome).usd == 0.0
    never = replace(
        OUTCOME,
        exit=None,
        usage=Usage(),
        status=OutcomeStatus.FAILED,
        kind=FailureKind.NEVER_LAUNCHED,
        proof=Proof.PROVEN,
    )
    run = replace(RUN, agent=None, exit=None)
    assert cost_of(run, never) == Cost(known=CostClass.KNOWN, usd=0.0, input_tokens=0, output_tokens=0)
    assert cost_of(run, replace(never, proof=Proof.UNPROVEN)).known is CostClass.UNKNOWN
    assert cost_of(run, replace(never, kind=FailureKind.LOST)).known is CostClass.UNKNOWN
    assert cost_of(replace(run, agent=AGENT), never).known is CostClass.UNKNOWN


def test_sums_keep_the_classes_apart() -> None:
    """What is unknown is counted."""
    found = total(
        [
            Cost(known=CostClass.KNOWN, usd=1.0, input_tokens=3, output_tokens=4),
            Cost(known=CostClass.KNOWN, usd=2.0, input_tokens=1, output_tokens=1),
            Cost(known=CostClass.CLAIMED, usd=0.5, input_tokens=2, output_tokens=0),
            UNKNOWN,
        ]
    )
    assert (found.runs, found.known_usd, found.known_runs) == (4, 3.0, 2)
    assert (found.claimed_usd, found.claimed_runs, found.unknown_runs) == (0.5, 1, 1)
    assert (found.input_tokens, found.output_tokens, found.without_tokens) == (6, 5, 1)
