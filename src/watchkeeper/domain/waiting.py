"""Why one task waits: every reason, told from the facts that are kept beside its row and from what closes its lane.

Computed on request; no decision depends on it. The claim uses the same facts: a task that has a reason here is not claimed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.lanes import Lane, LaneConditions, Reason, closed
from watchkeeper.domain.task_record import Task, TaskState
from watchkeeper.domain.wait import Wait

_ANY_NUMBER = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """A task that another one waits for, and how it stands."""

    task_id: str
    state: TaskState


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFacts:
    """What is kept beside a task's row about its wait."""

    lane: Lane
    ready: bool
    unmet: int
    """How many of the tasks that it waits for are not done."""
    blocked: bool
    holders: tuple[str, ...]
    """The tasks that work in its checkout now, where it may run."""
    taken_on: tuple[str, ...] = ()
    """On which machine each of them works; a checkout of that name on another machine is another one."""
    held: tuple[str, ...] = ()
    """Those of them that are held: whether a process still works there is uncertain."""
    before: str | None
    """The queued task that stands before it in its checkout and lane."""


NEEDS: dict[FailureKind, Wait] = {
    FailureKind.PERMISSION_DENIED: Wait.APPROVAL,
    FailureKind.DIRECTORY_CHANGED: Wait.APPROVAL,
    FailureKind.SIGNED_OUT: Wait.SIGNED_OUT,
    FailureKind.PROGRAM_MISSING: Wait.HARNESS_MISSING,
    FailureKind.QUOTA: Wait.QUOTA_UNTIL,
    FailureKind.ENVIRONMENT_UNKNOWN: Wait.ENVIRONMENT_UNKNOWN,
}
"""What a task waits for that needs a person, by why its last run failed; everything else is a question to them."""

_TIMES: dict[Wait, str] = {
    Wait.NOT_BEFORE: "as you asked",
    Wait.RETRY_AT: "its last run failed for a passing reason, and it is tried again",
    Wait.QUOTA_UNTIL: "the limit of its account was used up",
    Wait.HARNESS_MISSING: "its program was missing, and is looked for again",
}

_STANDS: dict[TaskState, str] = {
    TaskState.QUEUED: "is queued",
    TaskState.RUNNING: "is running",
    TaskState.NEEDS_INPUT: "needs you",
    TaskState.HELD: "is held",
    TaskState.FAILED: "failed",
    TaskState.STOPPED: "was stopped",
}

_NEVER_BY_ITSELF = frozenset({TaskState.FAILED, TaskState.STOPPED})
_FOR_A_PERSON = frozenset({TaskState.NEEDS_INPUT, TaskState.HELD})

ENDS_BY_ITSELF = frozenset({"not before", "retry at", "quota until", "limit", "machine", "service"})
"""Waits that end without a person, by the words of `Wait`: a time comes, others finish, a service recovers."""

ENDS_WITH_OTHERS = frozenset({"dependency", "checkout busy"})
"""Waits that end with other tasks: without a person if those tasks need none."""

NEEDS_A_PERSON = frozenset(
    {"paused", "signed out", "harness missing", "approval", "question", "environment unknown", "record torn"}
)
"""Waits that end only when a person acts. Each word of `Wait` is in exactly one of the three sets."""


