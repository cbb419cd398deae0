"""Poking the daemon through its datagram socket."""

import socket
from pathlib import Path


class DatagramWake:
    """Sends a datagram to the daemon's socket, never waiting: a hint that is lost costs only time."""

    def __init__(self, *addresses: Path) -> None:
        """Poke at these addresses; a daemon started from another environment may listen elsewhere than we would."""
        self._addresses = addresses

    def poke(self) -> bool:
        """Tell the daemon to look; False if none listens."""
        return any([_poke(address) for address in self._addresses])  # noqa: C419 - all of them, not up to the first


def _poke(address: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as out:
        try:
            out.sendto(b"wake", str(address))
        except BlockingIOError:
            return True  # its queue is full of hints already
        except OSError:
            return False
    return True
