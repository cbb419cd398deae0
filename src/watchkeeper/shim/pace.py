"""How fast output is taken that will not be kept: more of a stream was printed than its log may hold, so each new byte costs an older one its place.

An agent that prints without end would occupy one processor itself and another one through its supervisor. Up to the limit of the log nothing is slowed down.
"""

RATE = 128 * 1024 * 1024
"""Bytes a second of one stream. An agent that prints faster waits."""

SHORTEST_S = 0.02
"""A rest is not shorter: to wake up more often costs more than it is worth."""


class Pace:
    """The pace of one stream."""

    def __init__(self, free: int) -> None:
        """The first `free` bytes of the stream do not count."""
        self._counted = free
        self._due = 0.0
        """When what was counted would have come at the rate."""

    def rest_s(self, end: int, now: float) -> float:
        """Seconds until more may be taken, 0 for at once. `end`: how many bytes of the stream were taken so far; `now`: seconds of a clock that is not set."""
        taken = max(0, end - self._counted)
        self._counted += taken
        self._due = max(self._due, now) + taken / RATE
        ahead = self._due - now
        return ahead if ahead >= SHORTEST_S else 0.0
