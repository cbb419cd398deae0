"""The names of the failure kinds; what follows from each is in `failure`."""

from enum import StrEnum


class FailureKind(StrEnum):
    """Why a run did not succeed."""

    SIGNED_OUT = "signed_out"
    QUOTA = "quota"
    OVERLOADED = "overloaded"
    NETWORK = "network"
    CONTEXT_FULL = "context_full"
    TURN_LIMIT = "turn_limit"
    BUDGET = "budget"
    PERMISSION_DENIED = "permission_denied"
    BAD_REQUEST = "bad_request"
    PROGRAM_MISSING = "program_missing"
    DIRECTORY_MISSING = "directory_missing"
    DIRECTORY_CHANGED = "directory_changed"
    PROGRAM_BROKEN = "program_broken"
    SANDBOX = "sandbox"
    CRASH = "crash"
    DEADLINE = "deadline"
    SILENCE = "silence"
    REFUSED = "refused"
    NOTHING_RECORDED = "nothing_recorded"
    ASKED = "asked"
    ENVIRONMENT_UNKNOWN = "environment_unknown"
    NEVER_LAUNCHED = "never_launched"
    LOST = "lost"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"
    UNKNOWN = "unknown"
