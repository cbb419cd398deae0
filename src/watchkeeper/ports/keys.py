"""By which names tasks are found: their ids, and the callers' own keys for what they handed over."""

from typing import Protocol


class Keys(Protocol):
    """Ids and keys of tasks."""

    def ids_like(self, prefix: str, limit: int) -> list[str]:
        """Ids that start with `prefix`, newest first."""
        ...

    def take_key(self, task_id: str, key: str, digest: str) -> None:
        """Let the caller's key stand for a task, as long as the task is there. Raises Stale if it stands for one."""
        ...

    def keyed(self, key: str) -> tuple[str, str] | None:
        """The id of the task that a key stands for, and the digest of what was handed over."""
        ...

    def key_of(self, task_id: str) -> str | None:
        """The key that stands for a task."""
        ...
