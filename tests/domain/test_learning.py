"""What an outcome tells of its account, and what becomes of a task whose sign-in was refused."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.records import NOON, later, make_outcome, make_run, make_task

from watchkeeper.domain.account import CredentialState, SignIn, SignInSeen
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.learning import of_account, of_harness, of_service
from watchkeeper.domain.model import (
    AgentIdentity,
    Disposition,
    EndReason,
    ExitFact,
    Outcome,
    OutcomeStatus,
    Run,
    Task,
    Trace,
)
from watchkeeper.domain.service import SERVICE_KINDS, QuotaSeen, ServiceAnswered, ServiceFailed
from watchkeeper.domain.settlement import Facts, settle

STARTED, ENDED = later(10), later(20)
EXIT = ExitFact(status=256, reason=EndReason.EXITED, at=ENDED, elapsed_s=10)
AGENT = AgentIdentity(pid=1, start_ticks=1, boot_id="b", started_at=STARTED)


def agents_task() -> Task:
    """A task for an agent program, not for a command line."""
    return make_task(spec=replace(make_task().spec, harness="claude", argv=()))


def worked(**given: Any) -> Run:
    """A run whose agent started and ended."""
    return make_run(make_task(), 1, **{"agent": AGENT, "exit": EXIT, **given})


def came_to(run: Run, kind: FailureKind | None, **given: Any) -> Outcome:
    """An outcome of that kind."""
    status = OutcomeStatus.FAILED if kind else OutcomeStatus.SUCCEEDED
    fields = {"kind": kind, "status": status, "reason": "It says so.", "at": later(30), **given}
    return make_outcome(run, **fields)


def facts_of(run: Run, trace: Trace | None) -> Facts:
    """What is known when it is settled."""
    return Facts(task=agents_task(), run=run, at=later(30), trace=trace, gone_proven=True)


def test_a_refusal_speaks_of_the_start_and_a_success_of_the_end() -> None:
    """So a sign-in that a person made meanwhile is not undone by it."""
    run = worked()
    refused = of_account(run, came_to(run, FailureKind.SIGNED_OUT), CredentialState(mark="m"))
    assert refused == (SignInSeen(sign_in=SignIn.OUT, at=STARTED, detail="It says so.", mark="m"),)
    assert of_account(run, came_to(run, None), CredentialState()) == (SignInSeen(sign_in=SignIn.IN, at=ENDED),)


def test_a_launch_that_was_refused_speaks_of_its_claim() -> None:
    """The home was gone before there was an agent."""
    run = make_run(make_task(), 1)
    [seen] = of_account(run, came_to(run, FailureKind.SIGNED_OUT), CredentialState())
    assert seen.at == NOON


def test_a_used_up_limit_is_known_until_it_ends() -> None:
    """One without a time is not."""
    run, until = worked(), later(3600)
    facts = facts_of(run, Trace(finished=True, ok=False, kind=FailureKind.QUOTA, quota_until=until))
    outcome = came_to(run, FailureKind.QUOTA)
    assert of_service(facts, outcome) == (QuotaSeen(until=until, at=ENDED, now=facts.at, run_id=run.id),)
    unknown = replace(facts, trace=Trace(finished=True, ok=False, kind=FailureKind.QUOTA))
    assert of_service(unknown, outcome) == ()
    assert of_service(replace(facts, credential_state=CredentialState(keyed=True)), outcome) == ()


OTHERS = (FailureKind.CRASH, FailureKind.DEADLINE, FailureKind.LOST, FailureKind.STOPPED, FailureKind.SIGNED_OUT, FailureKind.UNKNOWN)  # fmt: skip


def test_what_a_run_tells_of_the_service() -> None:
    """A failure by it, an answer at the end, an answer some time after the start, or nothing."""
    run, silent, spoke = worked(), Trace(finished=False, ok=False), Trace(finished=False, ok=False, steps=1)
    facts = facts_of(run, silent)
    early = ServiceAnswered(run_id=run.id, at=STARTED, now=facts.at)
    for kind in SERVICE_KINDS:
        failed = ServiceFailed(run_id=run.id, kind=kind, detail="It says so.", at=ENDED, now=facts.at)
        assert of_service(facts, came_to(run, kind)) == (failed,)
        assert of_service(facts_of(run, spoke), came_to(run, kind)) == (early, failed)
    for kind in (None, FailureKind.CONTEXT_FULL, FailureKind.REFUSED, FailureKind.TURN_LIMIT):
        [seen] = of_service(facts, came_to(run, kind))
        assert seen == ServiceAnswered(run_id=run.id, at=ENDED, now=facts.at, succeeded=kind is None)
    for kind in OTHERS:
        assert of_service(facts, came_to(run, kind)) == ()
        assert of_service(facts_of(run, spoke), came_to(run, kind)) == (early,)
    without = make_run(make_task(), 1)
    assert of_service(facts_of(without, None), came_to(without, FailureKind.BAD_REQUEST)) == ()


@pytest.mark.parametrize("kind", [None, FailureKind.SIGNED_OUT, FailureKind.QUOTA])
def test_a_key_of_the_caller_tells_nothing_of_the_account(kind: FailureKind | None) -> None:
    """Neither good nor bad."""
    run = worked()
    assert of_account(run, came_to(run, kind, wake_at=later(60) if kind else None), CredentialState(keyed=True)) == ()


def test_what_an_accounts_own_key_came_to_is_known_of_the_account() -> None:
    """That it worked; a refusal closes nothing, because the next task may bring another key."""
    run, credential_state = worked(), CredentialState(keyed=True, own_key=True)
    assert of_account(run, came_to(run, None), credential_state) == (SignInSeen(sign_in=SignIn.IN, at=ENDED),)
    assert of_account(run, came_to(run, FailureKind.SIGNED_OUT), credential_state) == (
        SignInSeen(sign_in=SignIn.UNKNOWN, at=ENDED, detail="It says so."),
    )
    for kind in (FailureKind.QUOTA, FailureKind.CRASH):
        assert of_account(run, came_to(run, kind, wake_at=later(60)), credential_state) == ()
    assert of_account(make_run(make_task(), 1), came_to(run, None), credential_state) == ()


def test_where_a_new_sign_in_cannot_be_noticed_nothing_is_closed() -> None:
    """As for a user's own harness that does not say how its program signs in."""
    run = worked()
    assert of_account(run, came_to(run, FailureKind.SIGNED_OUT), CredentialState(opens=False)) == ()


