"""Take back a task that never ran."""

from dataclasses import dataclass

from watchkeeper.app.parts import Caller, Parts
from watchkeeper.app.record import apply_task
from watchkeeper.domain.model import StopHow, StopRequest, Task, TaskState
from watchkeeper.domain.selection import can_cancel
from watchkeeper.domain.task import StopAsked
from watchkeeper.errors import Refused
from watchkeeper.ports.store import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequest:
    """The task that a person takes back."""

    task_id: str


def cancel(parts: Parts, caller: Caller, request: CancelRequest) -> Task:
    """Stop a task that waits for its first run, decided in the same transaction that would claim it; returns the task as it is then.

    Raises:
        NoSuchTask: no task has that id.
        Refused: it has run, or has ended.
    """
    at = parts.clock.now()

    def work(tx: Tx) -> Task:
        task = tx.tasks.get(request.task_id)
        if not can_cancel(task):
            raise _refusal(task)
        return apply_task(tx, task, StopAsked(request=StopRequest(how=StopHow.STOP, by=caller.by, at=at)), at)

    return parts.store.transact("cancel", work)


def _refusal(task: Task) -> Refused:
    match task.state:
        case TaskState.STOPPED if not task.runs:
            return Refused(f"Task {task.id} was cancelled already.", hint=f"`wk retry {task.id}` queues it again.")
        case TaskState.DONE | TaskState.FAILED | TaskState.STOPPED:
            return Refused(f"Task {task.id} has ended: it is {task.state.value}.", hint="There is nothing to cancel.")
        case _:
            return Refused(
                f"Task {task.id} has run already, so it cannot be cancelled.", hint=f"`wk stop {task.id}` ends it."
            )
