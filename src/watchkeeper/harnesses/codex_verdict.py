"""Which failure kind an ending of Codex is. The table in `docs/harnesses/codex.md` says the same for people.

Codex reports a failure as one sentence without a code. Its own sentences name the HTTP status or have words of their own; where the service has refused
a request (400, 404), the sentence is the service's.
"""

import json
import re
from datetime import datetime, timedelta
from typing import cast

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.local_time import instant
from watchkeeper.harnesses.ending import NO_LONGER_KNOWN, sentence
from watchkeeper.harnesses.json_lines import text_at

_RETRY = re.compile(r"Reconnecting\.\.\. (?:(\d+)/(\d+) )?")
_STATUS = re.compile(r"(?:unexpected|last) status:? (\d{3})\b")
_REQUEST = re.compile(r",? (?:url|request id|cf-ray): ?[^\s,)]+")
"""Where and under which number the request failed: of no use to a reader, and different each time."""
_WORDS: tuple[tuple[FailureKind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(words, re.IGNORECASE))
    for kind, words in (
        (
            FailureKind.SIGNED_OUT,
            r"missing environment variable|not logged in|log in again|sign in again|could not be refreshed|credential expired",
        ),
        (FailureKind.QUOTA, r"usage limit|quota exceeded|insufficient_quota|out of credits|spend limit"),
        (FailureKind.CONTEXT_FULL, r"context window|context_length_exceeded"),
        (FailureKind.REFUSED, r"reason: content_filter|flagged for|cyber_policy"),
        (FailureKind.UNKNOWN, r"Incomplete response returned"),
        (FailureKind.OVERLOADED, r"at capacity|overloaded|high demand|exceeded retry limit"),
        (
            FailureKind.NETWORK,
            r"stream disconnected|stream closed|connection failed|error sending request|idle timeout|timed out|dns error|name does not resolve",
        ),
        (
            FailureKind.BAD_REQUEST,
            r"invalid_request_error|model .*(?:does not exist|not supported|not found)|no such model",
        ),
    )
)
"""In this order: a lost connection has the same words whatever ended it."""
_AGAIN = re.compile(r"try again at (?:([A-Z][a-z]{2}) (\d{1,2})[a-z]{2}, (\d{4}) )?(\d{1,2}):(\d{2}) ([AP]M)")
_NO_CONVERSATION = re.compile(r"no rollout found for thread id|thread not found: ")
_DENIED = re.compile(r"ERROR codex_core::tools::router: error=(.*)")
_REFUSALS = re.compile(r"rejected by user approval settings|approval policy is Never")
_SANDBOX = re.compile(r"^bwrap: |\bbubblewrap\b|codex-linux-sandbox|^sandbox-exec: ")
_WRITE_FAILED = "Failed to write file"


def judge_message(message: str) -> tuple[FailureKind, str]:
    """The kind of a failure that the program has put into words, and the words for people."""
    if again := _RETRY.match(message):
        message = message[again.end() :].removeprefix("(").removesuffix(")")
    kind = next((kind for kind, words in _WORDS[:4] if words.search(message)), None)
    if kind is None and (status := _STATUS.search(message)):
        kind = _by_status(int(status[1]))
    if kind is None:
        kind = next((kind for kind, words in _WORDS[4:] if words.search(message)), FailureKind.UNKNOWN)
    return kind, sentence(_said(message)) or "The program says that it failed, and not how."


def retry_of(message: str) -> tuple[str, str] | None:
    """Which try of how many follows, if this is what the message says; both empty where it does not count."""
    found = _RETRY.match(message)
    return (found[1] or "", found[2] or "") if found else None


def quota_until(message: str, at: datetime) -> datetime | None:
    """When a used-up limit is there again, as the program says it: in the time zone of this machine, without a date if it is today.

    A time in a change of the clocks is never taken for an earlier one, see `domain.local_time`.

    Args:
        message: what the program said.
        at: when it ended.
    """
    found = _AGAIN.search(message)
    if found is None:
        return None
    month, day, year, hour, minute, half = found.groups()
    here = at.astimezone()
    try:
        date = datetime.strptime(f"{month} {day} {year}", "%b %d %Y") if month else here  # noqa: DTZ007 - the zone follows
        hours = int(hour) % 12 + (12 if half == "PM" else 0)
        until = instant(datetime(date.year, date.month, date.day, hours, int(minute)))  # noqa: DTZ001 - `instant` gives it its zone
    except (ValueError, OverflowError, OSError):
        return None
    # The seconds are cut off. A time that has passed was meant in another zone, and says nothing.
    until += timedelta(minutes=1)
    return until.astimezone(at.tzinfo) if until > at else None


def judge_resume(stderr_tail: str) -> str:
    """Why a conversation could not be resumed, if that is what a run shows that never began; empty if not."""
    return NO_LONGER_KNOWN.format(program="Codex") if _NO_CONVERSATION.search(stderr_tail) else ""


def judge_denial(stderr_tail: str, *, worked: bool, edited: bool) -> str:
    """The last call that the program refused to its agent, if the agent found no way around it.

    Refusals are printed on standard error only, without their time. So an edit that was refused counts if no edit came through, and a wish for more
    rights if nothing did.

    Args:
        stderr_tail: the end of standard error.
        worked: some call came through.
        edited: some edit did.
    """
    refused = [each for each in _DENIED.findall(stderr_tail) if _REFUSALS.search(each)]
    if not refused or (edited if refused[-1].startswith("patch") else worked):
        return ""
    return sentence(f"The agent was not allowed to continue: {refused[-1]}")


def shows_sandbox(output: str) -> str:
    """The line of a failed command's output that tells that the sandbox around it could not be set up."""
    return next((line for line in output.splitlines() if _SANDBOX.search(line)), "")


def judge_sandbox(said: str, stderr_tail: str, *, failed_edits: bool) -> str:
    """Why the sandbox does not work, if that is what a run shows in which nothing worked.

    Args:
        said: what a command's output told of it.
        stderr_tail: the end of standard error.
        failed_edits: the edits failed, which the program does in its sandbox too.
    """
    if not said and failed_edits and _WRITE_FAILED in stderr_tail:
        said = "no file could be written"
    return sentence(f"Codex's sandbox does not work here ({said}); the option sandbox turns it off.") if said else ""


def _by_status(status: int) -> FailureKind:
    if status in {401, 403}:
        return FailureKind.SIGNED_OUT
    if status == 402:
        return FailureKind.QUOTA
    if status in {407, 408}:
        return FailureKind.NETWORK
    if status == 413:
        return FailureKind.CONTEXT_FULL
    return FailureKind.OVERLOADED if status == 429 or status >= 500 else FailureKind.BAD_REQUEST


def _said(message: str) -> str:
    """The words in a message that may be the service's whole body."""
    if message.lstrip().startswith("{"):
        try:
            body = cast("object", json.loads(message))
        except (ValueError, RecursionError):
            return message
        message = text_at(body, "error", "message") or text_at(body, "detail") or message
    return _REQUEST.sub("", message)