def test_a_missing_program_is_the_machines_lack() -> None:
    """Not where a command line is the task's own, nor where an agent ran and found something missing."""
    task, run = agents_task(), make_run(make_task(), 1)
    found = of_harness(task, run, came_to(run, FailureKind.PROGRAM_MISSING))
    assert found is not None
    assert (found.harness, found.machine, found.present) == (task.spec.harness, run.machine, False)
    assert of_harness(task, worked(), came_to(worked(), FailureKind.PROGRAM_MISSING)) is None


@pytest.mark.parametrize(
    ("credential_state", "disposition", "hint"),
    [
        (CredentialState(), Disposition.RETRY, "`wk account login claude:own` signs in"),
        (CredentialState(keyed=True), Disposition.NEEDS_INPUT, "Check the key, then `wk retry t1`."),
        (CredentialState(opens=False), Disposition.NEEDS_INPUT, "Sign in, then `wk retry t1`."),
    ],
)
def test_a_task_waits_for_a_sign_in_only_if_one_can_be_noticed(
    credential_state: CredentialState, disposition: Disposition, hint: str
) -> None:
    """Else a person is asked, and the hint says for what."""
    task = agents_task()
    trace = Trace(finished=True, ok=False, kind=FailureKind.SIGNED_OUT, reason="Not signed in.")
    run = make_run(task, 1, agent=AGENT, exit=EXIT)
    outcome = settle(
        Facts(
            task=task,
            run=run,
            at=ENDED + timedelta(1),
            trace=trace,
            gone_proven=True,
            credential_state=credential_state,
        )
    )
    assert isinstance(outcome, Outcome)
    assert outcome.disposition is disposition
    assert hint in outcome.reason


@pytest.mark.parametrize(
    ("kind", "runs", "wait_s"),
    [
        (FailureKind.SIGNED_OUT, 1, 15),
        (FailureKind.SIGNED_OUT, 9, 15),
        (FailureKind.PROGRAM_MISSING, 1, 15),
        (FailureKind.PROGRAM_MISSING, 3, 60),
        (FailureKind.PROGRAM_MISSING, 99, 600),
    ],
)
def test_a_lack_starts_no_agent_over_and_over(kind: FailureKind, runs: int, wait_s: float) -> None:
    """Whatever is known of the account and the machine: nothing else bounds it."""
    task = replace(agents_task(), runs=runs)
    run = make_run(task, 1, kind=kind, reason="It lacks something.")
    outcome = settle(Facts(task=task, run=run, at=ENDED, gone_proven=True))
    assert isinstance(outcome, Outcome)
    assert outcome.disposition is Disposition.RETRY
    assert outcome.wake_at == ENDED + timedelta(seconds=wait_s)
