"""What a run's outcome tells of the account it used and of the machine it ran on. Pure; recorded in the transaction that settles the run."""

from watchkeeper.domain.account import Bearing, QuotaSeen, SignIn, SignInSeen
from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.lanes import HarnessState
from watchkeeper.domain.model import Outcome, Run, Task


def of_account(run: Run, outcome: Outcome, bearing: Bearing) -> tuple[SignInSeen | QuotaSeen, ...]:
    """What is learnt of the account.

    A refusal speaks of the sign-in with which the agent started, so a sign-in that was made while it worked is not undone by it; a success speaks of the
    end.
    """
    if bearing.keyed:
        return _of_key(run, outcome, bearing)
    started = run.agent.started_at if run.agent is not None else run.claimed_at
    ended = run.exit.at if run.exit is not None else outcome.at
    match outcome.kind:
        case FailureKind.SIGNED_OUT if bearing.opens:
            return (SignInSeen(sign_in=SignIn.OUT, at=started, says=outcome.reason, mark=bearing.mark),)
        case FailureKind.QUOTA if outcome.wake_at is not None:
            return (QuotaSeen(until=outcome.wake_at, at=ended),)
        case None | FailureKind.ASKED if run.exit is not None:
            return (SignInSeen(sign_in=SignIn.IN, at=ended), QuotaSeen(until=None, at=ended))
        case _:
            return ()


def _of_key(run: Run, outcome: Outcome, bearing: Bearing) -> tuple[SignInSeen, ...]:
    """What is learnt of an account that works with a key. The next task may bring another key, so a refusal closes nothing."""
    if not bearing.own_key or run.exit is None:
        return ()
    match outcome.kind:
        case FailureKind.SIGNED_OUT:
            return (SignInSeen(sign_in=SignIn.UNKNOWN, at=run.exit.at, says=outcome.reason),)
        case None:
            return (SignInSeen(sign_in=SignIn.IN, at=run.exit.at),)
        case _:
            return ()


def of_harness(task: Task, run: Run, outcome: Outcome) -> HarnessState | None:
    """What is learnt of the machine's programs. A plain command is its task's own, and tells nothing of others."""
    if outcome.kind is not FailureKind.PROGRAM_MISSING or task.spec.argv or run.exit is not None:
        return None
    return HarnessState(
        harness=task.spec.harness, machine=run.machine, present=False, says=outcome.reason, at=outcome.at
    )
