"""Managed homes, `accounts/HARNESS/NAME` in the state directory. What programs keep in them, sign-ins included, is never read or copied."""

import errno
import shutil
from pathlib import Path

from watchkeeper.crash import crashpoint
from watchkeeper.runtimes import atomic


class AccountHomes:
    """Directories under one root."""

    def __init__(self, root: Path) -> None:
        """Keep them under `root`, which is made with the first one."""
        self._root = root

    def path(self, harness: str, name: str) -> str:
        """Where it is or would be."""
        return str(self._root / harness / name)

    def make(self, harness: str, name: str) -> bool:
        """Make it, durably and closed to others; False if it was there. Raises OSError."""
        made = False
        for directory in (self._root, self._root / harness, self._root / harness / name):
            try:
                directory.mkdir(mode=atomic.DIRECTORY_MODE)
            except FileExistsError:
                made = False
            else:
                made = True
                crashpoint("account.home.before")
                atomic.sync_directory(directory.parent)
                crashpoint("account.home.after")
        return made

    def delete(self, harness: str, name: str) -> bool:
        """Delete it with everything in it; False if it was not there. A symlink in its place is not followed. Raises OSError."""
        home = self._root / harness / name
        crashpoint("account.delete.before")
        if home.is_symlink():
            # What the library says of it is different in each version of Python, and has no number in any.
            raise OSError(errno.ELOOP, "It is a symbolic link", str(home))
        try:
            shutil.rmtree(home)
        except FileNotFoundError:
            return False
        atomic.sync_directory(home.parent)
        crashpoint("account.delete.after")
        return True
