"""Pin a task: it is listed first, and retention keeps it."""

from dataclasses import dataclass

from watchkeeper.app.parts import Caller, Parts
from watchkeeper.app.record import apply_task
from watchkeeper.domain.model import Task
from watchkeeper.domain.task import Pinned


@dataclass(frozen=True, slots=True, kw_only=True)
class PinRequest:
    """Whether a task is kept on top and out of pruning."""

    task_id: str
    pinned: bool


def pin(parts: Parts, caller: Caller, request: PinRequest) -> Task:
    """Keep a task on top and out of pruning, or no longer; returns the task as it is then. Raises NoSuchTask."""
    at = parts.clock.now()
    pinned = Pinned(pinned=request.pinned, by=caller.by, at=at)
    return parts.store.transact("pin", lambda tx: apply_task(tx, tx.tasks.get(request.task_id), pinned, at))
