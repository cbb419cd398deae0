"""Where a daemon hears hints and orders: one datagram socket, bound under its address."""

import contextlib
import socket
from pathlib import Path

from watchkeeper.crash import crashpoint


class DatagramInbox:
    """A bound datagram socket that is read without waiting."""

    def __init__(self, address: Path) -> None:
        """Bind; an address left by a dead daemon is taken over, which is safe because the caller holds the daemon's lock. Raises OSError."""
        self._address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        with contextlib.suppress(FileNotFoundError):
            address.unlink()
        crashpoint("inbox.bind.before")
        self._socket.bind(str(address))
        crashpoint("inbox.bind.after")

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._socket.fileno()

    def read(self) -> list[str]:
        """Every datagram that is there."""
        found: list[str] = []
        while True:
            try:
                found.append(self._socket.recv(4096).decode("utf-8", "replace"))
            except BlockingIOError:
                return found

    def close(self) -> None:
        """Stop listening and remove the address."""
        self._socket.close()
        with contextlib.suppress(FileNotFoundError):
            self._address.unlink()
