"""What the settings of notices may be, and how their addresses are shown. Every command imports this, so it imports next to nothing."""

import re
from typing import cast

KINDS = ("needs_you", "failed", "done")
"""The words of `NoticeKind`, the most urgent first."""

SECRET = frozenset({"notify.webhook", "notify.services"})
"""Settings whose addresses hold tokens: who has such an address may write there."""

_ADDRESS = r"\w[\w+.-]*://\S+"
_TIME = r"([01]?\d|2[0-3]):([0-5]\d)"


def read_kinds(written: object) -> tuple[str, ...]:
    """Which notices are sent. Raises ValueError with what it must be."""
    words: object = written.replace(",", " ").split() if isinstance(written, str) else written
    if isinstance(words, list) and words and all(word in KINDS for word in cast("list[object]", words)):
        return tuple(kind for kind in KINDS if kind in words)
    raise ValueError(f"a list of {', '.join(KINDS)}")


def read_quiet(written: object) -> str | None:
    """Quiet hours as they are written, `22:00-07:00`; None: there are none. Raises ValueError."""
    if written == "none":
        return None
    if isinstance(written, str) and quiet_minutes(written) is not None:
        return written
    raise ValueError("`none` or two local times such as 22:00-07:00")


def quiet_minutes(written: str) -> tuple[int, int] | None:
    """The begin and the end of quiet hours in minutes since midnight; None: that is not what was written."""
    found = re.fullmatch(rf"\s*{_TIME}\s*-\s*{_TIME}\s*", written)
    if found is None:
        return None
    begin, end = int(found[1]) * 60 + int(found[2]), int(found[3]) * 60 + int(found[4])
    return None if begin == end else (begin, end)


def read_webhook(written: object) -> str:
    """The address of a webhook. Raises ValueError."""
    if isinstance(written, str) and re.fullmatch(r"https?://[^\s/]+\S*", written):
        return written
    raise ValueError("an address such as https://example.org/hook")


def read_services(written: object) -> tuple[str, ...]:
    """Addresses of services. Raises ValueError."""
    parts: object = written.split() if isinstance(written, str) else written
    if isinstance(parts, list):
        found = [part for part in cast("list[object]", parts) if isinstance(part, str) and re.fullmatch(_ADDRESS, part)]
        if len(found) == len(cast("list[object]", parts)):
            return tuple(dict.fromkeys(found))
    raise ValueError("a list of addresses as Apprise takes them, such as ntfy://my-topic")


def masked_address(address: str) -> str:
    """An address of which only the kind and, of a web address, the host is shown."""
    found = re.match(r"(https?://)(?:[^/?#@]*@)?([^/?#]+)(.*)", address)
    if found is not None:
        return f"{found[1]}{found[2]}{'/***' if found[3].strip('/') else ''}"
    return f"{address.partition('://')[0]}://***"
