"""A person takes back a task that never ran."""

from watchkeeper.app.record import apply_task
from watchkeeper.domain.model import StopHow, StopRequest, Task, TaskState
from watchkeeper.domain.task import StopAsked
from watchkeeper.errors import Refused
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.store import Store, Tx


def cancel(store: Store, clock: Clock, task_id: str, by: str) -> Task:
    """Stop a task that waits for its first run, decided in the same transaction that would claim it.

    Raises:
        NoSuchTask: there is none.
        Refused: it has run, or has ended.
    """
    at = clock.now()

    def work(tx: Tx) -> Task:
        task = tx.tasks.get(task_id)
        if task.state is not TaskState.QUEUED or task.runs:
            raise _refusal(task)
        return apply_task(tx, task, StopAsked(request=StopRequest(how=StopHow.STOP, by=by, at=at)), at)

    return store.transact("cancel", work)


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
