"""Which tasks a verb can be done to, and which of these a person chooses by what holds of them."""

from dataclasses import dataclass

from watchkeeper.domain.model import FINAL_TASK_STATES, Task, TaskState
from watchkeeper.domain.repair import can_run_again


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What holds of the tasks that a person chooses. Without anything it is every task."""

    labels: tuple[str, ...] = ()
    """A task has all of them."""
    states: tuple[TaskState, ...] = ()
    """A task is in one of them; empty: in any."""
    projects: tuple[str, ...] = ()
    """A task is of one of them; empty: of any."""

    def holds(self, task: Task) -> bool:
        """Whether all of it holds of a task."""
        spec = task.spec
        return (
            set(self.labels) <= set(spec.labels)
            and (not self.states or task.state in self.states)
            and (not self.projects or spec.project in self.projects)
        )


def can_stop(task: Task) -> bool:
    """Whether a task has not ended."""
    return task.state not in FINAL_TASK_STATES


def can_cancel(task: Task) -> bool:
    """Whether a task waits for its first run."""
    return task.state is TaskState.QUEUED and not task.runs


def can_retry(task: Task) -> bool:
    """Whether a task can run again: it did not reach its goal, is not under way, and what it was to do is known."""
    return task.state not in {TaskState.QUEUED, TaskState.RUNNING, TaskState.DONE} and can_run_again(task.spec)


def can_remove(task: Task) -> bool:
    """Whether a task has ended and is not pinned. More may stand in the way: see `removal`."""
    return task.state in FINAL_TASK_STATES and task.pinned_at is None
