"""End a task: `wk stop` and `wk kill`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from watchkeeper.app.off_record import put_on_record
from watchkeeper.app.parts import Caller, Parts
from watchkeeper.app.record_stop import record_stops
from watchkeeper.app.together import DecisionResult, is_away
from watchkeeper.domain.model import FINAL_TASK_STATES, Proof, Run, StopHow, StopRequest, Task, TaskState
from watchkeeper.errors import WatchkeeperError


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTaskRequest:
    """What a person wants ended, and how."""

    task_id: str
    how: StopHow = StopHow.STOP
    grace_s: float | None = None
    """Seconds between TERM and KILL; None: as the launch profile says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopTaskResult:
    """What the request came to."""

    task: Task
    """The task as it stands now."""
    had_ended: bool
    """It had ended before, and stays as it ended."""
    survivor: Run | None
    """The last run of a task that has ended, with its agent, if the agent was alive all the same. It is ended now."""


def stop(parts: Parts, caller: Caller, request: StopTaskRequest) -> StopTaskResult:
    """Record that a task is to end. A daemon acts on it; a stop of the task that the database could not take before is recorded first.

    Raises:
        NoSuchTask: no task has that id.
        StateError: the database cannot take it.
        OSError: notes of earlier stops cannot be read.
    """
    return stop_all(parts, caller, [request])[0].get()


def stop_all(parts: Parts, caller: Caller, requests: Sequence[StopTaskRequest]) -> list[DecisionResult[StopTaskResult]]:
    """Record in few transactions that many tasks are to end, all in the same way. Returns the result of each, in this order.

    A task that fails keeps no other from being stopped.
    """
    if not requests:
        return []
    before = [_before(parts, task) for task in _tasks(parts, [request.task_id for request in requests])]
    ready = [number for number, result in enumerate(before) if result.problem is None]
    how, grace_s = requests[0].how, requests[0].grace_s
    asked = StopRequest(how=how, by=caller.by, at=parts.clock.now(), grace_s=grace_s)
    recorded = record_stops(parts.store, parts.clock, [requests[number].task_id for number in ready], asked)
    results: list[DecisionResult[StopTaskResult]] = [DecisionResult(problem=result.problem) for result in before]
    for number, task in zip(ready, recorded, strict=True):
        results[number] = _result(before[number].get(), task)
    return results


@dataclass(frozen=True, slots=True, kw_only=True)
class _Before:
    """How a task stood before it was stopped. Looked at then, because a daemon may end it in the same instant."""

    had_ended: bool
    survivor: Run | None


def _result(before: _Before, task: DecisionResult[Task]) -> DecisionResult[StopTaskResult]:
    if task.problem is not None:
        return DecisionResult(problem=task.problem)
    stopped = task.get()
    survivor = before.survivor if stopped.state in FINAL_TASK_STATES else None
    return DecisionResult(value=StopTaskResult(task=stopped, had_ended=before.had_ended, survivor=survivor))


def _tasks(parts: Parts, task_ids: Sequence[str]) -> list[DecisionResult[Task]]:
    """How the tasks stand. Earlier stops that are not on record yet are recorded first."""
    try:
        for task_id in task_ids:
            _ = put_on_record(parts.store, parts.clock, parts.runtime, task_id)
        return [
            DecisionResult(value=task) for task in parts.store.read(lambda tx: [tx.tasks.get(one) for one in task_ids])
        ]
    except (WatchkeeperError, OSError) as problem:
        if len(task_ids) == 1 or is_away(problem):
            return [DecisionResult(problem=problem) for _ in task_ids]
    return [result for task_id in task_ids for result in _tasks(parts, [task_id])]


def _before(parts: Parts, found: DecisionResult[Task]) -> DecisionResult[_Before]:
    if found.problem is not None:
        return DecisionResult(problem=found.problem)
    task = found.get()
    had_ended = task.state in FINAL_TASK_STATES
    try:
        survivor = _survivor(parts, task.id) if had_ended or task.state is TaskState.HELD else None
    except (WatchkeeperError, OSError) as problem:
        return DecisionResult(problem=problem)
    return DecisionResult(value=_Before(had_ended=had_ended, survivor=survivor))


def _survivor(parts: Parts, task_id: str) -> Run | None:
    """The last run of a task that is held or has ended, with its agent, if that is alive all the same: a person's word is not its end."""
    runs = parts.store.read(lambda tx: tx.runs.of_task(task_id))
    if not runs or runs[-1].proof is Proof.PROVEN:
        return None
    agent = parts.runtime.living_agent(runs[-1])
    return None if agent is None else replace(runs[-1], agent=agent)
