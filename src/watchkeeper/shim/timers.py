"""Named moments, on the clock that counts sleep."""

from . import system

_LONGEST_WAIT_S = 30.0
"""poll() counts by a clock that stops while the machine sleeps: a moment that passed meanwhile is noticed at most this much later."""


class Timers:
    """At most one moment for each name."""

    def __init__(self) -> None:
        """None yet."""
        self._at: dict[str, float] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._at

    def start(self, name: str, after_s: float) -> None:
        """Set a moment, in place of an earlier one of this name."""
        self._at[name] = system.boottime() + after_s

    def no_later(self, name: str, after_s: float) -> None:
        """Set a moment unless there is one that comes sooner."""
        at = system.boottime() + after_s
        self._at[name] = min(at, self._at.get(name, at))

    def remaining(self, name: str) -> float | None:
        """Seconds until a moment, or None if it is not set."""
        at = self._at.get(name)
        return None if at is None else max(0.0, at - system.boottime())

    def cancel(self, *names: str) -> None:
        """Forget moments."""
        for name in names:
            self._at.pop(name, None)

    def next_due(self) -> str | None:
        """Take out one name whose moment has come, the earliest first."""
        name = min(self._at, key=self._at.__getitem__, default=None)
        if name is None or self._at[name] > system.boottime():
            return None
        del self._at[name]
        return name

    def wait_ms(self) -> int | None:
        """How long poll() may wait, in milliseconds; None forever."""
        if not self._at:
            return None
        wait = min(min(self._at.values()) - system.boottime(), _LONGEST_WAIT_S)
        return int(max(0.0, wait) * 1000) + 1
