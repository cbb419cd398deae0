"""One connection to a server, on which nothing waits for ever.

libpq is used without blocking: each call sends, then waits on the socket until the answer is whole or its time is up. A server that was stopped, a network
that swallows packets and a half-open connection all end the same way: `Lost`, and the connection is good for nothing any more. What the server refuses
with an error of its own is `Refused`; whether the connection has survived that is `alive`.
"""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from psycopg.pq.abc import PGconn, PGresult

    from watchkeeper.store.rows import Row, Value

_NETWORK = {
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}
"""A peer that vanished without a word is noticed within half a minute even while nothing is asked."""

_ENDED = frozenset({pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE})
_SQLSTATE, _PRIMARY = pq.DiagnosticField.SQLSTATE, pq.DiagnosticField.MESSAGE_PRIMARY


class Lost(Exception):  # noqa: N818 - the caller says what it means
    """The connection is gone, or no answer came in time. `tags`: the commands that are known to be done."""

    def __init__(self, says: str, *, silent: bool = False, tags: Sequence[str] = ()) -> None:
        """It was `silent` if the time was up."""
        super().__init__(says)
        self.silent = silent
        self.tags = tuple(tags)


class Refused(Exception):  # noqa: N818 - as above
    """The server says no. `tags`: the commands of the batch that were done before."""

    def __init__(self, sqlstate: str, says: str, tags: Sequence[str] = ()) -> None:
        """`sqlstate` is the server's code, `says` its sentence."""
        super().__init__(says)
        self.sqlstate = sqlstate
        self.tags = tuple(tags)


class Wire:
    """One connection."""

    def __init__(self, parameters: dict[str, str], *, application: str, connect_s: float, answer_s: float) -> None:
        """Connect within `connect_s` seconds; wait for each answer at most `answer_s` seconds.

        Raises:
            Lost: it cannot be connected; the text is the driver's.
        """
        timeout = {"connect_timeout": str(max(1, round(connect_s)))}
        wanted = timeout | _NETWORK | parameters | {"application_name": application, "client_encoding": "UTF8"}
        try:
            self._connection = psycopg.Connection.connect(make_conninfo("", **wanted), autocommit=True)
        except psycopg.Error as error:
            raise Lost(str(error), silent=isinstance(error, psycopg.errors.ConnectionTimeout)) from None
        self._pg: PGconn = self._connection.pgconn
        self.answer_s = answer_s
        self._poll = select.poll()
        self._prepared: set[str] = set()
        self._asked: set[str] = set()
        self._broken = False
        self.server_version = self._pg.server_version

    @property
    def alive(self) -> bool:
        """False once the connection is known to be of no use."""
        return not self._broken and self._pg.status == pq.ConnStatus.OK

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, failed or not."""
        return self._pg.transaction_status != pq.TransactionStatus.IDLE

    @property
    def server_pid(self) -> int:
        """The server's process, as whoever answers at the address says: a pooler says a number of its own."""
        return self._pg.backend_pid

    def fileno(self) -> int:
        """The socket."""
        return self._pg.socket

    def parameter(self, name: str) -> str:
        """What the server tells of itself under that name."""
        return (self._pg.parameter_status(name.encode()) or b"").decode()

    def close(self) -> None:
        """End it, without waiting."""
        self._broken = True
        self._connection.close()

    def batch(self, sql: str) -> list[PGresult]:
        """Run several statements in one go and return the result of each.

        Raises:
            Refused: one of them was refused, and those after it were not looked at.
            Lost: it is not known how far it came, but for the tags.
        """
        return self._ask(lambda: self._pg.send_query(sql.encode("utf-8")))

    def ask(self, name: str, sql: str, values: Sequence[Value]) -> PGresult:
        """Run one statement; one that comes again is prepared under its `name`. Raises as `batch` does."""
        outgoing = [_outgoing(value) for value in values]
        if name in self._prepared:
            return self._ask(lambda: self._pg.send_query_prepared(name.encode(), outgoing))[0]
        if name not in self._asked:
            self._asked.add(name)
            return self._ask(lambda: self._pg.send_query_params(sql.encode("utf-8"), outgoing))[0]
        _ = self._ask(lambda: self._pg.send_prepare(name.encode(), sql.encode("utf-8")))
        self._prepared.add(name)
        return self.ask(name, sql, values)

    def notified(self) -> bool:
        """Take what has arrived without waiting, and say whether somebody has notified us. Raises Lost."""
        try:
            self._pg.consume_input()
            found = False
            while self._pg.notifies() is not None:
                found = True
        except psycopg.OperationalError as error:
            self._broken = True
            raise Lost(str(error)) from None
        return found

    def _ask(self, send: Callable[[], None]) -> list[PGresult]:
        """Send, and collect the whole answer."""
        until = time.monotonic() + self.answer_s
        found: list[PGresult] = []
        whole = False
        try:
            send()
            while self._pg.flush():
                self._wait(select.POLLIN | select.POLLOUT, until)
                self._pg.consume_input()
            while (result := self._next(until)) is not None:
                found.append(result)
            whole = True
        except psycopg.OperationalError as error:
            self._broken = True
            self._judge(found)
            raise Lost(str(error), tags=_tags(found)) from None
        except Lost as lost:
            lost.tags = _tags(found)
            raise
        finally:
            self._broken = self._broken or not whole
        self._judge(found)
        return found

    def _next(self, until: float) -> PGresult | None:
        while self._pg.is_busy():
            self._wait(select.POLLIN, until)
            self._pg.consume_input()
        return self._pg.get_result()

    def _wait(self, events: int, until: float) -> None:
        left = until - time.monotonic()
        self._poll.register(self._pg.socket, events)
        if left <= 0 or not self._poll.poll(left * 1000):
            raise Lost(f"no answer for {self.answer_s:g} s", silent=True)

    @staticmethod
    def _judge(results: Sequence[PGresult]) -> None:
        for number, result in enumerate(results):
            if result.status in _ENDED:
                sqlstate = (result.error_field(_SQLSTATE) or b"").decode("ascii", "replace")
                says = (result.error_field(_PRIMARY) or result.error_message).decode("utf-8", "replace")
                if not sqlstate:  # libpq itself says that the connection is gone
                    raise Lost(says.strip(), tags=_tags(results[:number]))
                raise Refused(sqlstate, says.strip(), _tags(results[:number]))


