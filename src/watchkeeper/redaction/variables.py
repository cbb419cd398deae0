"""Which variables of an environment hold secrets, by their names and what they hold, and which texts those secrets are."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple, cast
from urllib.parse import parse_qsl, unquote, urlsplit

SHORTEST = 8
"""Characters of the shortest secret that is looked for: a shorter one would blank ordinary text."""

_LONGEST = 256 * 1024
_MANY_LINES = 32
_SHORTEST_LINE = 12
_SHORTEST_LEAF = 16

_WORDS = frozenset({
    "KEY", "KEYS", "APIKEY", "TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWORDS", "PASSWD", "PASS", "PASSPHRASE",
    "CREDENTIAL", "CREDENTIALS", "CREDS", "AUTH", "AUTHORIZATION", "COOKIE", "COOKIES", "DSN", "PAT", "JWT", "BEARER", "HEADERS",
    "SIGNATURE", "WEBHOOK", "PRIVATE", "PIN", "OTP", "SAS",
})  # fmt: skip
_COUNTED = frozenset({"TOKENS", "MAX", "MIN", "LIMIT", "COUNT", "SIZE", "BUDGET", "TTL", "TIMEOUT", "MS"})
_ENDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS", "_PWD", "PASSPHRASE", "COOKIE")
_USERINFO = re.compile(r"(?<=[A-Za-z0-9+.-]://)([^\s/@]*)@")
_HEADER_LINE = re.compile(r"(?m)^[A-Za-z][A-Za-z0-9-]{1,60}:[ \t]*(?:(?:Bearer|Basic|Token)[ \t]+)?(\S.*)$")
_PATH = re.compile(
    r"(?:~|\.{1,2}|/(?:home|root|usr|etc|var|tmp|opt|run|mnt|srv|dev|proc|data|work|nix|snap|Users|Library|private|Volumes))(?:/[\w .@+-]*)*"
)
_PLAIN = re.compile(
    r"[A-Z]?[a-z]{1,16}|[A-Z]{1,12}"  # one word
    r"|[+-]?\d{1,10}(?:[.,:]\d{1,6}){0,3}[A-Za-z%]{0,3}"  # a number, a size, a length of time, a version
    r"|[A-Za-z]+/[A-Za-z_]+|[a-z]{2}_[A-Z]{2}(?:\.[A-Za-z0-9-]+)?"  # a time zone, a language
    r"|(?:[a-z][a-z0-9+.-]*://)?[A-Za-z0-9-]{1,40}(?:\.[A-Za-z0-9-]{1,40}){1,5}(?::\d{1,5})?/?|localhost(?::\d{1,5})?/?"  # a host
    r"|unix:(?:path=)?/[\w./-]+"
)
_BLOB = re.compile(r"(?=[^.]{24})|\d[a-z]\d|[a-z]\d[a-z]")


class Secret(NamedTuple):
    """A text that must not be shown, and the variable whose it is."""

    name: str
    value: str
    part: bool = False
    """It is one of the many lines of another one, in whose base64 it is found with it."""


def is_secret_name(name: str) -> bool:
    """Whether a variable of this name holds a secret, as far as names tell."""
    upper = name.upper()
    return not _WORDS.isdisjoint(upper.split("_")) or upper.endswith(_ENDS)


def url_holds_secret(url: str) -> bool:
    """Whether a URL carries a secret: a user or password before the host, or a parameter with a secret's name. True if it cannot be parsed."""
    try:
        parts = urlsplit(url.strip())
        named = any(is_secret_name(name.replace("-", "_")) for name, _ in parse_qsl(parts.query))
    except ValueError:
        return True
    return "@" in parts.netloc or named


def is_plain(value: str) -> bool:
    """Whether a value is plainly none: a path, a number, one word, a host."""
    return len(value) < SHORTEST or _is_path(value) or _is_plain_word(value)


def secret_names(environment: Mapping[str, str], asked: Collection[str]) -> set[str]:
    """The variables that hold something that is hidden."""
    return {secret.name for secret in secrets_of(environment, asked)}


def secrets_of(environment: Mapping[str, str], asked: Collection[str] = ()) -> list[Secret]:
    """Every text of an environment that must not be shown.

    Secret are: what has a secret's name, unless it is a path or a number; what was asked for by name, unless it is plainly none; passwords in addresses.
    The parts of a secret (its lines, the values in it if it is JSON, of headers, of an address) are secret too.
    """
    found: dict[str, Secret] = {}
    for name, value in environment.items():
        if len(value) > _LONGEST:
            value = value[:_LONGEST]  # noqa: PLW2901 - no variable is longer
        for text, part in _texts(name, value, asked=name in asked):
            if len(text := text.strip()) >= SHORTEST:
                _ = found.setdefault(text, Secret(name, text, part))
    return list(found.values())


def _texts(name: str, value: str, *, asked: bool) -> Iterator[tuple[str, bool]]:
    """Its secret texts, each with whether it is one of many lines."""
    yield from ((text, False) for text in _passwords(value))
    secret = not (_is_path(value) or _is_count(name, value)) if is_secret_name(name) else asked and not is_plain(value)
    if not secret or len(value.strip()) < SHORTEST:
        return
    yield value, False
    yield from ((each.strip(), False) for each in cast("list[str]", _HEADER_LINE.findall(value)))
    if value.lstrip().startswith(("{", "[")):
        yield from ((each, False) for each in _leaves(value))
    lines = value.splitlines() if "\n" in value else []
    for line in lines:
        if len(line.strip()) >= _SHORTEST_LINE and not line.startswith("-----"):
            yield line, len(lines) > _MANY_LINES


def _passwords(value: str) -> Iterator[str]:
    """The passwords of addresses; a lone name in front of the `@` may be a token."""
    for userinfo in cast("list[str]", _USERINFO.findall(value)):
        user, colon, password = userinfo.partition(":")
        for text in (password,) if colon else (user,):
            yield text
            yield unquote(text)


def _leaves(value: str) -> Iterator[str]:
    """The strings in a value that is JSON."""
    try:
        waiting: list[object] = [json.loads(value)]
    except (ValueError, RecursionError):
        return
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += cast("dict[str, object]", each).values()
        elif isinstance(each, list):
            waiting += cast("list[object]", each)
        elif isinstance(each, str) and len(each) >= _SHORTEST_LEAF and not is_plain(each) and "://" not in each:
            yield each


def _is_count(name: str, value: str) -> bool:
    """Whether it is a number of tokens, not a token."""
    return value.isdigit() and not _COUNTED.isdisjoint(name.upper().split("_"))


def _is_path(value: str) -> bool:
    return _PATH.fullmatch(value) is not None


def _is_plain_word(value: str) -> bool:
    return _PLAIN.fullmatch(value) is not None and not ("." in value and _BLOB.search(value))
