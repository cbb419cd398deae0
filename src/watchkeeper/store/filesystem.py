"""Refuse a database on a network file system."""

from pathlib import Path

from watchkeeper.domain.file_systems import file_system_of, is_network
from watchkeeper.errors import DatabaseUnusable

MOUNTINFO = Path("/proc/self/mountinfo")


def refuse_network_filesystem(path: Path, mountinfo: Path = MOUNTINFO) -> None:
    """Refuse a path on a network file system. Where the mount table cannot be read, nothing is refused.

    Raises:
        DatabaseUnusable: it is on one.
    """
    try:
        table = mountinfo.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return
    kind = file_system_of(str(path.resolve()), table)
    if is_network(kind):
        raise DatabaseUnusable(
            f"'{path}' is on a network file system ({kind}), where locks cannot be trusted.",
            hint="Set WATCHKEEPER_HOME to a directory on a local disk.",
        )
