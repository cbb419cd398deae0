"""Where sockets live. The address of a Unix socket has room for 108 bytes, so it cannot lie under a state directory of any length.

The directory is $XDG_RUNTIME_DIR/watchkeeper-<hash>/ or /tmp/watchkeeper-<uid>-<hash>/, the hash being that of the state directory's path. /tmp is shared:
whoever finds the directory there already checks that nobody else made it.
"""

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from watchkeeper.errors import StateDirectoryUnusable

LONGEST = 100
"""Bytes of an address that we ever use."""

WAKE = "wake.sock"

_LONGEST_NAME = 24
_SHARED = Path("/tmp")  # noqa: S108 - what is below it is checked


def socket_directory(state: Path, environment: Mapping[str, str]) -> Path:
    """The directory for the sockets of a state directory; nothing is made or checked."""
    name = hashlib.sha256(os.fsencode(state)).hexdigest()[:8]
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):
        directory = Path(runtime) / f"watchkeeper-{name}"
        if _fits(directory) and _is_ours(Path(runtime)):
            return directory
    return _SHARED / f"watchkeeper-{os.geteuid()}-{name}"


def ensure_socket_directory(directory: Path) -> None:
    """Make the directory, or check the one that is there.

    Raises:
        StateDirectoryUnusable: it cannot be made, or somebody else made it or can get into it.
    """
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        found = directory.lstat()
    except OSError as error:
        msg = f"The directory for sockets, {directory}, cannot be made: {error.strerror}."
        raise StateDirectoryUnusable(msg, hint="Set XDG_RUNTIME_DIR to a directory of yours.") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        msg = f"The directory for sockets, {directory}, was made by somebody else."
        raise StateDirectoryUnusable(msg, hint="Have it removed, or set XDG_RUNTIME_DIR to a directory of yours.")
    if stat.S_IMODE(found.st_mode) & 0o077:
        msg = f"The directory for sockets, {directory}, can be entered by other users."
        raise StateDirectoryUnusable(msg, hint=f"Look who uses it, then `chmod 700 {directory}`.")


def control_socket(directory: Path, execution_id: str) -> Path:
    """The address of a shim's control socket."""
    return directory / f"{_short(execution_id)}.sock"


def wake_socket(directory: Path) -> Path:
    """The address of the daemon's datagram socket."""
    return directory / WAKE


def _short(name: str) -> str:
    return (
        name
        if len(os.fsencode(name)) <= _LONGEST_NAME
        else hashlib.sha256(os.fsencode(name)).hexdigest()[:_LONGEST_NAME]
    )


def _fits(directory: Path) -> bool:
    return len(os.fsencode(directory)) + 1 + _LONGEST_NAME + len(".sock") <= LONGEST


def _is_ours(directory: Path) -> bool:
    try:
        found = directory.stat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and os.access(directory, os.W_OK | os.X_OK)
