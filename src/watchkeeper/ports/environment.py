"""The caller's environment, kept for a task until it ends (R17: in a 0600 file, never in the database)."""

from collections.abc import Mapping
from typing import Protocol


class Environments(Protocol):
    """Captured environments, by task."""

    def keep(self, task_id: str, environment: Mapping[str, str]) -> None:
        """Write it durably, replacing an earlier one. Raises OSError."""
        ...

    def get(self, task_id: str) -> Mapping[str, str] | None:
        """What was kept, or None if it is gone. Raises OSError if it cannot be read."""
        ...

    def forget(self, task_id: str) -> None:
        """Delete it; gone already is fine."""
        ...

    def task_ids(self) -> list[str]:
        """Tasks for which one is kept."""
        ...
