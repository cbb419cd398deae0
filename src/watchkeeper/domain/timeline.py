"""Who ran when, and who waited why: a task's life as spans of time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from watchkeeper.domain.run_record import Run, RunState
from watchkeeper.domain.task_record import Task, TaskState


class OnStep(StrEnum):
    """What a task does in a span of time."""

    WAITING = "waiting"
    """In the queue: before its first run, or between two runs."""
    STARTING = "starting"
    """Claimed; its agent is not seen yet."""
    WORKING = "working"
    ENDING = "ending"
    """Its agent has ended; its outcome is not decided yet."""
    HELD = "held"
    """What happened to its run is uncertain."""
    NEEDS_YOU = "needs you"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch of time; `end` is the time of the look where it still lasts."""

    on_step: OnStep
    start: datetime
    end: datetime
    why: str = ""
    """Of waiting: why, as far as it was announced."""
    run: int | None = None
    """The number of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """Why a task waits, as it was announced at a time."""

    at: datetime
    why: str


def spans(task: Task, runs: Sequence[Run], waits: Sequence[Announced], now: datetime) -> tuple[Span, ...]:
    """A task's life until now, in the order of time, without gaps where it was in the queue or had a run.

    `runs` are in order. Times of different clocks may step back a little: a span never ends before it starts.
    """
    found: list[Span] = []
    since: datetime | None = task.created_at
    for run in runs:
        if since is not None:
            found += _waiting(since, run.claimed_at, waits)
        found += _of_run(run, task, now)
        since = run.settled_at
    if since is not None:
        found += _after(task, since, waits, now, ran=bool(runs))
    return tuple(span for span in found if span.end > span.start)


def _after(task: Task, since: datetime, waits: Sequence[Announced], now: datetime, *, ran: bool) -> list[Span]:
    """What follows the last run, or the hand-over."""
    match task.state:
        case TaskState.QUEUED:
            return _waiting(since, now, waits)
        case TaskState.NEEDS_INPUT:
            return [Span(on_step=OnStep.NEEDS_YOU, start=since, end=now)]
        case _ if not ran and task.ended_at is not None:
            return _waiting(since, task.ended_at, waits)
        case _:
            return []


def _of_run(run: Run, task: Task, now: datetime) -> list[Span]:
    last = run.settled_at or now
    started = None if run.agent is None else run.agent.started_at
    ended = None if run.exit is None else run.exit.at
    marks: list[tuple[OnStep, datetime]] = [(OnStep.STARTING, run.claimed_at)]
    if started is not None:
        marks.append((OnStep.WORKING, max(started, run.claimed_at)))
    if ended is not None:
        marks.append((OnStep.ENDING, max(ended, marks[-1][1])))
    if run.state is RunState.HELD:
        marks.append((OnStep.HELD, max(task.updated_at, marks[-1][1])))
    ends = [*(at for _, at in marks[1:]), last]
    return [
        Span(on_step=on_step, start=start, end=min(end, last) if run.settled_at else end, run=run.number)
        for (on_step, start), end in zip(marks, ends, strict=True)
    ]


def _waiting(start: datetime, end: datetime, waits: Sequence[Announced]) -> list[Span]:
    """A stretch in the queue, cut where another reason was announced."""
    before = [each for each in waits if each.at <= start]
    within = [each for each in waits if start < each.at < end]
    cuts = [Announced(at=start, why=before[-1].why if before and not within else ""), *within]
    ends = [*(each.at for each in within), end]
    return [
        Span(on_step=OnStep.WAITING, start=cut.at, end=until, why=cut.why)
        for cut, until in zip(cuts, ends, strict=True)
    ]


def at_once(rows: Sequence[Sequence[Span]], start: datetime, end: datetime) -> int:
    """The most agents that worked at the same time between two times."""
    edges = sorted(
        edge
        for row in rows
        for span in row
        if span.on_step is OnStep.WORKING and span.end > start and span.start < end
        for edge in ((span.start, 1), (span.end, -1))
    )
    most = count = 0
    for _, step in edges:
        count += step
        most = max(most, count)
    return most
