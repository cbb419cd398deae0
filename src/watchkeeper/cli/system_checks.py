"""What `wk doctor` says of the system below: Python and the kernel; and what every look comes to."""

import os
import platform
import sys
from dataclasses import dataclass, field
from enum import StrEnum

from watchkeeper.errors import Exit


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; work can be done."""
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What one look found."""

    name: str
    level: Level
    detail: str
    hint: str = ""
    code: Exit = Exit.OK
    """The exit code if it is bad."""
    facts: dict[str, object] = field(default_factory=dict[str, object])


def python() -> Check:
    """Which Python this is."""
    return Check(name="python", level=Level.OK, detail=f"{platform.python_version()} at {sys.executable}")


def kernel() -> Check:
    """What the system offers: pidfds, open-file-description locks, subreapers."""
    missing = [name for name, there in (("pidfd", _has_pidfd()), ("OFD locks", _has_ofd_locks())) if not there]
    if _kernel_version() < (3, 4):
        missing.append("subreaper")
    detail = f"{platform.system()} {platform.release()}"
    if missing:
        return Check(
            name="kernel", level=Level.BAD, detail=f"{detail} lacks {', '.join(missing)}", hint="Use a kernel of 5.4 or newer.",
            code=Exit.STATE,
        )  # fmt: skip
    return Check(name="kernel", level=Level.OK, detail=f"{detail}: pidfd, OFD locks, subreaper")


def _has_pidfd() -> bool:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (OSError, AttributeError):
        return False
    return True


def _has_ofd_locks() -> bool:
    import fcntl

    return hasattr(fcntl, "F_OFD_GETLK") or _kernel_version() >= (3, 15)


def _kernel_version() -> tuple[int, int]:
    first, _, rest = platform.release().partition(".")
    second = "".join(letter for letter in rest.partition(".")[0] if letter.isdigit())
    return (int(first) if first.isdigit() else 0, int(second or 0))
