"""A proxy that writes down where it was asked to go and lets nothing through."""

import socket
import threading
from typing import Self


class Tunnels:
    """Listens on the loopback interface; `asked` holds `host:port` of every request, in their order."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self.asked: list[str] = []
        self._thread = threading.Thread(target=self._serve, name="tunnels", daemon=True)

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop; the system refuses a client that asks later."""
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            with client:
                try:
                    client.settimeout(10)
                    words = client.recv(4096).split(b"\r\n")[0].decode("latin-1").split()
                    self.asked.append(words[1] if len(words) > 1 else "?")
                    client.sendall(b"HTTP/1.1 502 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                except OSError:
                    continue
