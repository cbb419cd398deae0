"""Which boot of the machine this is, and which pid namespace we see it from. A pid means something only within both."""

from functools import cache
from pathlib import Path


@cache
def boot_id() -> str:
    """The kernel's random id of this boot. Raises OSError."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


@cache
def pid_namespace() -> str:
    """The name of our pid namespace, such as `pid:[4026531836]`. Raises OSError."""
    return str(Path("/proc/self/ns/pid").readlink())
