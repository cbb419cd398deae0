"""What a hand-over asks for, in a few bytes, so that a repeated one is recognised under the caller's key, and a different one is refused with the difference.

It is as it was typed: what settings add, what a clock makes of `+2h`, and the current values of variables are not part of it.
"""

import hashlib
import json
from collections.abc import Mapping

LONGEST_KEY = 200
"""Characters of the longest key."""

_LETTERS = 24
_FLAGS = frozenset(
    {"env", "expect", "on_lost", "after", "not_before", "shared", "include_changes", "scratch", "setup", "teardown"}
)


def digest(parts: Mapping[str, object]) -> str:
    """The parts that are given (JSON values; None, empty and false ones are not), by name, each as the beginning of its hash; `-` if there are none."""
    given = {name: parts[name] for name in sorted(parts) if not _is_absent(parts[name])}
    return " ".join(f"{name}={_hash(value)}" for name, value in given.items()) or "-"


def differing(one: str, other: str) -> tuple[str, ...]:
    """The names of the parts in which two hand-overs differ, in order; none if they are the same."""
    first, second = _parts(one), _parts(other)
    return tuple(sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name)))


def difference(one: str, other: str) -> str:
    """In what two hand-overs differ, as the end of a sentence; an option whose name is not a noun is named by its flag."""
    called = [f"--{name.replace('_', '-')}" if name in _FLAGS else name for name in differing(one, other)]
    *names, last = called or ["content"]
    return f"{', '.join(names)} and {last}" if names else last


def is_key(key: str) -> bool:
    """Whether a text can be a key: not empty, not long, and nothing but what can be printed."""
    return 0 < len(key) <= LONGEST_KEY and key.isprintable() and key == key.strip()


def _parts(digested: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in digested.split():
        name, equals, value = part.partition("=")
        if equals:
            found[name] = value
    return found


def _is_absent(value: object) -> bool:
    return value is None or value is False or value in ("", ())


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:_LETTERS]
