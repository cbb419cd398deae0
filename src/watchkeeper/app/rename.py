"""Give a task another title."""

from dataclasses import dataclass

from watchkeeper.app.add import MAX_TITLE
from watchkeeper.app.parts import Caller, Parts
from watchkeeper.app.record import apply_task
from watchkeeper.app.secrets import refuse_words
from watchkeeper.domain.model import Task
from watchkeeper.domain.task import Renamed
from watchkeeper.errors import BadTask


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameRequest:
    """Another title for a task."""

    task_id: str
    title: str


def rename(parts: Parts, caller: Caller, request: RenameRequest) -> Task:
    """Give a task another title; the instruction stays as it was. Returns the task as it is then.

    Raises:
        NoSuchTask: no task has that id.
        BadTask: the title is empty or too long, or holds a secret.
    """
    refuse_words([("The title", request.title)], caller.environ)
    title = " ".join(request.title.split())
    if not title:
        raise BadTask("A title cannot be empty.", hint="Say what the task is to be called.")
    if len(title) > MAX_TITLE:
        raise BadTask(f"The title is longer than {MAX_TITLE} characters.", hint="Shorten it.")
    at = parts.clock.now()
    renamed = Renamed(title=title, by=caller.by, at=at)
    return parts.store.transact("rename", lambda tx: apply_task(tx, tx.tasks.get(request.task_id), renamed, at))
