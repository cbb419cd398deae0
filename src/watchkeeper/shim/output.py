"""What an agent prints, from its pipes into its logs, which are kept small on the way. Used by the supervisor: the shim, or after its death the daemon."""

import os

from . import pipes, records, system
from .logs import BoundedLogs
from .pace import Pace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_AT_A_TURN = 4 * 1024 * 1024
"""So much of a stream is taken before the other streams and the requests have their turn."""


class Output:
    """The streams of one execution."""

    def __init__(
        self, directory: int, limit: int, ends: "Mapping[str, int]", complain: "Callable[[str], None]"
    ) -> None:
        """`ends`: our end of each stream's pipe; both logs are opened here. Raises OSError."""
        self._directory = directory
        self._complain = complain
        files = {pipes.log_name(name): pipes.open_log(directory, name) for name in pipes.NAMES}
        self.logs = BoundedLogs(directory, limit, files)
        self.streams = [
            pipes.Stream(name, ends[stream], files[name], self.logs.lose)
            for stream in ends
            for name in (pipes.log_name(stream),)
        ]
        for stream in self.streams:
            stream.end = max(stream.end, self.logs.lost_until(stream.name))
        self._paces = {stream.pipe: Pace(max(limit, stream.end)) for stream in self.streams}
        self._said: set[str] = set()

    def owns(self, fd: int) -> bool:
        """Whether a descriptor is one of the pipes."""
        return any(stream.pipe == fd for stream in self.streams)

    @property
    def is_held_back(self) -> bool:
        """Whether a log takes nothing now, so that the agent waits, or soon will."""
        return any(stream.problem is not None for stream in self.streams)

    @property
    def size(self) -> int:
        """How much was printed so far, whether or not it is kept."""
        return sum(stream.end for stream in self.streams)

    def take(self, fd: int) -> bool:
        """Move what has come on a pipe; False if its log takes nothing now."""
        return all(self._take(stream, _AT_A_TURN) for stream in self.streams if stream.pipe == fd)

    def rest_s(self, fd: int) -> float:
        """Seconds for which nothing is to be taken from a pipe: more comes from it, and faster, than its log may hold (see `pace`). 0: take more at once."""
        now = system.boottime()
        return max(self._paces[fd].rest_s(stream.end, now) for stream in self.streams if stream.pipe == fd)

    def flush(self) -> bool:
        """Move what is in the pipes at this moment, and no more, so that this ends however much is written. False if not all of it could be."""
        moved = [self._take(stream, None) for stream in self.streams]
        return not self.logs.owes() and all(moved)

    def _take(self, stream: pipes.Stream, most: int | None) -> bool:
        taken = stream.take(most)
        problem = stream.problem
        if problem is not None and stream.name not in self._said:
            self._said.add(stream.name)
            self._complain(f"{stream.name} takes nothing, so the agent may wait: {problem.strerror}")
        elif problem is None and stream.name in self._said:
            self._said.discard(stream.name)
            self._complain(f"{stream.name} is written again")
        if self.logs.is_due(stream.name, stream.end):
            self.bound()
        return taken

    def bound(self) -> None:
        """Keep the logs small."""
        complaint = self.logs.bound()
        if complaint is not None:
            self._complain(complaint)

    def forget_pipes(self) -> None:
        """All that was written is in the logs, and no writer is left. A directory with pipes in it shows that this point was never reached."""
        for stream in pipes.NAMES:
            records.forget(self._directory, pipes.pipe_name(stream))

    def close(self) -> None:
        """Let go of everything."""
        for fd in {each for stream in self.streams for each in (stream.pipe, stream.log)} | set(self.logs.files()):
            os.close(fd)
