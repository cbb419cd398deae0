"""Waiting until something changes: by the kernel's word where it gives one, with a slow look as the net."""

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

NET_S = 0.7
"""The longest time between two looks while the kernel is asked to tell."""

POLL_S = 0.15
"""The time between two looks where it is not."""


class Watcher:
    """Watches directories for changes of the files in them. Losing every notice costs a moment, never a change."""

    def __init__(self, directories: Iterable[Path] = ()) -> None:
        """Watch these, as far as they exist."""
        self._inotify: Any = None
        self._flags: Any = None
        self._watched: set[Path] = set()
        with contextlib.suppress(ImportError, OSError):
            from inotify_simple import INotify, flags  # pyright: ignore[reportMissingTypeStubs] - it has none

            self._inotify = INotify()
            self._flags = flags.MODIFY | flags.CREATE | flags.MOVED_TO | flags.DELETE | flags.CLOSE_WRITE
        for directory in directories:
            self.add(directory)

    def add(self, directory: Path) -> None:
        """Watch another directory; twice is fine, one that does not exist is left to the net."""
        if self._inotify is None or directory in self._watched:
            return
        with contextlib.suppress(OSError):
            self._inotify.add_watch(str(directory), self._flags)
            self._watched.add(directory)

    def wait(self, timeout_s: float = NET_S) -> None:
        """Return when something may have changed, or after a moment."""
        if self._inotify is None:
            time.sleep(min(timeout_s, POLL_S))
            return
        # What comes within the read delay is one change: a daemon that commits ten times in a row is looked at once.
        self._inotify.read(timeout=max(1, int(min(timeout_s, NET_S) * 1000)), read_delay=10)

    def close(self) -> None:
        """Stop watching."""
        if self._inotify is not None:
            self._inotify.close()

    def __enter__(self) -> Self:
        """Watch for as long as the context lasts."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching."""
        self.close()
