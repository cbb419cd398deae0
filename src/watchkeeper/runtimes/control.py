"""Talking to a shim: one JSON object a line each way, over its Unix socket, with the execution's secret token."""

import json
import os
import select
import socket
import struct
import time
from collections.abc import Mapping
from typing import cast

from watchkeeper.ports.runtime import ShimUnreachable
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.sockets import reach

PATIENCE_S = 2.0
"""How long a whole conversation may take, unless the shim waits for a processor or a disk."""

LONGEST_S = 6.0
"""How long it may take then: less than a daemon that ends waits for its loops, so that what was done is recorded."""

_WAITS = frozenset({"R", "D"})
"""States in /proc/PID/stat: it wants to run, or it waits for a disk. A shim that could run and has nothing to do is deaf."""

_LOOK_S = 0.25

_LONGEST_ANSWER = 1024 * 1024


def ask(
    address: str, token: str, request: Mapping[str, object], *, patience_s: float = PATIENCE_S
) -> Mapping[str, object]:
    """Send one request and return the answer.

    Raises:
        ShimUnreachable: it was not answered with success in time; it may or may not have been heard, and asking again does no harm.
    """
    began = time.monotonic()
    deadline = began + patience_s
    line = json.dumps({"token": token, **request}, allow_nan=False).encode("ascii") + b"\n"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(patience_s)
            with reach(address) as name:
                connection.connect(name)
            shim = _checked_owner(connection)
            connection.settimeout(_left(deadline))
            connection.sendall(line)
            _wait_for_answer(connection, shim, deadline, began + LONGEST_S)
            answer = _answer(connection, max(deadline, time.monotonic() + _LOOK_S))
    except (OSError, ValueError) as error:
        msg = f"The shim did not answer: {error}"
        raise ShimUnreachable(msg) from error
    if answer.get("ok") is not True:
        msg = f"The shim refused: {answer.get('error', 'it did not say why')}"
        raise ShimUnreachable(msg)
    return answer


def _checked_owner(connection: socket.socket) -> int:
    """The pid of the process that listens. The token is shown to a process of our own user only."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", credentials)
    if uid != os.geteuid():
        msg = f"user {uid} listens at its address"
        raise PermissionError(msg)
    return pid


def _wait_for_answer(connection: socket.socket, shim: int, deadline: float, longest: float) -> None:
    """Wait until there is something to read. Time in which the shim could not run does not count, up to `longest`.

    Raises:
        TimeoutError: nothing came.
    """
    poller = select.poll()
    poller.register(connection, select.POLLIN)
    if poller.poll(_left(deadline) * 1000):
        return
    while time.monotonic() < longest:
        stat = proc.stat_of(shim)  # before the next look at the connection, so that an answer given meanwhile is seen
        waits = stat is not None and stat.state in _WAITS
        if poller.poll(_LOOK_S * 1000 if waits else 0):
            return
        if not waits:
            break
    msg = "it took too long"
    raise TimeoutError(msg)


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
