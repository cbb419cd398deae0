"""A hint that a process has committed: a descriptor that becomes readable, so that a daemon can look at once instead of at its next turn.

A thread keeps a connection of its own that listens, and opens another one whenever it is lost, after waits that grow. Nothing rests on it: a hint may be
missed, doubled or late, and the waiting process also looks at intervals. After each new connection it hints once, for what it may have missed.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from typing import TYPE_CHECKING, Self

import psycopg

from watchkeeper.store.postgres.address import Address
from watchkeeper.store.postgres.driver import BoundedConnection, connect

if TYPE_CHECKING:
    from collections.abc import Sequence

_CONNECT_S = 10.0
_ANSWER_S = 10.0
_ARE_YOU_THERE_S = 60.0
"""How often a silent server is asked whether it is still there."""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.25, 30.0


class PostgresWake:
    """Listens to commits. `fileno` is readable when there was one since the last `clear`."""

    def __init__(self, url: str, *, application: str = "watchkeeper", ask_s: float = _ARE_YOU_THERE_S) -> None:
        """Begin to listen at `url`; the server will know us as `application`. Does not wait for the connection."""
        self._address = Address(url)
        self._application = application
        self._ask_s = ask_s
        self._hint, self._hinted = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stop, self._stopped = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.trouble = "not connected yet"
        """Why it does not listen at the moment; empty while it does."""
        self._thread = threading.Thread(target=self._supervise, name="wk-wake", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        """Listen for as long as the block lasts."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def fileno(self) -> int:
        """The descriptor to wait on; the same one forever."""
        return self._hint

    def clear(self) -> bool:
        """Take the hints that have come, and say whether there were any. Clear first, then look."""
        with contextlib.suppress(BlockingIOError):
            return bool(os.read(self._hint, 4096))
        return False

    def close(self) -> None:
        """Stop listening. Returns when the thread is over, or soon will be."""
        if self._stopped < 0:
            return
        os.close(self._stopped)
        self._stopped = -1
        self._thread.join(_CONNECT_S)
        if not self._thread.is_alive():
            for descriptor in (self._stop, self._hinted, self._hint):
                os.close(descriptor)

    def _supervise(self) -> None:
        wait_s = _FIRST_WAIT_S
        while True:
            connection: BoundedConnection | None = None
            try:
                connection = connect(
                    self._address.parameters,
                    application=f"{self._application} (wake)",
                    connect_s=_CONNECT_S,
                    answer_s=_ANSWER_S,
                )
                connection.add_notify_handler(lambda _: self._notify())
                _ = connection.execute("LISTEN watchkeeper")
                self.trouble, wait_s = "", _FIRST_WAIT_S
                self._notify()
                self._listen(connection)
            except psycopg.Error as trouble:
                self.trouble = self._address.scrub(str(trouble))
            else:
                return
            finally:
                if connection is not None:
                    connection.close()
            if _readable([self._stop], wait_s):
                return
            wait_s = min(wait_s * 2, _LONGEST_WAIT_S)

    def _listen(self, connection: BoundedConnection) -> None:
        """Pass hints on until `close` is called. Raises psycopg.Error."""
        while self._stop not in _readable([self._stop, connection.fileno()], self._ask_s):
            # What the server has sent meanwhile, and whether it is still there, comes with an answer.
            _ = connection.execute("SELECT 1", prepare=False)

    def _notify(self) -> None:
        with contextlib.suppress(BlockingIOError):  # the pipe is full of unread hints
            _ = os.write(self._hinted, b"!")


def _readable(descriptors: Sequence[int], wait_s: float) -> set[int]:
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(wait_s * 1000)}
