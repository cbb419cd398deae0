"""What an agent learns of its working copy: variables beside those of the caller."""

from watchkeeper.domain.model import Task, TaskSpec
from watchkeeper.errors import RecordTorn
from watchkeeper.ports.store import Tx

MOST = 50
"""So many other tasks are named."""


def beside(tx: Tx, task: Task, machine: str) -> tuple[str, ...]:
    """The other tasks that work in the task's repository now, on the same machine."""
    place = _repository(task.spec)
    if place is None:
        return ()
    found: list[str] = []
    for run in tx.runs.live(machine):
        try:
            other = tx.tasks.get(run.task_id)
        except RecordTorn:
            continue  # it is named where people look
        if other.id != task.id and _repository(other.spec) == place:
            found.append(other.id)
    return tuple(found[:MOST])


def variables_of(task: Task, others: tuple[str, ...]) -> dict[str, str]:
    """The variables of a task with a worktree or a scratch directory; none for another one."""
    tree = task.spec.worktree
    if task.spec.scratch:
        return {"WATCHKEEPER_SCRATCH": task.spec.cwd}
    if tree is None:
        return {}
    return {
        "WATCHKEEPER_WORKTREE": tree.path,
        "WATCHKEEPER_BRANCH": tree.branch,
        "WATCHKEEPER_BASE": tree.base,
        "WATCHKEEPER_CHECKOUT": tree.source,
        "WATCHKEEPER_BESIDE": " ".join(others),
    }


def _repository(spec: TaskSpec) -> str | None:
    """What tasks of one repository have in common: the checkout that they were handed over from."""
    return spec.checkout if spec.worktree is None else spec.worktree.source
