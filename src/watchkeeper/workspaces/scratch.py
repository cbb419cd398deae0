"""Scratch directories: a task that needs no checkout works in an empty directory of its own, in the state directory."""

import os
import stat
from pathlib import Path

from watchkeeper.crash import crashpoint
from watchkeeper.errors import describe_os_error
from watchkeeper.workspaces.plain import storable


class ScratchDirectories:
    """Makes and removes scratch directories, beside the worktrees."""

    def __init__(self, root: Path) -> None:
        """`root`: the directory of all worktrees."""
        self._root = root

    def scratch_for(self, name: str) -> str:
        """The scratch directory of that name."""
        return str(self._root.resolve().parent / "scratch" / name)

    def make_scratch(self, path: str) -> str:
        """Make it, unless it is there; returns why it cannot be made. Never raises."""
        try:
            crashpoint("scratch.make.before")
            Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            Path(path).mkdir(mode=0o700, exist_ok=True)
            crashpoint("scratch.make.after")
            if not stat.S_ISDIR(Path(path).lstat().st_mode):
                return f"The place of the scratch directory is taken: {path} is not a directory."
        except FileExistsError:
            return f"The place of the scratch directory is taken: {path} is not a directory."
        except OSError as error:
            return f"The scratch directory {path} could not be made: {describe_os_error(error)}."
        return ""

    def in_scratch(self, path: str) -> list[str]:
        """What it holds, in order; nothing if it is gone. Raises OSError."""
        try:
            return sorted(storable(name) for name in os.listdir(path))  # noqa: PTH208 - names, not paths
        except FileNotFoundError:
            return []

    def remove_scratch(self, path: str) -> None:
        """Remove it if it is empty; it may be gone already. Raises OSError."""
        crashpoint("scratch.remove.before")
        try:
            Path(path).rmdir()
        except FileNotFoundError:
            return
        crashpoint("scratch.remove.after")
