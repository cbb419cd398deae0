"""The verdict is a function of the checks alone, and stands beside what the run came to."""

from hypothesis import given
from hypothesis import strategies as st
from support.records import NOON

from watchkeeper.domain.check_verdict import CheckVerdict, judge_checks, verdict_of
from watchkeeper.domain.failure import ROWS, FailureKind
from watchkeeper.domain.model import EndReason, ExitFact, StopHow, StopRequest
from watchkeeper.domain.side_command import (
    MAX_TRIES,
    CommandKind,
    CommandResult,
    CommandState,
    SideCommand,
    ended,
    never_launched,
    next_of,
)

STOP = StopRequest(how=StopHow.STOP, by="ada", at=NOON)
RESULTS = st.lists(st.sampled_from(list(CommandResult)), min_size=1, max_size=6)
LINES = st.text(min_size=1, max_size=200)


def a_command(number: int = 1, *, line: str = "make test", result: CommandResult | None = None) -> SideCommand:
    return SideCommand(
        run_id="t1.1",
        task_id="t1",
        kind=CommandKind.CHECK,
        number=number,
        line=line,
        execution_id=f"x{number}",
        state=CommandState.STARTED if result is None else CommandState.ENDED,
        result=result,
        reason="" if result is None else "It ended.",
    )


def some(results: list[CommandResult]) -> list[SideCommand]:
    return [a_command(number, result=result) for number, result in enumerate(results, start=1)]


@given(RESULTS)
def test_work_is_acceptable_only_if_every_check_passed(results: list[CommandResult]) -> None:
    verdict = verdict_of(some(results))
    assert (verdict is CheckVerdict.PASSED) == all(one is CommandResult.PASSED for one in results)
    kind, reason = judge_checks("t1", some(results), came_to="Done: 1 file changed.")
    assert (kind is None) == (verdict is CheckVerdict.PASSED)
    assert reason.endswith(".")


@given(RESULTS, RESULTS)
def test_more_checks_never_make_a_failure_acceptable(results: list[CommandResult], more: list[CommandResult]) -> None:
    if verdict_of(some(results)) is CheckVerdict.FAILED:
        assert verdict_of(some(results + more)) is CheckVerdict.FAILED


@given(RESULTS, st.randoms())
def test_the_order_of_checks_does_not_matter(results: list[CommandResult], random: object) -> None:
    mixed = list(results)
    getattr(random, "shuffle")(mixed)  # noqa: B009 - hypothesis gives it no type
    assert verdict_of(some(mixed)) is verdict_of(some(results))


def test_without_checks_nothing_is_acceptable_or_not() -> None:
    assert verdict_of([]) is CheckVerdict.UNCHECKED


@given(LINES, st.integers(0, 0xFFFF), st.sampled_from([each for each in EndReason if each is not EndReason.DEADLINE]))
def test_a_check_passes_by_exit_code_0_alone(line: str, status: int, reason: EndReason) -> None:
    fact = ExitFact(status=status, reason=reason, at=NOON, elapsed_s=1)
    after = ended(a_command(line=line), fact, None, 60, NOON)
    assert after.is_over
    if after.result is CommandResult.PASSED:
        assert status == 0
    assert "\n" not in after.reason
    assert len(after.reason) < 200


def test_a_check_that_passed_at_its_deadline_failed() -> None:
    fact = ExitFact(status=0, reason=EndReason.DEADLINE, at=NOON, elapsed_s=60)
    assert ended(a_command(), fact, None, 60, NOON).result is CommandResult.FAILED


def test_a_signal_after_a_stop_is_the_stop() -> None:
    fact = ExitFact(status=9, reason=EndReason.EXITED, at=NOON, elapsed_s=1)
    assert ended(a_command(), fact, STOP, 60, NOON).result is CommandResult.STOPPED
    assert ended(a_command(), fact, None, 60, NOON).result is CommandResult.FAILED


def test_a_launch_that_never_happened_is_tried_again_elsewhere_and_given_up_in_the_end() -> None:
    command = a_command()
    for tries in range(1, MAX_TRIES):
        command = never_launched(command, f"y{tries}", "It could not be started.", NOON)
        assert (command.state, command.execution_id) == (CommandState.RESERVED, f"y{tries}")
    command = never_launched(command, "z", "It could not be started.", NOON)
    assert (command.state, command.result) == (CommandState.ENDED, CommandResult.NOT_RUN)
    assert command.execution_id != "z"


def test_the_next_one_is_the_first_that_has_not_ended() -> None:
    commands = [a_command(1, result=CommandResult.FAILED), a_command(2), a_command(3)]
    assert next_of(commands) == commands[1]
    assert next_of(commands[:1]) is None


def test_a_check_is_never_tried_again_by_itself() -> None:
    """What may have run is not run again (R3)."""
    assert not ROWS[FailureKind.CHECK_FAILED].retried
    assert not ROWS[FailureKind.CHECK_NOT_RUN].retried
