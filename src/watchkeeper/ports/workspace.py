"""The directory that an agent works in."""

from collections.abc import Mapping
from typing import Protocol

from watchkeeper.domain.model import Changes


class Workspace(Protocol):
    """Looks, never touches."""

    def snapshot(self, cwd: str) -> Mapping[str, object]:
        """What the directory looks like now, as plain JSON values. Never raises: what cannot be known is said inside."""
        ...

    def changes(self, cwd: str, before: Mapping[str, object] | None) -> Changes:
        """What differs from `before`. Never raises: what cannot be known is said inside."""
        ...
