"""What can be said of a lock from outside. Apart from `evidence`, because every command asks it of the daemon's lock."""

from enum import StrEnum


class LockState(StrEnum):
    """Whether a living shim holds the execution's lock."""

    HELD = "held"
    FREE = "free"
    UNKNOWN = "unknown"
