"""Hints that something may have changed. Losing every one of them costs time, never work."""

from typing import Protocol


class Wake(Protocol):
    """Pokes the daemon."""

    def poke(self) -> bool:
        """Tell the daemon to look; False if none listens."""
        ...
