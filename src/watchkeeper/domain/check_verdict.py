"""The verdict: whether what a run came to is acceptable, as the task's own checks decide. It stands beside the outcome, which says what happened. Pure."""

from collections.abc import Sequence
from enum import StrEnum

from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.side_command import CommandResult, SideCommand


class CheckVerdict(StrEnum):
    """Whether a run's work is acceptable."""

    PASSED = "passed"
    """Every check passed."""
    FAILED = "failed"
    """A check failed."""
    NOT_RUN = "could_not_run"
    """No check failed, and one could not run."""
    UNCHECKED = "unchecked"
    """The task has no checks, or its run ended before them."""


def verdict_of(checks: Sequence[SideCommand]) -> CheckVerdict:
    """The verdict of checks that have ended. A failed one counts more than one that could not run."""
    results = {check.result for check in checks}
    if CommandResult.FAILED in results:
        return CheckVerdict.FAILED
    if CommandResult.NOT_RUN in results:
        return CheckVerdict.NOT_RUN
    return CheckVerdict.PASSED if results == {CommandResult.PASSED} else CheckVerdict.UNCHECKED


_KINDS = {CheckVerdict.FAILED: FailureKind.CHECK_FAILED, CheckVerdict.NOT_RUN: FailureKind.CHECK_NOT_RUN}


def judge_checks(task_id: str, checks: Sequence[SideCommand], *, came_to: str) -> tuple[FailureKind | None, str]:
    """What keeps a success from being acceptable, or None, with the plain sentence. `came_to`: what the success came to, as a sentence."""
    verdict = verdict_of(checks)
    if verdict is CheckVerdict.PASSED:
        return None, f"{came_to.rstrip('.')}; {_counted(len(checks))} passed."
    kind = _KINDS.get(verdict)
    if kind is None:
        return FailureKind.STOPPED, "You stopped it while its checks ran."
    bad = CommandResult.FAILED if verdict is CheckVerdict.FAILED else CommandResult.NOT_RUN
    first = next(check for check in checks if check.result is bad)
    where = f"`wk logs {task_id} --check {first.number}` has its output"
    return kind, f"Check {first.number} of {len(checks)}: {first.reason} {where}."


def _counted(count: int) -> str:
    return "its check" if count == 1 else f"its {count} checks"