def reasons(
    task: Task, facts: WaitFacts, dependencies: Sequence[Dependency], conditions: LaneConditions
) -> tuple[Reason, ...]:
    """Every reason why a task waits, seen from one machine, the most lasting first. Empty if nothing stands in its way, or it does not wait."""
    if task.state in _FOR_A_PERSON:
        return (_person(task),)
    if task.state is not TaskState.QUEUED:
        return ()
    lane = lane_reasons(facts.lane, conditions)
    limits = [reason for reason in lane if reason.wait is Wait.LIMIT]
    others = [reason for reason in lane if reason.wait is not Wait.LIMIT]
    own = own_reasons(task, _seen_from(facts, conditions), dependencies, conditions.now)
    blocked = [reason for reason in own if reason.wait is Wait.DEPENDENCY]
    return (*blocked, *others, *(reason for reason in own if reason.wait is not Wait.DEPENDENCY), *limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """What keeps a task until a person acts."""

    task_id: str
    """Whose wait it is: the task's own, or that of a task that it waits for."""
    reason: Reason


def stuck(task_id: str, look: Callable[[str], tuple[Task, Sequence[Reason]]]) -> Stuck | None:
    """Why a task makes no progress until a person acts; None if it may continue by itself, or does not wait.

    One wait for a person is enough, whatever else the task waits for. `look` gives a task by its id, with every reason why it waits.
    """
    todo, seen = [task_id], set[str]()
    while todo:
        each = todo.pop()
        if each in seen:
            continue
        seen.add(each)
        for reason in look(each)[1]:
            if reason.wait in NEEDS_A_PERSON:
                return Stuck(task_id=each, reason=reason)
            if reason.wait not in ENDS_WITH_OTHERS:
                continue
            states = {other: look(other)[0].state for other in reason.tasks}
            if any(_keeps(reason.wait, state) for state in states.values()):
                return Stuck(task_id=each, reason=reason)
            todo += [other for other, state in states.items() if state is TaskState.QUEUED]
    return None


def _keeps(wait: Wait, state: TaskState) -> bool:
    """Whether a task in this state keeps those that wait for it until a person acts. What needs a person holds no checkout; what is held does."""
    return state in _NEVER_BY_ITSELF | _FOR_A_PERSON if wait is Wait.DEPENDENCY else state is TaskState.HELD


def own_reasons(task: Task, facts: WaitFacts, dependencies: Sequence[Dependency], now: datetime) -> tuple[Reason, ...]:
    """The reasons of a queued task itself, apart from those of its lane, the most lasting first."""
    if task.state is not TaskState.QUEUED:
        return ()
    found = (_time(task, now), _checkout(facts))
    return (*_dependencies(task, dependencies), *(reason for reason in found if reason is not None))


def busy(holders: Sequence[str], held: Sequence[str] = ()) -> Reason:
    """The reason of a task in whose checkout others work, or may still work, as those that are held."""
    word = "works" if len(holders) == 1 else "work"
    detail = f"{_named(holders)} {word} in its checkout"
    if held:
        detail = f"{_named(held)}, which {'is' if len(held) == 1 else 'are'} held, may still work in its checkout: `wk show {held[0]}`"
    return Reason(wait=Wait.CHECKOUT_BUSY, detail=detail, tasks=tuple(holders))


def circle(task_id: str, after: Sequence[str], waits_for: Callable[[str], Sequence[str]]) -> tuple[str, ...] | None:
    """The way on which a task would wait for itself if it waited for `after`, from it back to it; None if there is none.

    `waits_for` tells what another task waits for.
    """
    seen: set[str] = set()
    ways: list[tuple[str, ...]] = [(task_id, each) for each in after]
    while ways:
        way = ways.pop()
        here = way[-1]
        if here == task_id:
            return way
        if here not in seen:
            seen.add(here)
            ways += [(*way, each) for each in waits_for(here)]
    return None


def _seen_from(facts: WaitFacts, conditions: LaneConditions) -> WaitFacts:
    """A task that any machine may run waits on each machine only for the runs in the checkout there."""
    if facts.lane.machine is not None or not facts.taken_on:
        return facts
    here = [task for task, machine in zip(facts.holders, facts.taken_on, strict=True) if machine == conditions.machine]
    return replace(facts, holders=tuple(here), held=tuple(each for each in facts.held if each in here))


def _dependencies(task: Task, dependencies: Sequence[Dependency]) -> list[Reason]:
    """One reason for each task that it waits for; first those that will not come by themselves."""
    unmet = [each for each in dependencies if each.state is not TaskState.DONE]
    unmet.sort(key=lambda each: (each.state not in _NEVER_BY_ITSELF, each.state not in _FOR_A_PERSON))
    return [
        Reason(wait=Wait.DEPENDENCY, detail=_describe_dependency(task.id, each), tasks=(each.task_id,))
        for each in unmet
    ]


def _describe_dependency(task_id: str, on: Dependency) -> str:
    detail = f"task {on.task_id} {_STANDS.get(on.state, on.state.value)} and must be done first"
    if on.state in _NEVER_BY_ITSELF:
        return (
            f"{detail}: it will never start by itself; `wk retry {on.task_id}` tries that one again, "
            f"`wk edit {task_id} --after none` waits for none"
        )
    return f"{detail}: `wk show {on.task_id}` says what for" if on.state in _FOR_A_PERSON else detail


def _time(task: Task, now: datetime) -> Reason | None:
    wait = task.wakes_for
    if wait is None or task.wake_at is None or task.wake_at <= now:
        return None
    detail = _TIMES.get(wait, "its start was put off")
    return Reason(wait=wait, detail=f"{detail} ({task.reason})" if task.reason else detail, until=task.wake_at)


def _checkout(facts: WaitFacts) -> Reason | None:
    if facts.holders:
        return busy(facts.holders, facts.held)
    if facts.blocked and facts.before is not None:
        return Reason(
            wait=Wait.CHECKOUT_BUSY,
            detail=f"task {facts.before} stands before it in the same checkout",
            tasks=(facts.before,),
        )
    return None


def lane_reasons(lane: Lane, conditions: LaneConditions) -> tuple[Reason, ...]:
    """What closes its lane. Of another machine only what people said is known here: not how many work there, nor what it has."""
    if lane.machine is None or lane.machine == conditions.machine:
        return closed(lane, conditions)
    there = replace(conditions, machine=lane.machine, limit=_ANY_NUMBER, accounts={}, harnesses={})
    here = closed(lane, conditions)
    return (*closed(lane, there), *(reason for reason in here if reason.wait is Wait.MACHINE))


def _person(task: Task) -> Reason:
    """What a task that rests until a person acts waits for."""
    wait = Wait.QUESTION if task.kind is None else NEEDS.get(task.kind, Wait.QUESTION)
    return Reason(wait=wait, detail=task.reason or "it waits for a person")


def _named(tasks: Sequence[str]) -> str:
    return f"{'task' if len(tasks) == 1 else 'tasks'} {', '.join(tasks)}"
