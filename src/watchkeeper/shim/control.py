"""The control socket: one JSON object a line each way, for the same user, with the execution's token. Nothing here ever blocks the shim."""

import _socket
import errno
import os
import select
import stat
from _collections_abc import Callable

from . import json_text
from .crash import crashpoint

Reply = dict[str, object]

_LONGEST_LINE = 4 * 1024 * 1024
_MOST_CLIENTS = 16
_BACKLOG = 128
_CREDENTIALS = 12
_OTHERS_MAY_WRITE = 0o022


class Client:
    """One connection: what came in, and what is still to go out."""

    def __init__(self, connection: "_socket.socket", poll: "select.poll") -> None:
        """Own the connection."""
        self.connection = connection
        self.fd = connection.fileno()
        self.received = bytearray()
        self.waits = False
        """Whether the answer to its last request is still to come; until then its next ones are not looked at."""
        self._poll = poll
        self._pending = b""
        poll.register(self.fd, select.POLLIN)

    @property
    def gone(self) -> bool:
        """Whether it has hung up."""
        return self.fd < 0

    def reply(self, answer: Reply) -> None:
        """Answer the current request; a client that has gone is not an error."""
        self.waits = False
        self.send(json_text.encode(answer).encode("ascii") + b"\n")

    def send(self, data: bytes = b"") -> None:
        """Send what fits, the rest later."""
        self._pending += data
        if self.gone:
            return
        try:
            while self._pending:
                self._pending = self._pending[self.connection.send(self._pending) :]
        except BlockingIOError:
            pass
        except OSError:
            self.hang_up()
            return
        self.listen()

    def listen(self) -> None:
        """Wait for what is next: room for the answer, or else the next request, or else only the end."""
        self._poll.modify(self.fd, select.POLLOUT if self._pending else 0 if self.waits else select.POLLIN)

    @property
    def ready(self) -> bool:
        """Whether its next request may be looked at."""
        return not (self.gone or self.waits or self._pending)

    def hang_up(self) -> None:
        """Close the connection."""
        if not self.gone:
            self._poll.unregister(self.fd)
            self.fd = -1
            self.connection.close()


class Control:
    """Listens, and answers complete lines through `answer`, which returns None if the answer comes later."""

    def __init__(
        self, path: bytes, token: bytes, poll: "select.poll", answer: Callable[[Reply, Client], Reply | None]
    ) -> None:
        """Nothing is opened yet."""
        self._path = path
        self._token = token
        self._poll = poll
        self._answer = answer
        self._listener: _socket.socket | None = None
        self._clients: dict[int, Client] = {}
        """In the order in which they were last heard of."""

    def open(self) -> str | None:
        """Bind and listen; returns a complaint if that cannot be. A socket of this name is a dead shim's: we hold the execution's lock."""
        made = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            _make_directory(os.path.dirname(self._path))  # noqa: PTH120 - pathlib would cost start-up time
            self._unlink()
            crashpoint("shim.bind.before")
            _at(self._path, made.bind)
            made.listen(_BACKLOG)
            made.setblocking(False)  # noqa: FBT003 - the plain module takes no names
            crashpoint("shim.bind.after")
        except OSError as problem:
            made.close()
            return f"cannot listen at {os.fsdecode(self._path)}: {problem.strerror or problem}"
        self._listener = made
        self._poll.register(made.fileno(), select.POLLIN)
        return None

    @property
    def listening(self) -> bool:
        """Whether there is an address to talk to."""
        return self._listener is not None

    def owns(self, fd: int) -> bool:
        """Whether a descriptor belongs to this server."""
        return fd in self._clients or (self._listener is not None and fd == self._listener.fileno())

    def serve(self, fd: int, events: int) -> None:
        """Do what there is to do at one of our descriptors."""
        client = self._clients.pop(fd, None)
        if client is None:
            self._accept()
            return
        self._clients[fd] = client
        if client.waits and events & (select.POLLHUP | select.POLLERR):
            client.hang_up()
        elif events & select.POLLOUT:
            client.send()
        elif not client.waits:
            self._receive(client)
        self._take_requests(client)
        self._tidy()

    def answer_later_requests(self) -> None:
        """Clients whose answers came meanwhile may have sent their next request with the last."""
        for client in list(self._clients.values()):
            if client.received:
                self._take_requests(client)
        self._tidy()

    def close(self) -> None:
        """Stop listening and remove the address."""
        if self._listener is not None:
            self._stop_listening()
            self._unlink()
        for client in self._clients.values():
            client.hang_up()
        self._clients.clear()

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._poll.unregister(self._listener.fileno())
            self._listener.close()
            self._listener = None

    def _unlink(self) -> None:
        """Remove the address, but only if it is a socket."""
        try:
            if stat.S_ISSOCK(os.lstat(self._path).st_mode):
                os.unlink(self._path)  # noqa: PTH108 - pathlib would cost start-up time
        except OSError:
            pass

    def _accept(self) -> None:
        """Take a connection of our own user. If there are too many, the connection that was silent for longest is closed."""
        if self._listener is None:
            return
        try:
            fd = _accepted(self._listener)
        except (BlockingIOError, ConnectionError, InterruptedError):
            return
        except OSError:
            self._stop_listening()  # no descriptors: rather deaf for a while than busy without end
            return
        connection = _socket.socket(fileno=fd)
        connection.setblocking(False)  # noqa: FBT003 - as above
        if not _is_ours(connection):
            connection.close()
            return
        if len(self._clients) >= _MOST_CLIENTS:
            next(iter(self._clients.values())).hang_up()
            self._tidy()
        self._clients[fd] = Client(connection, self._poll)

    def _tidy(self) -> None:
        for fd in [fd for fd, client in self._clients.items() if client.gone]:
            del self._clients[fd]

    def _receive(self, client: Client) -> None:
        try:
            data = client.connection.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        client.received += data
        if not data or len(client.received) > _LONGEST_LINE:
            client.hang_up()

    def _take_requests(self, client: Client) -> None:
        while client.ready:
            end = client.received.find(b"\n")
            if end < 0:
                return
            line = bytes(client.received[:end])
            del client.received[: end + 1]
            reply = self._reply(line, client)
            if reply is not None:
                client.reply(reply)
            else:
                client.waits = True
                client.listen()

    def _reply(self, line: bytes, client: Client) -> Reply | None:
        try:
            request = json_text.decode(line)
        except (ValueError, RecursionError):
            return _no("that is not JSON")
        if not json_text.is_object(request):
            return _no("that is not an object")
        if not _same(str(request.get("token", "")).encode("utf-8", "replace"), self._token):
            return _no("the token is wrong")
        return self._answer(request, client)


