"""Why a task waits: the closed list."""

from enum import StrEnum
from typing import NamedTuple


class Wait(StrEnum):
    """Why a task that is queued, or needs a person, is not at work."""

    DEPENDENCY = "dependency"
    CHECKOUT_BUSY = "checkout busy"
    NOT_BEFORE = "not before"
    RETRY_AT = "retry at"
    QUOTA_UNTIL = "quota until"
    SERVICE = "service"
    LIMIT = "limit"
    PAUSED = "paused"
    MACHINE = "machine"
    HARNESS_MISSING = "harness missing"
    SIGNED_OUT = "signed out"
    APPROVAL = "approval"
    QUESTION = "question"
    ENVIRONMENT_UNKNOWN = "environment unknown"
    RECORD_TORN = "record torn"


# A named tuple, as in `settings`: every command waits for the class.
class BriefWait(NamedTuple):
    """What lists tell of a queued task's wait, without asking for everything that may close its lane."""

    ready: bool
    """Its time has come."""
    unmet: int
    """How many of the tasks that it waits for are not done."""
    on: str | None
    """The first of them, one that failed or was stopped before the others."""
    on_state: str | None
    blocked: bool
    holder: str | None
    """A task that works in its checkout now."""
    lane_announced: str | None
    """Why its lane was closed when a claim last found nothing to do, in the words of `Wait`."""
    torn: str | None = None
    """Why it is not started at all: a record about it cannot be read, or contradicts another."""
