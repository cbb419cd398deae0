"""The daemon as a service of the user's own service manager."""

from enum import StrEnum
from pathlib import Path
from typing import Protocol


class UnitState(StrEnum):
    """What lies under the unit's name."""

    ABSENT = "absent"
    SAME = "same"
    """Exactly what would be written now."""
    OURS = "ours"
    """Written by an earlier install, and unchanged since."""
    CHANGED = "changed"
    """Written by an install, and changed since."""
    FOREIGN = "foreign"
    """Not written by us."""


class Unit(Protocol):
    """The unit of one state directory's daemon."""

    @property
    def name(self) -> str:
        """What the service manager calls it."""
        ...

    @property
    def path(self) -> Path:
        """Where its file is."""
        ...

    def text(self) -> str:
        """What would be written."""
        ...

    def state(self) -> UnitState:
        """What is there. Looks only."""
        ...

    def unreachable(self) -> str:
        """Why the service manager cannot be reached, in a few words; empty if it can."""
        ...

    def install(self) -> None:
        """Write the file, whatever is there, and have it started at every login. Twice is fine.

        Raises:
            DaemonError: the service manager did not take it. Run it again, or remove the file.
            OSError: the file could not be written.
        """
        ...

    def start(self) -> None:
        """Start the daemon as a service, unless it runs as one. Raises DaemonError."""
        ...

    def remove(self) -> str:
        """End the service, not its agents, and delete the file. Returns what went wrong with the service manager, if anything did. Raises OSError."""
        ...

    def lingers(self) -> bool:
        """Whether the user's services continue after the last logout."""
        ...
