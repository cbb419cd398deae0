"""Choose tasks by what holds of them."""

from collections.abc import Callable

from watchkeeper.domain.model import Task, TaskState
from watchkeeper.domain.selection import Selection
from watchkeeper.ports.store import Store

_PAGE = 500


def select(store: Store | None, can: Callable[[Task], bool], selection: Selection) -> list[str]:
    """The ids of the tasks of which the selection holds and to which a verb can be done (`can`), in the order of handing over. No database has no tasks."""
    if store is None:
        return []
    states, found, after = selection.states or tuple(TaskState), list[str](), 0
    while True:
        tasks, after = store.read(lambda tx, after=after: tx.tasks.in_order(states, _PAGE, after))
        found += [task.id for task in tasks if can(task) and selection.holds(task)]
        if len(tasks) < _PAGE:
            return found
