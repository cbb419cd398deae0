"""Talking to a shim: one JSON object a line each way, over its Unix socket, with the execution's secret token."""

import json
import os
import socket
import struct
import time
from collections.abc import Mapping
from typing import cast

from watchkeeper.ports.runtime import ShimUnreachable
from watchkeeper.runtimes.sockets import reach

PATIENCE_S = 2.0
"""How long a whole conversation may take."""

_LONGEST_ANSWER = 1024 * 1024


def ask(
    address: str, token: str, request: Mapping[str, object], *, patience_s: float = PATIENCE_S
) -> Mapping[str, object]:
    """Send one request and return the answer.

    Raises:
        ShimUnreachable: it was not answered with success in time; it may or may not have been heard, and asking again does no harm.
    """
    deadline = time.monotonic() + patience_s
    line = json.dumps({"token": token, **request}, allow_nan=False).encode("ascii") + b"\n"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(patience_s)
            with reach(address) as name:
                connection.connect(name)
            _check_owner(connection)
            connection.settimeout(_left(deadline))
            connection.sendall(line)
            answer = _answer(connection, deadline)
    except (OSError, ValueError) as error:
        msg = f"The shim did not answer: {error}"
        raise ShimUnreachable(msg) from error
    if answer.get("ok") is not True:
        msg = f"The shim refused: {answer.get('error', 'it did not say why')}"
        raise ShimUnreachable(msg)
    return answer


def _check_owner(connection: socket.socket) -> None:
    """The token is shown to nobody but a process of our own user."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid: int = struct.unpack("3i", credentials)[1]
    if uid != os.geteuid():
        msg = f"user {uid} listens at its address"
        raise PermissionError(msg)


def _answer(connection: socket.socket, deadline: float) -> Mapping[str, object]:
    received = b""
    while b"\n" not in received:
        connection.settimeout(_left(deadline))
        part = connection.recv(65536)
        if not part or len(received) > _LONGEST_ANSWER:
            msg = "it hung up"
            raise ConnectionError(msg)
        received += part
    answer: object = json.loads(received.partition(b"\n")[0])
    if not isinstance(answer, dict):
        msg = "it did not answer with an object"
        raise ValueError(msg)  # noqa: TRY004 - it is the content that is wrong
    return cast("Mapping[str, object]", answer)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        msg = "it took too long"
        raise TimeoutError(msg)
    return left
