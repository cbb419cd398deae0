"""The control socket: one JSON object a line each way, for the same user, with the execution's token. Nothing here ever blocks the shim."""

import _socket
import json
import os
import struct
from collections.abc import Callable

from . import system
from .crash import crashpoint

Answer = Callable[[dict[str, object]], dict[str, object]]

_LONGEST_LINE = 16 * 1024 * 1024
_MOST_CLIENTS = 16


class Client:
    """One connection: what came in, and what is still to go out."""

    def __init__(self, connection: "_socket.socket") -> None:
        """Own the connection."""
        self.connection = connection
        self.received = b""
        self.pending = b""

    def fileno(self) -> int:
        """The connection's descriptor."""
        return self.connection.fileno()

    def close(self) -> None:
        """Hang up."""
        self.connection.close()


class Control:
    """Listens, and answers complete lines through `answer`."""

    def __init__(self, path: str, token: bytes, answer: Answer) -> None:
        """Nothing is opened yet."""
        self._path = path
        self._token = token
        self._answer = answer
        self._listener: _socket.socket | None = None
        self.clients: dict[int, Client] = {}

    def open(self) -> str | None:
        """Bind and listen; returns a complaint if that cannot be. A socket of this name is a dead shim's: we hold the execution's lock."""
        if self._listener is not None:
            return None
        made = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120 - pathlib would cost start-up time
            try:
                os.unlink(self._path)  # noqa: PTH108 - as above
            except FileNotFoundError:
                pass
            crashpoint("shim.bind.before")
            made.bind(self._path)
            made.listen(8)
            made.setblocking(False)
            crashpoint("shim.bind.after")
        except OSError as problem:
            made.close()
            return f"cannot listen at {self._path}: {problem.strerror or problem}"
        self._listener = made
        return None

    def fileno(self) -> int:
        """The listener's descriptor, or -1."""
        return -1 if self._listener is None else self._listener.fileno()

    def accept(self) -> int | None:
        """Take a connection of our own user; returns its descriptor."""
        if self._listener is None:
            return None
        try:
            fd, _ = self._listener._accept()  # noqa: SLF001 - the plain module has no other name for it
        except OSError:
            return None
        connection = _socket.socket(fileno=fd)
        connection.setblocking(False)
        if len(self.clients) >= _MOST_CLIENTS or not _is_ours(connection):
            connection.close()
            return None
        self.clients[fd] = Client(connection)
        return fd

    def serve(self, fd: int) -> bool:
        """Read from a client and answer complete lines; False when it is gone."""
        client = self.clients[fd]
        try:
            data = client.connection.recv(65536)
        except BlockingIOError:
            data = None
        except OSError:
            data = b""
        if data == b"" or len(client.received) > _LONGEST_LINE:
            self.hang_up(fd)
            return False
        client.received += data or b""
        while b"\n" in client.received:
            line, _, client.received = client.received.partition(b"\n")
            client.pending += json.dumps(self._reply(line)).encode("ascii") + b"\n"
        return self.flush(fd)

    def flush(self, fd: int) -> bool:
        """Send what fits; False when the client is gone."""
        client = self.clients[fd]
        try:
            while client.pending:
                client.pending = client.pending[client.connection.send(client.pending) :]
        except BlockingIOError:
            return True
        except OSError:
            self.hang_up(fd)
            return False
        return True

    def hang_up(self, fd: int) -> None:
        """Forget a client."""
        client = self.clients.pop(fd, None)
        if client is not None:
            client.close()

    def close(self) -> None:
        """Stop listening and remove the address."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
            try:
                os.unlink(self._path)  # noqa: PTH108 - as above
            except OSError:
                pass
        for fd in list(self.clients):
            self.flush(fd) and self.hang_up(fd)

    def _reply(self, line: bytes) -> dict[str, object]:
        try:
            request: object = json.loads(line)
        except (ValueError, RecursionError):
            return _no("that is not JSON")
        if not isinstance(request, dict):
            return _no("that is not an object")
        if not _same(str(request.get("token", "")).encode("utf-8", "replace"), self._token):
            return _no("the token is wrong")
        return self._answer(request)


def _no(error: str) -> dict[str, object]:
    return {"ok": False, "error": error}


def _same(shown: bytes, token: bytes) -> bool:
    """Compare in a time that does not depend on where they differ."""
    different = len(shown) ^ len(token)
    for one, other in zip(shown, token, strict=False):
        different |= one ^ other
    return different == 0 and bool(token)


def _is_ours(connection: "_socket.socket") -> bool:
    if not system.IS_LINUX:
        return True  # the directory of the socket is closed to others
    found = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", found)[1] == os.geteuid())


def hint(path: str | None, text: str) -> None:
    """Send the daemon a datagram, never waiting; losing it costs only time."""
    if path is None:
        return
    out = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
    try:
        out.setblocking(False)
        out.sendto(text.encode(), path)
    except OSError:
        pass
    finally:
        out.close()
