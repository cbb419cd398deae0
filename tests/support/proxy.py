"""A network that can be told to swallow what a server says."""

import contextlib
import socket
import threading
from typing import Self

from watchkeeper.store.postgres.address import Address


class Proxy:
    """A network between us and the server that can swallow what the server says."""

    def __init__(self, url: str) -> None:
        """Stand before the server of that URL."""
        parameters = Address(url).parameters
        self._server = f"{parameters['host']}/.s.PGSQL.{parameters.get('port', '5432')}"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = (
            f"postgresql://{parameters['user']}@127.0.0.1:{self._listener.getsockname()[1]}/{parameters['dbname']}"
        )
        self.swallow_answers = False
        self.swallow_from: bytes | None = None
        """Swallow the answer to what contains this, and every answer after it."""
        self._open: list[socket.socket] = []

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
                ours, _ = self._listener.accept()
            except OSError:
                return
            theirs = socket.socket(socket.AF_UNIX)
            theirs.connect(self._server)
            self._open += [ours, theirs]
            threading.Thread(target=self._pass, args=(ours, theirs, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(theirs, ours, True), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not answers and self.swallow_from is not None and self.swallow_from in data:
                    self.swallow_answers = True
                if not (answers and self.swallow_answers):
                    target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
