"""A person gives a task another title, or keeps it on top."""

from watchkeeper.app.add import MAX_TITLE
from watchkeeper.app.record import apply_task
from watchkeeper.domain.model import Task
from watchkeeper.domain.task import Pinned, Renamed
from watchkeeper.errors import BadTask
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.store import Store


def rename(store: Store, clock: Clock, task_id: str, title: str, *, by: str) -> Task:
    """Give a task another title; the instruction stays as it was.

    Raises:
        NoSuchTask: there is none.
        BadTask: the title is empty or too long.
    """
    title = " ".join(title.split())
    if not title:
        raise BadTask("A title cannot be empty.", hint="Say what the task is to be called.")
    if len(title) > MAX_TITLE:
        raise BadTask(f"The title is longer than {MAX_TITLE} characters.", hint="Shorten it.")
    at = clock.now()
    return store.transact(
        "rename", lambda tx: apply_task(tx, tx.tasks.get(task_id), Renamed(title=title, by=by, at=at), at)
    )


def pin(store: Store, clock: Clock, task_id: str, *, pinned: bool, by: str) -> Task:
    """Keep a task on top and out of pruning, or no longer. Raises NoSuchTask."""
    at = clock.now()
    return store.transact(
        "pin", lambda tx: apply_task(tx, tx.tasks.get(task_id), Pinned(pinned=pinned, by=by, at=at), at)
    )
