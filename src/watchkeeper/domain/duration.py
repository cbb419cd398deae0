"""Durations as people write them, on the command line, in settings and in files of tasks."""

import re

LONGEST_S = 10 * 366 * 86400.0
"""No duration is longer than ten years."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = r"(\d+(?:\.\d+)?) *(ms|s|m|h|d|w)"


def parse_duration(text: str) -> float | None:
    """Seconds from `90`, `90s`, `15m`, `1h30m`, `1d` or `1w`; None if the text is not a duration or is longer than `LONGEST_S`."""
    if re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        seconds = float(text)
    elif re.fullmatch(rf"(?:{_PART})+", text, re.ASCII):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, text))
    else:
        return None
    return seconds if seconds <= LONGEST_S else None
