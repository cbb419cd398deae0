"""A task's life as spans of time."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from support.records import NOON, make_run, make_task

from watchkeeper.domain.model import ExitFact, Run, RunState, Task, TaskState
from watchkeeper.domain.run_record import EndReason
from watchkeeper.domain.samples import AGENT
from watchkeeper.domain.timeline import Announced, OnStep, Span, at_once, spans


def _at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def _task(state: TaskState = TaskState.DONE, ended: float | None = 10) -> Task:
    return replace(
        make_task(), state=state, created_at=_at(0), updated_at=_at(0), ended_at=None if ended is None else _at(ended)
    )


def _run(number: int, claimed: float, started: float | None, ended: float | None, settled: float | None) -> Run:
    return replace(
        make_run(make_task(), number),
        number=number,
        state=RunState.SETTLED if settled is not None else RunState.RUNNING,
        claimed_at=_at(claimed),
        agent=None if started is None else replace(AGENT, started_at=_at(started)),
        exit=None if ended is None else ExitFact(status=0, reason=EndReason.EXITED, at=_at(ended), elapsed_s=1),
        settled_at=None if settled is None else _at(settled),
    )


def _minutes_of(found: tuple[Span, ...]) -> list[tuple[str, float, float]]:
    def minutes(at: datetime) -> float:
        return (at - NOON).total_seconds() / 60

    return [(span.on_step.value, minutes(span.start), minutes(span.end)) for span in found]


def test_a_life_has_no_gaps() -> None:
    """In the queue, starting, working, ending, and again for the second run."""
    runs = [_run(1, 1, 2, 4, 5), _run(2, 7, 8, 9, 10)]
    assert _minutes_of(spans(_task(), runs, [], _at(60))) == [
        ("waiting", 0, 1),
        ("starting", 1, 2),
        ("working", 2, 4),
        ("ending", 4, 5),
        ("waiting", 5, 7),
        ("starting", 7, 8),
        ("working", 8, 9),
        ("ending", 9, 10),
    ]


@pytest.mark.parametrize(
    ("state", "ended", "last"),
    [
        (TaskState.QUEUED, None, ("waiting", 5, 20)),
        (TaskState.NEEDS_INPUT, None, ("needs you", 5, 20)),
        (TaskState.DONE, 5, ("ending", 4, 5)),
    ],
)
def test_what_follows_the_last_run_is_told_by_the_state(
    state: TaskState, ended: float | None, last: tuple[str, float, float]
) -> None:
    """Until now, or nothing."""
    assert _minutes_of(spans(_task(state, ended), [_run(1, 1, 2, 4, 5)], [], _at(20)))[-1] == last


def test_a_task_that_was_cancelled_waited_until_then() -> None:
    """And not until now."""
    assert _minutes_of(spans(_task(TaskState.STOPPED, 3), [], [], _at(20))) == [("waiting", 0, 3)]


def test_a_run_at_work_lasts_until_now() -> None:
    """So does one whose agent was not seen yet."""
    assert _minutes_of(spans(_task(TaskState.RUNNING, None), [_run(1, 1, 2, None, None)], [], _at(20)))[-1] == (
        "working",
        2,
        20,
    )
    assert _minutes_of(spans(_task(TaskState.RUNNING, None), [_run(1, 1, None, None, None)], [], _at(20)))[-1] == (
        "starting",
        1,
        20,
    )


def test_a_held_run_is_uncertain_from_when_it_was_held() -> None:
    """Before that it worked."""
    run = replace(_run(1, 1, 2, None, None), state=RunState.HELD)
    task = replace(_task(TaskState.HELD, None), updated_at=_at(9))
    assert _minutes_of(spans(task, [run], [], _at(20)))[1:] == [("starting", 1, 2), ("working", 2, 9), ("held", 9, 20)]


def test_times_that_step_back_make_no_span_that_ends_before_it_starts() -> None:
    """Clocks of two machines differ a little."""
    runs = [_run(1, 1, 0.5, 0.4, 5)]
    found = spans(_task(), runs, [], _at(20))
    assert all(span.end > span.start for span in found)
    assert found[-1].end == _at(5)


def test_a_wait_is_cut_where_another_reason_was_announced() -> None:
    """Each part has its own."""
    waits = [Announced(at=_at(2), why="checkout busy"), Announced(at=_at(4), why="")]
    found = spans(_task(TaskState.QUEUED, None), [], waits, _at(6))
    assert [(span.why, span.start, span.end) for span in found] == [
        ("", _at(0), _at(2)),
        ("checkout busy", _at(2), _at(4)),
        ("", _at(4), _at(6)),
    ]


def test_the_most_at_once_counts_agents_that_overlap() -> None:
    """One that starts as another ends does not count with it; one outside the time does not count."""

    def row(start: float, end: float) -> tuple[Span, ...]:
        return (Span(on_step=OnStep.WORKING, start=_at(start), end=_at(end)),)

    assert at_once([row(0, 5), row(5, 9)], _at(0), _at(9)) == 1
    assert at_once([row(0, 5), row(4, 9), row(3, 6)], _at(0), _at(9)) == 3
    assert at_once([row(0, 5), row(4, 9)], _at(6), _at(9)) == 1
    assert at_once([], _at(0), _at(1)) == 0
