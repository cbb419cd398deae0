"""A pooler between us and PostgreSQL, as PgBouncer is one: clients share a few connections to the server.

By transaction: a client has a server's process from the first message of a transaction to its end. By session: for as long as it is connected.
"""

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Self

from watchkeeper.store.postgres.address import Address

_SSL, _GSS = 80877103, 80877104


def _exactly(end: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = end.recv(count - len(data))
        if not more:
            raise ConnectionError("gone")
        data += more
    return data


def _message(end: socket.socket) -> tuple[bytes, bytes]:
    head = _exactly(end, 5)
    return head[:1], head + _exactly(end, struct.unpack("!I", head[1:])[0] - 4)


class Pooler:
    """Stands before the server of a URL."""

    def __init__(self, url: str, *, by: str) -> None:
        """`by`: `session` or `transaction`."""
        self._parameters = Address(url).parameters
        self.by = by
        self._listener = socket.create_server(("127.0.0.1", 0))
        user, name = self._parameters["user"], self._parameters["dbname"]
        self.url = f"postgresql://{user}@127.0.0.1:{self._listener.getsockname()[1]}/{name}"
        self._idle: list[tuple[socket.socket, bytes]] = []
        self._open: list[socket.socket] = []
        self._guard = threading.Lock()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _server(self) -> tuple[socket.socket, bytes]:
        """A connection to the server, one that was used last if there is one, and what it said of itself."""
        with self._guard:
            if self._idle:
                return self._idle.pop()
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{self._parameters['host']}/.s.PGSQL.{self._parameters.get('port', '5432')}")
        self._open.append(server)
        asked = {
            "user": self._parameters["user"], "database": self._parameters["dbname"], "client_encoding": "UTF8",
        }  # fmt: skip
        body = struct.pack("!I", 196608) + b"".join(f"{k}\0{v}\0".encode() for k, v in asked.items()) + b"\0"
        server.sendall(struct.pack("!I", len(body) + 4) + body)
        told = b""
        while True:
            kind, message = _message(server)
            if kind == b"S":
                told += message
            if kind == b"Z":
                return server, told

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, ConnectionError):
            self._greet(client)
            server: socket.socket | None = None
            told = b""
            for batch in self._batches(client):
                if server is None:
                    server, told = self._server()
                server.sendall(batch)
                if self._relay(server, client) and self.by == "transaction":
                    with self._guard:
                        self._idle.append((server, told))
                    server = None
        client.close()

    def _greet(self, client: socket.socket) -> None:
        while True:
            size = struct.unpack("!I", _exactly(client, 4))[0]
            body = _exactly(client, size - 4)
            if struct.unpack("!I", body[:4])[0] not in {_SSL, _GSS}:
                break
            client.sendall(b"N")
        server, told = self._server()
        with self._guard:
            self._idle.append((server, told))
        key = b"K" + struct.pack("!III", 12, 1, int.from_bytes(os.urandom(4), "big") >> 1)
        client.sendall(b"R" + struct.pack("!II", 8, 0) + told + key + b"Z" + struct.pack("!I", 5) + b"I")

    @staticmethod
    def _batches(client: socket.socket) -> Iterator[bytes]:
        """What a client sends up to a point at which the server answers that it is ready."""
        batch = b""
        while True:
            kind, message = _message(client)
            if kind == b"X":
                return
            batch += message
            if kind in {b"Q", b"S"}:
                yield batch
                batch = b""

    @staticmethod
    def _relay(server: socket.socket, client: socket.socket) -> bool:
        """Pass an answer on; whether no transaction is open after it."""
        while True:
            kind, message = _message(server)
            client.sendall(message)
            if kind == b"Z":
                return message[-1:] == b"I"
