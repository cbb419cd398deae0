"""Where sockets live: in the state directory, where no other user can take a name or listen in our place.

The address of a Unix socket has room for 108 bytes, and a path may be longer. So a socket is reached through a descriptor of its directory, as
`/proc/self/fd/N/name`: the kernel follows that to the directory, whatever its path is called or how long it is.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from watchkeeper.errors import StateDirectoryUnusable, describe_os_error

DIRECTORY = "sockets"
"""Its name in the state directory."""

_LONGEST_NAME = 24
_OTHERS_MAY_WRITE = 0o022
_OTHERS_MAY_ANYTHING = 0o077


def socket_directory(state: Path) -> Path:
    """The directory for the sockets of a state directory; nothing is made or checked."""
    return state / DIRECTORY


def ensure_socket_directory(directory: Path) -> None:
    """Make the directory, or check the one that is there. What is above it is never made.

    Raises:
        StateDirectoryUnusable: it cannot be made, or another user made it or can enter it.
    """
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        found = directory.lstat()
    except OSError as error:
        msg = f"The directory for sockets, {directory}, cannot be made: {describe_os_error(error)}."
        raise StateDirectoryUnusable(msg, hint="Set WATCHKEEPER_HOME to a directory of yours.") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        msg = f"The directory for sockets, {directory}, was made by another user, or is not a directory."
        raise StateDirectoryUnusable(msg, hint="Look what it is, then have it removed: it is made anew.")
    if stat.S_IMODE(found.st_mode) & _OTHERS_MAY_ANYTHING:
        msg = f"The directory for sockets, {directory}, can be entered by other users."
        raise StateDirectoryUnusable(msg, hint=f"Look who uses it, then `chmod 700 {directory}`.")


@contextmanager
def reach(address: str | Path) -> Generator[str]:
    """A short name for an address, good for as long as the context lasts, for `bind`, `connect` and `sendto`.

    Raises:
        OSError: the directory is not there; EACCES if another user could have put a socket there.
    """
    whole = str(address)
    directory, name = os.path.split(whole)
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        if found.st_uid != os.geteuid() or found.st_mode & _OTHERS_MAY_WRITE:
            raise PermissionError(errno.EACCES, "another user could listen there", directory)
        yield f"/proc/self/fd/{fd}/{name}"
    finally:
        os.close(fd)


def control_socket(directory: Path, execution_id: str) -> Path:
    """The address of a shim's control socket."""
    return directory / f"{_short(execution_id)}.sock"


def _short(name: str) -> str:
    return (
        name
        if len(os.fsencode(name)) <= _LONGEST_NAME
        else hashlib.sha256(os.fsencode(name)).hexdigest()[:_LONGEST_NAME]
    )
