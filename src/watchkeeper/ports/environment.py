"""The caller's environment, kept for a task until it ends (R17: in a 0600 file, never in the database)."""

from collections.abc import Mapping
from typing import Protocol


class Environments(Protocol):
    """Captured environments, each under a random id that its task names."""

    def keep(self, environment_id: str, environment: Mapping[str, str]) -> None:
        """Write it durably, replacing an earlier one. Raises OSError."""
        ...

    def get(self, environment_id: str) -> Mapping[str, str] | None:
        """What was kept, or None if it is gone. Raises OSError if it cannot be read."""
        ...

    def forget(self, environment_id: str) -> None:
        """Delete it; gone already is fine."""
        ...

    def ids(self) -> list[str]:
        """What is kept."""
        ...
