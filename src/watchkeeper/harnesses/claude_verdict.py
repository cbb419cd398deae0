"""Which failure kind an ending of Claude Code is. The table in `docs/harnesses/claude.md` says the same for people."""

import re

from watchkeeper.domain.failure import FailureKind
from watchkeeper.harnesses.ending import NO_LONGER_KNOWN, sentence
from watchkeeper.harnesses.json_lines import at, count_at, list_at, text_at

_BY_SUBTYPE = {
    "error_max_turns": FailureKind.TURN_LIMIT,
    "error_max_budget_usd": FailureKind.BUDGET,
}

_BY_CODE = {
    "usage_limit_reached": FailureKind.QUOTA,
    "billing_error": FailureKind.QUOTA,
    "connection_failed": FailureKind.NETWORK,
    "no_response": FailureKind.NETWORK,
    "authentication_failed": FailureKind.SIGNED_OUT,
    "oauth_org_not_allowed": FailureKind.SIGNED_OUT,
    "rate_limit": FailureKind.OVERLOADED,
    "overloaded": FailureKind.OVERLOADED,
    "model_not_found": FailureKind.BAD_REQUEST,
    "max_output_tokens": FailureKind.UNKNOWN,
}
"""The program's own codes, `api_error` before `error`. A rate limit without a reset is one of minutes: waiting a little helps."""


_NO_CONVERSATION = "No conversation found with session ID"
"""How the program begins what it says of a conversation that it is to resume and does not have."""

_STATUS = re.compile(r"(?:API Error: (?:Repeated )?|rejected \()(\d{3})\b")
"""Where the program's own words name a status that no field carries: after some overloads in a row it ends with "Repeated 529 Overloaded errors"."""


def judge_result(
    result: dict[str, object], error: dict[str, object], *, refused: bool, limited: bool
) -> tuple[FailureKind | None, str]:
    """The kind of a final event, None for success.

    Args:
        result: the final event.
        error: the program's last message about a refused request; empty if the model spoke after it.
        refused: the model's own safeguards stopped the conversation.
        limited: the program said that the account's limit is used up.
    """
    if at(result, "is_error") is False and text_at(result, "subtype") == "success":
        return None, ""
    errors = [each for each in list_at(result, "errors") if isinstance(each, str)]
    reason = sentence(text_at(result, "result") or "; ".join(errors))
    if any(each.startswith(_NO_CONVERSATION) for each in errors):
        return FailureKind.SESSION_GONE, NO_LONGER_KNOWN.format(program="Claude Code")
    if kind := _BY_SUBTYPE.get(text_at(result, "subtype")):
        return kind, reason
    if text_at(result, "terminal_reason") == "prompt_too_long" or reason.startswith("Prompt is too long"):
        return FailureKind.CONTEXT_FULL, reason
    if refused or text_at(result, "stop_reason") == "refusal":
        return FailureKind.REFUSED, reason
    if text_at(result, "terminal_reason").startswith("aborted"):
        return FailureKind.INTERRUPTED, "The agent was interrupted by a signal."
    status = _status(result, error, reason)
    codes = [text_at(result, "api_error"), text_at(error, "api_error"), text_at(error, "error")]
    kind = next((_BY_CODE[code] for code in codes if code in _BY_CODE), None)
    if kind is None:
        # Older versions call this reason `completed`.
        refused_request = bool(error) or text_at(result, "terminal_reason") == "api_error"
        kind = _by_status(status) if refused_request else FailureKind.UNKNOWN
    if kind is FailureKind.OVERLOADED and limited:
        kind = FailureKind.QUOTA
    if kind is FailureKind.SIGNED_OUT:
        # Its own advice after the dot, `/login`, can only be followed in the program.
        reason = f"{reason.partition(' · ')[0].rstrip('.')}."
    return kind, reason


def judge_synthetic(result: dict[str, object]) -> tuple[FailureKind, str]:
    """A success without the model: the program answered by itself, as it does where it takes a text for a command of its own."""
    said = sentence(text_at(result, "result"))
    words = f" It said: “{said}”" if said else ""
    return FailureKind.PROGRAM_BROKEN, f"Claude Code ended without asking its model.{words}"


def _status(result: dict[str, object], error: dict[str, object], reason: str) -> int | None:
    """The HTTP status of a refused request, wherever this version of the program puts it."""
    for each in (result, error):
        if (told := count_at(each, "api_error_status")) is not None:
            return told
    found = _STATUS.search(reason)
    return int(found[1]) if found else None


def _by_status(status: int | None) -> FailureKind:
    """An API error without a telling code; without a status no answer came, or an invalid one."""
    if status is None or status == 408:
        return FailureKind.NETWORK
    if status in {401, 403}:
        return FailureKind.SIGNED_OUT
    if status == 402:
        return FailureKind.QUOTA
    if status == 407:
        return FailureKind.NETWORK
    if status == 413:
        return FailureKind.CONTEXT_FULL
    return FailureKind.OVERLOADED if status == 429 or status >= 500 else FailureKind.BAD_REQUEST
