"""The closed list of failure kinds, each with what follows from it.

The rows are the only place where it is written down whether a kind is tried again, whether it counts as an attempt, and what becomes of the
task. `docs/rules.md` prints them.
"""

from dataclasses import dataclass
from enum import StrEnum

from watchkeeper.domain.failure_kind import FailureKind


class Follow(StrEnum):
    """What a failure kind does to its task when it is not, or no longer, tried again."""

    FAILED = "failed"
    NEEDS_INPUT = "needs_input"
    HELD = "held"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRow:
    """What follows from one failure kind."""

    retried: bool
    """Another run may start by itself, within the task's budget."""
    counts: bool
    """The run uses up one of the task's attempts."""
    defers: bool
    """The next try waits for the time that the program named, which closes the lanes of the account until then."""
    waits: bool
    """The task goes back to its place in the queue, where the account, the program or the service that it lacks is the reason that it waits."""
    then: Follow
    """What becomes of the task otherwise."""
    detail: str
    """The plain sentence that a person reads."""


def _row(
    detail: str,
    then: Follow = Follow.FAILED,
    *,
    retried: bool = False,
    counts: bool = True,
    defers: bool = False,
    waits: bool = False,
) -> FailureRow:
    return FailureRow(
        retried=retried,
        counts=counts,
        defers=defers,
        waits=waits,
        then=then,
        detail=detail,
    )


ROWS: dict[FailureKind, FailureRow] = {
    FailureKind.SIGNED_OUT: _row("The agent program is not signed in.", Follow.NEEDS_INPUT, counts=False, waits=True),
    FailureKind.QUOTA: _row(
        "The account's limit is used up.",
        Follow.NEEDS_INPUT,
        retried=True,
        counts=False,
        defers=True,
    ),
    FailureKind.OVERLOADED: _row("The model's service was overloaded.", retried=True, counts=False, waits=True),
    FailureKind.NETWORK: _row("The model's service could not be reached.", retried=True, counts=False, waits=True),
    FailureKind.CONTEXT_FULL: _row("The conversation no longer fits into the model."),
    FailureKind.TURN_LIMIT: _row("The agent reached its limit of turns."),
    FailureKind.BUDGET: _row("The agent reached its limit of money."),
    FailureKind.PERMISSION_DENIED: _row("The agent was not allowed to do what it needed.", Follow.NEEDS_INPUT),
    FailureKind.BAD_REQUEST: _row("The model's service refused the request."),
    FailureKind.PROGRAM_MISSING: _row(
        "The agent program could not be started: it is missing.",
        Follow.NEEDS_INPUT,
        counts=False,
        waits=True,
    ),
    FailureKind.DIRECTORY_MISSING: _row(
        "The directory to work in is missing, so the agent was not started.",
        Follow.NEEDS_INPUT,
        counts=False,
    ),
    FailureKind.DIRECTORY_CHANGED: _row(
        "The directory is not the one that was approved, or is on another branch, so the agent was not started.",
        Follow.NEEDS_INPUT,
        counts=False,
    ),
    FailureKind.PROGRAM_BROKEN: _row("The agent program did not do what such a program does."),
    FailureKind.SANDBOX: _row("The sandbox could not be set up."),
    FailureKind.CRASH: _row("The agent program ended without a result."),
    FailureKind.DEADLINE: _row("The deadline passed."),
    FailureKind.SILENCE: _row("The agent printed nothing for as long as you allowed."),
    FailureKind.REFUSED: _row("The agent refused the task."),
    FailureKind.NOTHING_RECORDED: _row(
        "The agent says that it is done, but it called no tool and changed nothing.", Follow.NEEDS_INPUT
    ),
    FailureKind.NOTHING_CHANGED: _row("A change was expected, and nothing changed.", Follow.NEEDS_INPUT),
    FailureKind.CHECK_FAILED: _row("A check of the task failed."),
    FailureKind.CHECK_NOT_RUN: _row("A check of the task could not run.", Follow.NEEDS_INPUT),
    FailureKind.SETUP_FAILED: _row("The set-up of the worktree failed, so the agent was not started."),
    FailureKind.SESSION_GONE: _row(
        "The agent program no longer knows the conversation; `wk retry --fresh` begins a new one.",
        Follow.NEEDS_INPUT,
        counts=False,
    ),
    FailureKind.ASKED: _row("The agent asks something and waits for an answer.", Follow.NEEDS_INPUT, counts=False),
    FailureKind.ENVIRONMENT_UNKNOWN: _row(
        "The environment kept for this task is gone or damaged; `wk retry` captures it again.",
        Follow.NEEDS_INPUT,
        counts=False,
    ),
    FailureKind.NEVER_LAUNCHED: _row(
        "The agent was never started.",
        Follow.HELD,
        retried=True,
        counts=False,
    ),
    FailureKind.LOST: _row("The agent is gone and its end was not seen.", Follow.HELD),
    FailureKind.INTERRUPTED: _row(
        "The agent was ended together with the daemon or by the system; no person stopped its task.",
        Follow.NEEDS_INPUT,
        counts=False,
    ),
    FailureKind.STOPPED: _row("You stopped it.", Follow.STOPPED, counts=False),
    FailureKind.UNKNOWN: _row("The agent failed in a way that we do not know."),
}
"""One row per kind. A test holds that none is missing."""

__all__ = ["ROWS", "FailureKind", "FailureRow", "Follow"]
