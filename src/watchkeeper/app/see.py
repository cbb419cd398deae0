"""Record that a person has looked at what failed. Nothing is decided by it, so a look never waits for it and never fails because of it.

Reads change nothing; this is the one exception, in a transaction of its own.
"""

import contextlib
from collections.abc import Callable

from watchkeeper.domain.model import Task, TaskState
from watchkeeper.errors import WatchkeeperError
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.store import Store


def see(store: Callable[[], Store], clock: Callable[[], Clock], task: Task) -> None:
    """Record a look at a task as it was shown. Does nothing if it has not failed, has moved on, or the record cannot be written."""
    if task.state is not TaskState.FAILED or task.seen_at is not None:
        return
    with contextlib.suppress(WatchkeeperError, OSError):
        at = clock().now()
        _ = store().transact("see", lambda tx: tx.tasks.see(task, at), durable=False)


def see_all(store: Store, clock: Clock) -> int:
    """Record that every failure was looked at; returns how many had not been.

    Raises:
        DatabaseUnusable: and its kinds.
    """
    at = clock.now()
    return store.transact("see", lambda tx: tx.tasks.see_all(at), durable=False)