def rows(result: PGresult) -> list[Row]:
    """The rows of a result, each column as what its type says."""
    readers = [_INCOMING.get(result.ftype(column), _text) for column in range(result.nfields)]
    return [
        tuple(
            None if (value := result.get_value(row, column)) is None else read(value)
            for column, read in enumerate(readers)
        )
        for row in range(result.ntuples)
    ]


def _tags(results: Sequence[PGresult]) -> tuple[str, ...]:
    return tuple((result.command_status or b"").decode("ascii", "replace") for result in results)


def _outgoing(value: Value) -> bytes | None:
    """A value as the server reads it. Texts that it cannot hold (lone surrogates of a broken file name, NUL) are stored with those spelt out."""
    if value is None:
        return None
    if isinstance(value, str):
        try:
            text = value.encode("utf-8")
        except UnicodeEncodeError:
            text = value.encode("utf-8", "backslashreplace")
        return text.replace(b"\x00", rb"\x00")
    if isinstance(value, bytes):
        return rb"\x" + value.hex().encode("ascii")
    return repr(value).encode("ascii")


def _text(value: bytes) -> Value:
    return value.decode("utf-8")


def _yes(value: bytes) -> Value:
    return int(value == b"t")


def _number(value: bytes) -> Value:
    return int(value) if value.lstrip(b"-").isdigit() else float(value)


_INCOMING: dict[int, Callable[[bytes], Value]] = {
    16: _yes,
    20: int,
    21: int,
    23: int,
    26: int,
    700: float,
    701: float,
    1700: _number,
}
"""By the number of a type in PostgreSQL: bool, int8, int2, int4, oid, float4, float8, numeric."""
