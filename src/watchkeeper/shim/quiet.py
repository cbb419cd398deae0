"""How long the agent has printed nothing, counted so that only time in which it could have printed something counts.

One look does not show how long it has been quiet. Each look counts the time since the look before it, and at most a little of that: a machine that slept,
a process that was frozen or a shim that was starved has seen one long gap, and not an agent that was silent through it.
"""

import os
import time

_NAMES = ("stdout.log", "stderr.log")
_LONGEST_PAUSE_S = 1.0
_LOOKS = 8
_MOST_COUNTED = 3.0
"""A look counts at most so many times the pause that was meant."""


class Quiet:
    """Watches the growth of an execution's two logs."""

    def __init__(self, directory: int, limit_s: float) -> None:
        """`limit_s`: how long it may be quiet."""
        self._directory = directory
        self._limit_s = limit_s
        self.pause_s = max(0.01, min(_LONGEST_PAUSE_S, limit_s / _LOOKS))
        """When to look again."""
        self._sizes = self._read()
        self._looked = time.monotonic()
        self._quiet_s = 0.0

    def is_over(self) -> bool:
        """Look, and say whether it has been quiet for as long as it may be."""
        now, sizes = time.monotonic(), self._read()
        passed, self._looked = now - self._looked, now
        if sizes != self._sizes:
            self._sizes, self._quiet_s = sizes, 0.0
        else:
            self._quiet_s += min(passed, self.pause_s * _MOST_COUNTED)
        return self._quiet_s >= self._limit_s

    def excuse(self) -> None:
        """It has printed something, which is in no log that can be looked at; or it could not, because a full disk keeps it waiting."""
        self._looked, self._quiet_s = time.monotonic(), 0.0

    def _read(self) -> list[int]:
        """The sizes of the logs; -1 for one that cannot be asked, which is a change when it can be again."""
        sizes: list[int] = []
        for name in _NAMES:
            try:
                sizes.append(os.stat(name, dir_fd=self._directory, follow_symlinks=False).st_size)
            except OSError:
                sizes.append(-1)
        return sizes
