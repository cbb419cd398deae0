"""What a run's outcome tells of the account it used and of the machine it ran on. Pure; recorded in the transaction that settles the run."""

from datetime import datetime

from watchkeeper.domain.account import CredentialState, SignIn, SignInSeen
from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.lanes import HarnessState
from watchkeeper.domain.model import Outcome, Run, Task
from watchkeeper.domain.service import SERVICE_KINDS, QuotaSeen, ServiceAnswered, ServiceFailed, shows_answer
from watchkeeper.domain.settlement import Facts, limit_of

_ANSWERS = frozenset(
    {
        None,
        FailureKind.ASKED,
        FailureKind.BAD_REQUEST,
        FailureKind.BUDGET,
        FailureKind.CONTEXT_FULL,
        FailureKind.NOTHING_CHANGED,
        FailureKind.NOTHING_RECORDED,
        FailureKind.PERMISSION_DENIED,
        FailureKind.REFUSED,
        FailureKind.TURN_LIMIT,
    }
)
"""Ends that only an answer of the service leads to; None is success."""


def of_account(run: Run, outcome: Outcome, credential_state: CredentialState) -> tuple[SignInSeen, ...]:
    """What is learnt of the account's sign-in.

    A refusal speaks of the sign-in with which the agent started, so a sign-in that was made while it worked is not undone by it; a success speaks of the
    end.
    """
    if credential_state.keyed:
        return _of_key(run, outcome, credential_state)
    match outcome.kind:
        case FailureKind.SIGNED_OUT if credential_state.opens:
            return (
                SignInSeen(sign_in=SignIn.OUT, at=_started(run), detail=outcome.reason, mark=credential_state.mark),
            )
        case None | FailureKind.ASKED if run.exit is not None:
            return (SignInSeen(sign_in=SignIn.IN, at=run.exit.at),)
        case _:
            return ()


def _of_key(run: Run, outcome: Outcome, credential_state: CredentialState) -> tuple[SignInSeen, ...]:
    """What is learnt of an account that works with a key. The next task may bring another key, so a refusal closes nothing."""
    if not credential_state.own_key or run.exit is None:
        return ()
    match outcome.kind:
        case FailureKind.SIGNED_OUT:
            return (SignInSeen(sign_in=SignIn.UNKNOWN, at=run.exit.at, detail=outcome.reason),)
        case None:
            return (SignInSeen(sign_in=SignIn.IN, at=run.exit.at),)
        case _:
            return ()


def of_service(facts: Facts, outcome: Outcome) -> tuple[QuotaSeen | ServiceFailed | ServiceAnswered, ...]:
    """What is learnt of the service behind the account, in order. A run in which no agent ended teaches nothing, and a plain command teaches nothing either.

    Where only the output shows that there was an answer, it may have come right after the start.
    """
    run, now = facts.run, facts.at
    if run.exit is None or facts.task.spec.argv:
        return ()
    ended = run.exit.at
    answered = ServiceAnswered(run_id=run.id, at=_started(run), now=now)
    began = (answered,) if shows_answer(facts.trace) else ()
    until = limit_of(facts, outcome.kind)
    if until is not None:
        return (*began, QuotaSeen(until=until, at=ended, now=now, run_id=run.id, policy=facts.probing))
    if outcome.kind is not None and outcome.kind in SERVICE_KINDS:
        failed = ServiceFailed(
            run_id=run.id, kind=outcome.kind, detail=outcome.reason, at=ended, now=now, policy=facts.probing
        )
        return (*began, failed)
    if outcome.kind in _ANSWERS:
        return (ServiceAnswered(run_id=run.id, at=ended, now=now, succeeded=outcome.kind in {None, FailureKind.ASKED}),)
    return began


def of_harness(task: Task, run: Run, outcome: Outcome) -> HarnessState | None:
    """What is learnt of the machine's programs. A plain command is its task's own, and tells nothing of others."""
    if outcome.kind is not FailureKind.PROGRAM_MISSING or task.spec.argv or run.exit is not None:
        return None
    return HarnessState(
        harness=task.spec.harness, machine=run.machine, present=False, detail=outcome.reason, at=outcome.at
    )


def _started(run: Run) -> datetime:
    return run.agent.started_at if run.agent is not None else run.claimed_at
