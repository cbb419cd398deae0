"""What a daemon puts off of what it inherited, before it begins."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

from watchkeeper.environment import limit_numbers, oom_score_adj

_OOM = Path("/proc/self/oom_score_adj")
_OURS = ("cpu", "fsize", "data", "as", "rss", "nproc", "nofile", "memlock")
"""Limits that a daemon raises for itself, as far as it may."""

_MIB = 1024 * 1024
_LEAST = {"cpu": 600, "fsize": 64 * _MIB, "data": 512 * _MIB, "as": 512 * _MIB}
"""With less than this a daemon cannot do its work, whatever it does."""

_WORDS = {"cpu": "CPU time (ulimit -t)", "fsize": "file size (ulimit -f)", "data": "data (ulimit -d)", "as": "memory (ulimit -v)"}  # fmt: skip


class OwnLimits(NamedTuple):
    """What became of a daemon's own limits."""

    nofile: int
    """The soft limit of open files as it was before."""
    kept: tuple[str, ...]
    """What could not be put off, in words."""
    too_low: tuple[str, ...]
    """Limits with which the daemon cannot work, in words."""


def put_off(*, priority: bool) -> OwnLimits:
    """Raise our own limits as far as the system lets us, so that the limits of the process that started the daemon do not end it.

    `priority`: take the usual niceness and weight for the out-of-memory killer too. A person who starts a daemon directly may have chosen them.
    """
    import resource  # noqa: PLC0415 - only a daemon needs it

    numbers, kept, too_low = limit_numbers(), list[str](), list[str]()
    nofile = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    for name in (name for name in _OURS if name in numbers):
        number = numbers[name]
        hard = resource.getrlimit(number)[1]
        wanted = hard if name == "nofile" else resource.RLIM_INFINITY
        try:
            resource.setrlimit(number, (wanted, wanted))
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(number, (hard, hard))
            soft = resource.getrlimit(number)[0]
            if name in _LEAST:
                kept.append(f"{_WORDS[name]} {soft}")
            if soft < _LEAST.get(name, 0):
                too_low.append(f"{_WORDS[name]} {soft}")
    if priority:
        kept += _usual_priority()
    return OwnLimits(nofile=nofile, kept=tuple(kept), too_low=tuple(too_low))


def _usual_priority() -> list[str]:
    kept: list[str] = []
    nice, weight = os.getpriority(os.PRIO_PROCESS, 0), oom_score_adj()
    try:
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    except OSError:
        kept.append(f"nice {nice}")
    try:
        if weight:
            _ = _OOM.write_text("0", encoding="ascii")
    except OSError:
        kept.append(f"oom_score_adj {weight}")
    return kept
