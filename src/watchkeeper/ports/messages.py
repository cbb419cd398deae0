"""The part of a transaction that holds messages to tasks, and what each run was given of them."""

from typing import Protocol

from watchkeeper.domain.message import Message, Turn


class Messages(Protocol):
    """Messages to tasks, and turns."""

    def add(self, message: Message, key: str | None = None) -> None:
        """Insert a new message. Raises Stale if its number is taken, or its key stands for another message of the task."""
        ...

    def save(self, message: Message, was: Message) -> None:
        """Write what one became. Raises Stale if it has moved on since it was read, or has ended."""
        ...

    def of_task(self, task_id: str) -> list[Message]:
        """All messages of a task, in order."""
        ...

    def waiting(self, task_id: str) -> list[Message]:
        """Those that wait for a run, in order."""
        ...

    def taken(self, task_id: str) -> list[Message]:
        """Those that a run has, in order."""
        ...

    def keyed(self, task_id: str, key: str) -> Message | None:
        """The message of the task that the caller's key stands for."""
        ...

    def count(self, task_id: str) -> int:
        """How many messages a task has; the number of the newest."""
        ...

    def add_turn(self, turn: Turn) -> None:
        """Record what a run is given. Raises Stale if that is on record already."""
        ...

    def turn(self, run_id: str) -> Turn | None:
        """What a run is given; None: the task's prompt alone."""
        ...
