"""End a task: `wk stop` and `wk kill`."""

from dataclasses import dataclass, replace

from watchkeeper.app.off_record import put_on_record
from watchkeeper.app.parts import Caller, Parts
from watchkeeper.app.record_stop import record_stop
from watchkeeper.domain.model import FINAL_TASK_STATES, Proof, Run, StopHow, StopRequest, Task, TaskState


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
        NoSuchTask: there is none.
        StateError: the database cannot take it.
        OSError: notes of earlier stops cannot be read.
    """
    store, task_id = parts.store, request.task_id
    _ = put_on_record(store, parts.clock, parts.runtime, task_id)
    was = store.read(lambda tx: tx.tasks.get(task_id)).state
    had_ended = was in FINAL_TASK_STATES
    # Looked at before, because a daemon may end it in the same instant.
    survivor = _survivor(parts, task_id) if had_ended or was is TaskState.HELD else None
    asked = StopRequest(how=request.how, by=caller.by, at=parts.clock.now(), grace_s=request.grace_s)
    task = record_stop(store, parts.clock, task_id, asked)
    return StopTaskResult(
        task=task, had_ended=had_ended, survivor=survivor if task.state in FINAL_TASK_STATES else None
    )


def _survivor(parts: Parts, task_id: str) -> Run | None:
    """The last run of a task that is held or has ended, with its agent, if that is alive all the same: a person's word is not its end."""
    runs = parts.store.read(lambda tx: tx.runs.of_task(task_id))
    if not runs or runs[-1].proof is Proof.PROVEN:
        return None
    agent = parts.runtime.living_agent(runs[-1])
    return None if agent is None else replace(runs[-1], agent=agent)
