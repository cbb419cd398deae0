"""Where requests go, in words: the host of an address, and a failure's reason that names it."""

from urllib.parse import urlsplit

from watchkeeper.domain.failure_kind import FailureKind

ANTHROPIC = "api.anthropic.com"
OPENAI = "api.openai.com"
CHATGPT = "chatgpt.com"
OPENAI_BY_SIGN_IN = f"{OPENAI} or {CHATGPT}"
"""Codex sends to the one with a key and to the other with a subscription."""

DEFAULT_HOSTS = frozenset({ANTHROPIC, OPENAI, CHATGPT, OPENAI_BY_SIGN_IN})
"""The vendors' own hosts, which need no mention in a reason."""

_HOST_MATTERS = frozenset(
    {FailureKind.NETWORK, FailureKind.OVERLOADED, FailureKind.SIGNED_OUT, FailureKind.BAD_REQUEST}
)
"""Kinds of failure that the service at the other end decided, or that came about on the way there."""

_LONGEST = 120


def host_of(url: str) -> str:
    """The host of an address, with its port where it names one and without user or password; empty if there is none."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        return ""
    host = parts.hostname or ""
    if ":" in host:
        host = f"[{host}]"
    return (f"{host}:{port}" if host and port is not None else host)[:_LONGEST]


def with_host(kind: FailureKind, reason: str, host: str) -> str:
    """The reason of a failure, naming the host if the failure came from there and it is not the vendor's own.

    Args:
        kind: of the failure; only trouble with the service names the host.
        reason: one or more sentences; the host is added to the first line's end, before its full stop.
        host: as `Route.host`; empty leaves the reason as it is.
    """
    if kind not in _HOST_MATTERS or not host or host in DEFAULT_HOSTS or host in reason:
        return reason
    first, line_end, rest = reason.rstrip().partition("\n")
    stop = "." if first.endswith(".") and not first.endswith("..") else ""
    return f"{first.removesuffix(stop) if stop else first} ({host}){stop}{line_end}{rest}"
