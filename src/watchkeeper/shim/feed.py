"""Standard input that stays open: a queue of bytes that go into a pipe as it has room. A message with an id that is known is not written twice."""

import os

from . import records


class Feed:
    """The agent's input pipe, seen from our end."""

    def __init__(self, directory: int, fd: int, first: bytes) -> None:
        """`first` is the prompt, if it goes this way."""
        self._directory = directory
        self._fd = fd
        self._waiting = bytearray(first)
        self._known: set[str] = set()
        self._closing = False

    def fileno(self) -> int:
        """The pipe's descriptor, or -1 when it is closed."""
        return self._fd

    @property
    def wants_room(self) -> bool:
        """Whether there is something to write."""
        return bool(self._waiting)

    def add(self, message_id: str, data: bytes) -> str | None:
        """Queue a message; returns a complaint if it cannot be. Its id is durable first: a repeat after our death finds no pipe anyway."""
        if message_id in self._known:
            return None
        if self._fd < 0 or self._closing:
            return "the agent's input is closed"
        try:
            records.write(self._directory, "input.json", {"ids": sorted({*self._known, message_id})})
        except OSError as problem:
            return f"the message cannot be recorded: {problem.strerror}"
        self._known.add(message_id)
        self._waiting += data
        self.write()
        return None

    def write(self) -> None:
        """Write what fits."""
        try:
            while self._waiting and self._fd >= 0:
                del self._waiting[: os.write(self._fd, self._waiting)]
        except BlockingIOError:
            return
        except OSError:
            self._waiting.clear()
            self._shut()
            return
        if self._closing:
            self._shut()

    def close(self) -> None:
        """No more is to come: the pipe is closed when all is written."""
        self._closing = True
        self.write()

    def _shut(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
