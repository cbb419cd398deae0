"""Waiting until tasks come to rest, and what their rest means for an exit code."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from watchkeeper.cli import daemon
from watchkeeper.cli.follow import NET_S, Watcher
from watchkeeper.domain.model import RESTING_TASK_STATES, Task, TaskState
from watchkeeper.errors import Exit

if TYPE_CHECKING:
    from watchkeeper.cli.call import Call
    from watchkeeper.ports.store import Store

CODES: dict[TaskState, Exit] = {
    TaskState.DONE: Exit.OK,
    TaskState.FAILED: Exit.TASK_FAILED,
    TaskState.NEEDS_INPUT: Exit.NEEDS_YOU,
    TaskState.HELD: Exit.NEEDS_YOU,
    TaskState.STOPPED: Exit.TASK_STOPPED,
}
"""The exit code for where a task came to rest."""

_WORST_FIRST = (Exit.TASK_FAILED, Exit.NEEDS_YOU, Exit.TASK_STOPPED, Exit.TIMEOUT)


def at_rest(task: Task) -> bool:
    """Whether nothing happens to a task until a person acts."""
    return task.state in RESTING_TASK_STATES


def worst(codes: Iterable[Exit]) -> Exit:
    """The exit code of several tasks: failed before needs you before stopped before done."""
    found = set(codes)
    return next((code for code in _WORST_FIRST if code in found), Exit.OK)


def wait_for(
    call: "Call",
    store: "Store",
    task_ids: Sequence[str],
    enough: Callable[[list[Task]], bool],
    timeout_s: float | None = None,
    progress: Callable[[list[Task], float], None] | None = None,
) -> list[Task]:
    """Wait until the tasks are as they should be, or the time is over; returns how they stand then, in the order given.

    Raises:
        NoSuchTask: one was removed.
    """
    began = time.monotonic()
    changed, mark = store.changed(0)
    vigil = daemon.Vigil(call)
    with Watcher([call.reading.state.path]) as watcher:
        tasks = load(store, task_ids)
        while not enough(tasks):
            passed_s = time.monotonic() - began
            left_s = NET_S if timeout_s is None else timeout_s - passed_s
            if left_s <= 0:
                break
            vigil.look()
            if progress is not None:
                progress(tasks, passed_s)
            watcher.wait(left_s)
            changed, mark = store.changed(mark)
            if changed:
                tasks = load(store, task_ids)
    call.terminal.clear_status()
    return tasks


def load(store: "Store", task_ids: Sequence[str]) -> list[Task]:
    """How tasks stand now."""
    return store.read(lambda tx: [tx.tasks.get(task_id) for task_id in task_ids])