def _accepted(listener: "_socket.socket") -> int:
    # The plain module has no other name for it.
    return int(listener._accept()[0])  # noqa: SLF001 # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType, reportUnknownMemberType] - no stub has it


def _no(error: str) -> Reply:
    return {"ok": False, "error": error}


def _same(shown: bytes, token: bytes) -> bool:
    """Compare in a time that does not depend on where they differ."""
    different = len(shown) ^ len(token)
    for one, other in zip(shown, token, strict=False):
        different |= one ^ other
    return different == 0 and bool(token)


def _is_ours(connection: "_socket.socket") -> bool:
    # struct ucred: pid, uid, gid
    found = memoryview(connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _CREDENTIALS)).cast("i")
    return found[1] == os.geteuid()


def _make_directory(path: bytes) -> None:
    """Make the directory of our socket, and nothing above it: a state directory that was removed stays so. Raises OSError."""
    if not os.path.lexists(path):  # whether it is ours alone is checked where it is used
        os.mkdir(path, 0o700)  # noqa: PTH102 - pathlib would cost start-up time


def _at(path: bytes, do: "Callable[[bytes], object]") -> None:
    """Do something with an address of any length, in a directory where no other user could listen in our place. Raises OSError.

    An address has room for 108 bytes; a descriptor of its directory makes it short.
    """
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_PATH
    directory = os.open(os.path.dirname(path), flags)  # noqa: PTH120 - pathlib would cost start-up time
    try:
        found = os.fstat(directory)
        if found.st_uid != os.geteuid() or found.st_mode & _OTHERS_MAY_WRITE:
            raise PermissionError(errno.EACCES, "another user could listen in its directory")
        name = os.path.basename(path)  # noqa: PTH119 - as above
        do(b"/proc/self/fd/%d/%b" % (directory, name))
    finally:
        os.close(directory)


def hint(path: bytes | None, text: bytes) -> None:
    """Send the daemon a datagram, never waiting; losing it costs only time."""
    if path is None:
        return
    out = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
    try:
        out.setblocking(False)  # noqa: FBT003 - as above
        _at(path, lambda address: out.sendto(text, address))
    except OSError:
        pass
    finally:
        out.close()
