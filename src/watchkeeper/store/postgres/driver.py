"""psycopg with an end to every wait, and with values passed as `store.rows` has them.

A server that was stopped, a network that loses packets and a half-open connection all end as `psycopg.errors.ConnectionTimeout`. A connection on which an
answer was not read to its end is closed: that answer could be taken for the answer to a later statement.
"""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING, cast

import psycopg
from psycopg.adapt import Dumper
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow

if TYPE_CHECKING:
    from psycopg.abc import RV, PQGen

_NETWORK = {
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}
"""A peer that vanished without a word is noticed within half a minute even while nothing is asked."""

_READ, _WRITE = 1, 2
"""psycopg's numbers for what it waits for, and for what is ready; both together are 3."""
_EVENTS = (0, select.POLLIN, select.POLLOUT, select.POLLIN | select.POLLOUT)


class BoundedConnection(psycopg.Connection[TupleRow]):
    """A connection whose waits end after `answer_s` seconds each. `connect` makes one."""

    answer_s = 30.0
    """How long one exchange with the server may take, in seconds."""

    def wait(self, gen: PQGen[RV], interval: float = 0.0, timeout: float | None = None) -> RV:
        """Carry out one exchange with the server.

        Every method of psycopg that talks to the server waits in this one. The arguments `interval` and `timeout` are psycopg's and are not used.

        Raises:
            psycopg.errors.ConnectionTimeout: there was no answer in time. The connection is closed.
        """
        del interval, timeout
        until, poll = time.monotonic() + self.answer_s, select.poll()
        try:
            wanted = next(gen)
            while True:
                poll.register(self.fileno(), _EVENTS[wanted])
                found = poll.poll(max(0.0, until - time.monotonic()) * 1000)
                if not found:
                    raise psycopg.errors.ConnectionTimeout(f"no answer for {self.answer_s:g} s")
                event = found[0][1]  # an error of the socket counts as both, so that libpq meets it
                wanted = gen.send((_READ if event & ~select.POLLOUT else 0) | (_WRITE if event & ~select.POLLIN else 0))
        except StopIteration as done:
            return cast("RV", done.value)
        finally:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.close()


def connect(parameters: dict[str, str], *, application: str, connect_s: float, answer_s: float) -> BoundedConnection:
    """Connect within `connect_s` seconds. Transactions are begun and ended by statements alone.

    Raises:
        psycopg.Error: it cannot be connected.
    """
    timeout = {"connect_timeout": str(max(1, round(connect_s)))}
    wanted = timeout | _NETWORK | parameters | {"application_name": application, "client_encoding": "UTF8"}
    # A statement is prepared when it comes for the second time, and there are not so many of them that one would have to go.
    connection = BoundedConnection.connect(
        make_conninfo("", **wanted), autocommit=True, prepare_threshold=1, cursor_factory=psycopg.RawCursor
    )
    connection.prepared_max = None
    connection.answer_s = answer_s
    for kind, dumper in ((str, _Text), (int, _Number), (float, _Number), (bytes, _Bytes)):
        connection.adapters.register_dumper(kind, dumper)
    return connection


# Values go to the server as texts without a type, so that it takes each for what the statement wants, and one statement is prepared once.


class _Text(Dumper):
    """Texts that a server cannot hold (lone surrogates of a broken file name, NUL) are stored with those spelt out."""

    def dump(self, obj: str) -> bytes:
        try:
            text = obj.encode("utf-8")
        except UnicodeEncodeError:
            text = obj.encode("utf-8", "backslashreplace")
        return text.replace(b"\x00", rb"\x00")


class _Number(Dumper):
    def dump(self, obj: float) -> bytes:
        return repr(obj).encode("ascii")


class _Bytes(Dumper):
    def dump(self, obj: bytes) -> bytes:
        return rb"\x" + obj.hex().encode("ascii")
