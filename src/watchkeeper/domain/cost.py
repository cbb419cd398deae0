"""What runs cost, as far as that is known.

Every number of money comes from an agent program. Three classes are kept apart, and sums never mix them:

    known     the program ended by itself and gave its total, or no agent ran and nothing was spent
    claimed   the program gave a number, but was ended or lost before it could give its total: a lower bound
    unknown   no number was given; such a run may have cost anything
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.outcome_record import Outcome
from watchkeeper.domain.run_record import EndReason, Proof, Run

_TOTAL_WAS_GIVEN = frozenset({EndReason.EXITED, EndReason.ANSWERED})


class CostClass(StrEnum):
    """How far a cost can be relied on."""

    KNOWN = "known"
    CLAIMED = "claimed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one run cost."""

    known: CostClass
    usd: float | None = None
    """US dollars; None exactly where the class is unknown."""
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostTotal:
    """What several runs cost. The sums of known and claimed money are apart; a run without a number is counted, never taken for zero."""

    runs: int = 0
    known_usd: float = 0.0
    known_runs: int = 0
    claimed_usd: float = 0.0
    claimed_runs: int = 0
    unknown_runs: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    without_tokens: int = 0
    """Runs that did not say how many tokens they used."""


UNKNOWN = Cost(known=CostClass.UNKNOWN)
"""Of a run that is not settled, or whose record cannot be read."""


def cost_of(run: Run, outcome: Outcome | None) -> Cost:
    """What a run cost."""
    if outcome is None:
        return UNKNOWN
    if _nothing_ran(run, outcome):
        return Cost(known=CostClass.KNOWN, usd=0.0, input_tokens=0, output_tokens=0)
    usage = outcome.usage
    if usage.cost_usd is None:
        return Cost(known=CostClass.UNKNOWN, input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
    total = outcome.exit is not None and outcome.exit.reason in _TOTAL_WAS_GIVEN and outcome.exit.signal is None
    return Cost(
        known=CostClass.KNOWN if total else CostClass.CLAIMED,
        usd=usage.cost_usd,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
    )


def total(costs: Iterable[Cost]) -> CostTotal:
    """The sums of some runs."""
    found = list(costs)

    def in_class(known: CostClass) -> list[Cost]:
        return [each for each in found if each.known is known]

    return CostTotal(
        runs=len(found),
        known_usd=sum(each.usd or 0.0 for each in in_class(CostClass.KNOWN)),
        known_runs=len(in_class(CostClass.KNOWN)),
        claimed_usd=sum(each.usd or 0.0 for each in in_class(CostClass.CLAIMED)),
        claimed_runs=len(in_class(CostClass.CLAIMED)),
        unknown_runs=len(in_class(CostClass.UNKNOWN)),
        input_tokens=sum(each.input_tokens or 0 for each in found),
        output_tokens=sum(each.output_tokens or 0 for each in found),
        without_tokens=sum(each.input_tokens is None and each.output_tokens is None for each in found),
    )


def _nothing_ran(run: Run, outcome: Outcome) -> bool:
    """Whether it is certain that no agent ran: its process could not be started, or it was never seen and it is proven that nothing of it is alive."""
    if outcome.exit is not None:
        return outcome.exit.reason is EndReason.SPAWN_FAILED
    return run.agent is None and outcome.proof is Proof.PROVEN and outcome.kind is not FailureKind.LOST
