"""No interleaving of two shims, a daemon, kills and a restart breaks R2; and each rule of the protocol is needed, because without it something does."""

from dataclasses import replace
from itertools import permutations

import pytest
from support.protocol_model import DECISION, EMPTY, END, LOCK, PROC, Protocol, explore

from watchkeeper.domain.evidence import Evidence, LockState, Verdict, VerdictKind, judge


def trusts_a_missing_record(evidence: Evidence) -> Verdict:
    """A judge that takes "no record of an agent, and nothing is alive" for "never launched", whatever was decided."""
    if evidence.lock is LockState.FREE and evidence.agent is None and evidence.exit is None:
        return Verdict(kind=VerdictKind.NEVER_LAUNCHED, reason="There is no record.")
    return judge(evidence)


def trusts_a_free_lock(evidence: Evidence) -> Verdict:
    """A judge that takes an end for final because the lock is free, although the decision had not been there before it."""
    verdict = judge(evidence)
    if verdict.kind is VerdictKind.ENDED and evidence.lock is LockState.FREE:
        return replace(verdict, final=True)
    return verdict


def believes_in_a_restart(evidence: Evidence) -> Verdict:
    """A judge that takes the shim's death after the agent's end for a restart of the machine."""
    verdict = judge(evidence)
    return replace(verdict, empty=verdict.final and evidence.gone is None)


@pytest.mark.parametrize("stop_asked", [False, True], ids=["", "with a stop"])
@pytest.mark.parametrize("records", list(permutations((PROC, END, EMPTY))), ids="-".join)
def test_the_protocol_holds_in_every_interleaving(records: tuple[str, ...], stop_asked: bool) -> None:
    """At most one agent; never-launched, ended and dead are true and stay true; and a conclusion always remains possible."""
    found = explore(Protocol(order=(DECISION, LOCK, *records), stop_asked=stop_asked))
    assert found.violations == {}
    assert found.stuck == 0
    assert found.states > 5_000
    assert found.verdicts == set(VerdictKind) - {VerdictKind.UNKNOWN}


@pytest.mark.parametrize(
    ("mutant", "harm"),
    [
        pytest.param(
            Protocol(order=(LOCK, DECISION, PROC, END, EMPTY)),
            "a shim was said to be dead that was not",
            id="the lock is read before the decision",
        ),
        pytest.param(
            Protocol(order=(PROC, DECISION, LOCK, END, EMPTY)),
            "an agent was started though none ever was to be",
            id="the agent's record is read before the decision",
        ),
        pytest.param(
            Protocol(order=(DECISION, END, LOCK, PROC, EMPTY)),
            "healthy evidence was unknown",
            id="the end is read before the lock",
        ),
        pytest.param(
            Protocol(judges=trusts_a_missing_record),
            "an agent was started though none ever was to be",
            id="a missing record is trusted",
        ),
        pytest.param(
            Protocol(judges=trusts_a_free_lock),
            "a record was written after the daemon took the records for final",
            id="a free lock is trusted without the decision",
        ),
        pytest.param(
            Protocol(judges=believes_in_a_restart),
            "a restart was said to prove that nothing is left, and there was none",
            id="a dead shim is taken for a restart",
        ),
        pytest.param(
            Protocol(recovery_decides=False),
            "an agent was started though none ever was to be",
            id="recovery does not take the decision",
        ),
        pytest.param(
            Protocol(shim_locks=False),
            "a shim was said to be dead that was not",
            id="the shim takes no lock",
        ),
        pytest.param(
            Protocol(shim_respects_decision=False),
            "two agents were started",
            id="the shim passes over the decision",
        ),
        pytest.param(
            Protocol(records_before_release=False),
            "an agent was started though none ever was to be",
            id="the agent is released before its record",
        ),
    ],
)
def test_each_rule_of_the_protocol_is_needed(mutant: Protocol, harm: str) -> None:
    """Leaving out one rule does the harm that the rule is there to prevent, so the exploration can see it."""
    assert harm in explore(mutant).violations
