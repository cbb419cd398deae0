"""Why a task waits: the closed list."""

from enum import StrEnum


class Wait(StrEnum):
    """Why a task that is queued, or needs a person, is not at work."""

    DEPENDENCY = "dependency"
    PATH = "path"
    CHECKOUT_BUSY = "checkout busy"
    NOT_BEFORE = "not before"
    RETRY_AT = "retry at"
    QUOTA_UNTIL = "quota until"
    LIMIT = "limit"
    PAUSED = "paused"
    MACHINE = "machine"
    HARNESS_MISSING = "harness missing"
    SIGNED_OUT = "signed out"
    APPROVAL = "approval"
    QUESTION = "question"
    SCOPE = "scope"
    ENVIRONMENT_UNKNOWN = "environment unknown"
