"""The managed homes of accounts: directories of Watchkeeper in which programs keep their sign-in."""

from typing import Protocol


class Homes(Protocol):
    """One directory for each account that has none of the user's own, closed to others."""

    def path(self, harness: str, name: str) -> str:
        """Where it is or would be."""
        ...

    def make(self, harness: str, name: str) -> bool:
        """Make it, durably and closed to others; False if it was there. Raises OSError."""
        ...

    def delete(self, harness: str, name: str) -> bool:
        """Delete it with everything in it; False if it was not there. Raises OSError."""
        ...
