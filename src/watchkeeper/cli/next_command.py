"""Which command comes next for a task, where a list has room for one only. `wk show` names them all."""

from typing import TYPE_CHECKING

from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.repair import can_run_again
from watchkeeper.domain.task_record import TaskState

if TYPE_CHECKING:
    from watchkeeper.domain.task_record import Task


_HAS_DIFF = frozenset({"committed", "changed"})


def next_command(task: "Task", result: str | None = None) -> str:
    """The command that a person most likely wants next. `result`: what its newest run left behind."""
    match task.state:
        case TaskState.RUNNING:
            return f"wk logs -f {task.id}"
        case TaskState.DONE if result in _HAS_DIFF:
            return f"wk diff {task.id}"
        case TaskState.QUEUED:
            return f"wk why {task.id}"
        case TaskState.FAILED | TaskState.STOPPED if can_run_again(task.spec):
            return f"wk retry {task.id}"
        case TaskState.NEEDS_INPUT if task.kind is not FailureKind.ASKED and can_run_again(task.spec):
            return f"wk retry {task.id}"
        case _:
            return f"wk show {task.id}"
