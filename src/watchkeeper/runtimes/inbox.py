"""Where a daemon hears hints and orders: one datagram socket, bound under its address."""

import contextlib
import os
import socket
from pathlib import Path

from watchkeeper.crash import crashpoint
from watchkeeper.runtimes.sockets import reach


class DatagramInbox:
    """A bound datagram socket that is read without waiting."""

    def __init__(self, address: Path) -> None:
        """Bind; an address left by a dead daemon is taken over, which is safe because the caller holds the daemon's lock. Raises OSError."""
        self._address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            with reach(address) as name:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name)  # noqa: PTH108 - the name is good for a moment only
                crashpoint("inbox.bind.before")
                self._socket.bind(name)
                crashpoint("inbox.bind.after")
            self._identity = _identity(address)
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._socket.fileno()

    def read(self) -> list[str]:
        """Every datagram that is there. Raises OSError."""
        found: list[str] = []
        while True:
            try:
                found.append(self._socket.recv(4096).decode("utf-8", "replace"))
            except BlockingIOError:
                return found

    def is_reachable(self) -> bool:
        """Whether what is sent to the address still comes here: it was not removed, and no other socket has its name."""
        try:
            return _identity(self._address) == self._identity
        except OSError:
            return False

    def close(self) -> None:
        """Stop listening and remove the address, if it is still ours."""
        ours = self.is_reachable()
        self._socket.close()
        if ours:
            with contextlib.suppress(OSError):
                self._address.unlink()


def _identity(address: Path) -> tuple[int, int]:
    found = address.lstat()
    return found.st_dev, found.st_ino
