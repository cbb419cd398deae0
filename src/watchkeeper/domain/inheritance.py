"""What a process inherits from the one that starts it, beside its environment: umask, niceness, the weight of the out-of-memory killer, limits.

An agent gets those of the shell that handed its task over, not those of the shell that started the daemon.
"""

from dataclasses import dataclass

UNLIMITED = -1
"""No limit."""

USUAL_UMASK = 0o022

_TOLD = {
    "cpu": ("CPU time", "s"),
    "fsize": ("file size", "bytes"),
    "data": ("data", "bytes"),
    "as": ("memory", "bytes"),
    "rss": ("resident memory", "bytes"),
}
"""Limits that are usually none, with what people call them."""

_USUAL_FILES = 256
"""With room for fewer open files than this, programs fail that usually work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inheritance:
    """What the caller had when the task was handed over."""

    umask: int
    nice: int
    oom_score_adj: int | None
    """None where the system does not say."""
    limits: tuple[tuple[str, int, int], ...]
    """Each resource limit by its lower-case name (`nofile`), with the soft and the hard one; `UNLIMITED` means no limit."""


def unusual(inherits: Inheritance) -> str:
    """What of it a person would not expect, in words; empty if it is as usual."""
    parts: list[str] = []
    if inherits.umask != USUAL_UMASK:
        parts.append(f"umask {inherits.umask:03o}")
    if inherits.nice:
        parts.append(f"nice {inherits.nice}")
    if inherits.oom_score_adj:
        parts.append(f"oom_score_adj {inherits.oom_score_adj}")
    for name, soft, _ in inherits.limits:
        if name in _TOLD and soft != UNLIMITED:
            what, unit = _TOLD[name]
            parts.append(f"{what} at most {soft} {unit}")
        if name == "nofile" and soft != UNLIMITED and soft < _USUAL_FILES:
            parts.append(f"at most {soft} open files")
    return ", ".join(parts)
