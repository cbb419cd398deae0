"""`PostgresStore`: the port over two connections, one for who writes and one for who reads, each opened when it is first used.

A write transaction, step by step:

    BEGIN ─▶ our turn (advisory lock) ─▶ is the schema still ours ─▶ work ─▶ COMMIT, which ends the turn ─▶ tell who listens

A connection that failed is dropped, and the next transaction opens a new one: a server that was restarted, became read-only or went away and came back
needs nothing from us. One that has died since it was last used is replaced within the call, because nothing was begun on it. Where the answer to COMMIT
is lost its result is unknown; the error reports that, and a repeat is safe: the rows themselves prevent that anything happens twice.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Self, TypeVar

import psycopg

from watchkeeper.errors import DatabaseCorrupt, DatabaseNewer, DatabaseUnusable, NoDatabase, RecordTorn
from watchkeeper.ports.damage import Met
from watchkeeper.store.marks import MARKED, refusal
from watchkeeper.store.postgres.address import Address
from watchkeeper.store.postgres.connection import Patience, PostgresConnection
from watchkeeper.store.postgres.schema import (
    PACKAGE,
    migrate,
    nothing_of_ours,
    read_schema_number,
    refuse_gaps,
    shipped_schema,
)
from watchkeeper.store.postgres.time import ServerTime
from watchkeeper.store.schema import TABLES
from watchkeeper.store.statements import Statements
from watchkeeper.store.tx import StoredTx

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from datetime import datetime

    from watchkeeper.store.migrations import Schema

T = TypeVar("T")

_WAITED_LONG_S = 5.0
_MARK = "SELECT last FROM watchkeeper.counter WHERE name = 'commit'"
_WRONG_TALLY = """
SELECT t.state FROM watchkeeper.tally t
WHERE t.tasks <> (SELECT count(*) FROM watchkeeper.task AS task WHERE task.state = t.state)
"""
_READ_ALL = """
SELECT max(length(t::text)) FROM (
    SELECT ROW(task.*) AS t FROM watchkeeper.task UNION ALL SELECT ROW(spec.*) FROM watchkeeper.spec
    UNION ALL SELECT ROW(run.*) FROM watchkeeper.run UNION ALL SELECT ROW(execution.*) FROM watchkeeper.execution
    UNION ALL SELECT ROW(claim.*) FROM watchkeeper.claim UNION ALL SELECT ROW(outcome.*) FROM watchkeeper.outcome
    UNION ALL SELECT ROW(journal.*) FROM watchkeeper.journal UNION ALL SELECT ROW(outbox.*) FROM watchkeeper.outbox
) AS everything
"""


class _Seat:
    """A place for one connection, which one thread at a time uses."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.connection: PostgresConnection | None = None
        self.failed_s = 0.0
        """When a connection was last given up."""

    def drop(self) -> None:
        """Give the connection up."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()


class PostgresStore:
    """The database that machines share. Threads may share a store; its writers take turns, and so do its readers."""

    def __init__(self, address: Address, patience: Patience, application: str, schema: Schema, met: Met) -> None:
        """Use `open` instead."""
        self.met = met
        self._address = address
        self._patience = patience
        self._application = application
        self._schema = schema
        self._statements = Statements(PACKAGE)
        self._writer = _Seat()
        self._reader = _Seat()
        self._users: set[int] = set()
        self._closed = False
        self._keeps_sessions = False
        """Whether it was seen that each connection keeps a server's process; needs no look where nothing stands between."""
        self._offset = ServerTime()

    @classmethod
    def open(
        cls,
        url: str,
        *,
        create: bool,
        upgrade: bool,
        patience: Patience | None = None,
        application: str = "watchkeeper",
        schema: Schema | None = None,
        met: Met | None = None,
    ) -> Self:
        """Open the database at `url`.

        Args:
            url: where it is; `postgresql://user@host/name`.
            create: make what we need in it if there is nothing. Reading commands never do.
            upgrade: bring an older one up to date. Only the daemon does.
            patience: how long to wait for whom.
            application: the name of this connection on the server; a process that waits for it sees the name.
            schema: what the database should look like.
            met: where records are noted that cannot be read; without it the store has a place of its own.

        Raises:
            NoDatabase: it holds no tables of Watchkeeper, and `create` was not given.
            DatabaseNewer: a newer version has been here.
            DatabaseUnusable: and its other kinds.
            SettingsError: that is not a URL of PostgreSQL.
        """
        store = cls(Address(url), patience or Patience(), application, schema or shipped_schema(), met or Met())
        try:
            try:
                store.read(lambda _: None)
            except NoDatabase:
                if not create:
                    raise
                store._bring_up(from_nothing=True)
                store.read(lambda _: None)
            except _Older:
                if not upgrade:
                    raise
                store._bring_up(from_nothing=False)
                store.read(lambda _: None)
        except BaseException:
            store.close()
            raise
        return store

    def transact(self, name: str, work: Callable[[StoredTx], T], *, durable: bool = True) -> T:
        """Run `work` in one write transaction and return what it returns.

        Raises:
            DatabaseUnusable: and its kinds. Nothing was changed, or the message says that this is not known.
        """
        with self._transaction(self._writer, write=True, durable=durable) as connection:
            result = work(StoredTx(connection))
            connection.commit(name)
            return result

    def read(self, work: Callable[[StoredTx], T]) -> T:
        with self._transaction(self._reader, write=False) as connection:
            return work(StoredTx(connection))

    def changed(self, since: int) -> tuple[bool, int]:
        """Whether any process has committed since the mark `since`, and the new mark. Costs one request to the server."""
        with self._use(self._reader):
            try:
                _, mark = self._on_living(self._reader, lambda connection: int(connection.batch(_MARK)[0][0] or 0))
            finally:
                if self._reader.connection is not None and not self._reader.connection.roll_back():
                    self._reader.drop()
        return mark != since, mark

    def check(self, *, thorough: bool = False) -> None:
        """Read the tables and look for damage; takes seconds for a large database.

        Raises:
            RecordTorn: a count is not that of the tasks.
            DatabaseCorrupt: there is damage.
        """
        with self._transaction(self._reader, write=False) as connection:
            for table in TABLES:
                _ = connection.batch(f"SELECT 1 FROM watchkeeper.{table} LIMIT 1")  # noqa: S608 - names of our own schema
            if thorough:
                _ = connection.batch(_READ_ALL)
            wrong = connection.batch(_WRONG_TALLY)
        if wrong:
            state = str(wrong[0][0])
            raise RecordTorn(place="tally", key=state, reason=f"the count of {state} tasks is not that of the tasks")

    @property
    def is_shared(self) -> bool:
        """Every machine that reaches the server may work on it."""
        return True

    def time(self) -> datetime | None:
        """The time by the server's clock, as far as its last answer tells; None before the first one."""
        return self._offset.now()

    def close(self) -> None:
        self._closed = True
        for seat in (self._reader, self._writer):
            with seat.lock:
                seat.drop()

    @contextlib.contextmanager
    def _use(self, seat: _Seat) -> Generator[None, None, None]:
        """Have a seat to ourselves."""
        me, asked_s = threading.get_ident(), time.monotonic()
        if me in self._users:
            raise RuntimeError("a transaction inside a transaction")
        with seat.lock:
            self._users.add(me)
            try:
                self._refuse_in_vain(seat, asked_s)
                yield
            except DatabaseUnusable:
                if seat.connection is None and asked_s >= seat.failed_s:
                    seat.failed_s = time.monotonic()
                raise
            finally:
                self._users.discard(me)

    def _refuse_in_vain(self, seat: _Seat, asked_s: float) -> None:
        """The previous caller has waited for an answer that did not come: if every caller did so in turn, the last one would wait for minutes."""
        if self._closed:
            raise DatabaseUnusable("The database is closed.")
        if asked_s + _WAITED_LONG_S < seat.failed_s:
            raise DatabaseUnusable(
                f"The database server of {self._address} does not answer.", hint="Nothing was changed; try again."
            )

    @contextlib.contextmanager
    def _transaction(
        self, seat: _Seat, *, write: bool, durable: bool = True
    ) -> Generator[PostgresConnection, None, None]:
        """A transaction in a database whose schema is ours. What is not committed inside is undone; a connection that cannot undo is given up."""
        with self._use(seat):
            try:
                connection = self._begin(seat, write=write, durable=durable)
                yield connection
            except RecordTorn as torn:
                self.met.note(torn)
                raise
            except DatabaseCorrupt as damaged:
                self.met.whole = str(damaged)
                raise
            finally:
                if seat.connection is not None and not seat.connection.roll_back():
                    seat.drop()

    def _begin(self, seat: _Seat, *, write: bool, durable: bool = True) -> PostgresConnection:
        """Begin in a database whose schema is ours."""

        def begin(connection: PostgresConnection) -> tuple[int, int]:
            with self._offset.measuring() as measured:
                try:
                    count, number, measured.server_us = connection.begin(write=write, durable=durable)
                except psycopg.errors.UndefinedTable:
                    raise nothing_of_ours(connection, self._address) from None
            return count, number

        connection, (count, number) = self._on_living(seat, begin)
        if number == MARKED != self._schema.number:
            raise refusal(connection, str(self._address))
        refuse_gaps(count, number, self._address)
        self._check_schema(number)
        return connection

    def _on_living(self, seat: _Seat, ask: Callable[[PostgresConnection], T]) -> tuple[PostgresConnection, T]:
        """Ask on the connection of a seat; if it has died since it was last used, once more on a new one."""
        while True:
            used = seat.connection
            connection = seat.connection = used or self._connect()
            try:
                return connection, ask(connection)
            except DatabaseUnusable:
                if used is None or connection.alive or connection.is_silent:
                    raise
                seat.drop()

    def _connect(self) -> PostgresConnection:
        connection = self._connected()
        if connection.is_relayed and not self._keeps_sessions:
            try:
                other = self._connected()
                try:
                    connection.refuse_pooled(other)
                finally:
                    other.close()
            except BaseException:
                connection.close()
                raise
            self._keeps_sessions = True
        return connection

    def _connected(self) -> PostgresConnection:
        connection = PostgresConnection(self._address, self._statements, self._patience, self._application)
        connection.met = self.met
        return connection

    def _check_schema(self, number: int) -> None:
        if number > self._schema.number:
            raise DatabaseNewer(
                f"The database {self._address} was written by a newer version of Watchkeeper.",
                hint="Upgrade Watchkeeper; nothing was changed.",
            )
        if number < self._schema.number:
            raise _Older(
                f"The database {self._address} is of an older version.",
                hint="`wk daemon start` brings it up to date.",
            )

    def _bring_up(self, *, from_nothing: bool) -> None:
        """Make or upgrade the schema, unless another process did so while this one waited for its turn."""
        seat = self._writer
        with self._use(seat):
            try:
                self._migrate(seat, from_nothing=from_nothing)
            finally:
                seat.drop()  # its plans are those of the schema that was

    def _migrate(self, seat: _Seat, *, from_nothing: bool) -> None:
        seat.drop()
        connection = seat.connection = self._connect()
        connection.begin_migration()
        applied = read_schema_number(connection, self._address)
        if (applied is None) is not from_nothing:
            return  # another process was first; the caller looks again
        if applied is not None and applied >= self._schema.number:
            return
        migrate(connection, self._schema, from_nothing=from_nothing)
        connection.commit("migrate")


class _Older(DatabaseUnusable):
    """The database is of an older version."""
