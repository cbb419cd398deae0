"""A connection: what is set on it, how a transaction begins and ends on it, how its named statements are run."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import psycopg
from psycopg.pq import TransactionStatus

from watchkeeper.crash import crashpoint
from watchkeeper.errors import DatabaseBusy, DatabaseUnusable, WatchkeeperError
from watchkeeper.ports.damage import Met
from watchkeeper.store.postgres import faults
from watchkeeper.store.postgres.driver import connect
from watchkeeper.store.rows import Row, RowConflict, SqlValue
from watchkeeper.store.statements import conflicts_without_row

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg.rows import TupleRow

    from watchkeeper.store.postgres.address import Address
    from watchkeeper.store.statements import Statements

OLDEST_SERVER = 140_000
"""PostgreSQL 14."""

_CONNECT_S = 10.0
_MIGRATION_S = 1800.0
"""How long a step of the schema may take: it may go through every row."""
_PID = "SELECT pg_backend_pid();"
_MARGIN_S = 2.0
"""How much longer we wait for an answer than the server may take for it: its own sentence is the better one."""

_LOOKS = 3
"""How often it is looked whether two connections share a server's process."""

_NAMED = r"(?<![:\w]):([a-z_]+)"

# The schema has an index for every walk; with these the way through them does not depend on what the server has counted so far.
_SETTINGS = """
SET search_path TO watchkeeper, pg_temp;
SET standard_conforming_strings TO on;
SET client_min_messages TO warning;
SET plan_cache_mode TO force_generic_plan;
SET enable_seqscan TO off;
SET enable_hashjoin TO off;
SET enable_mergejoin TO off;
SET jit TO off;
SELECT set_config('synchronous_commit', CASE v WHEN 'off' THEN 'on' ELSE v END, false)
FROM current_setting('synchronous_commit') AS v;
"""

# The key of the lock is `WKDB`; such locks belong to one database.
_BEGIN_WRITE = """
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT pg_advisory_xact_lock(1464550466);
"""
_NOT_DURABLE = "SET LOCAL synchronous_commit TO off;"
_BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"
_NUMBER = """
SELECT count(*), max(number), CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT),
    current_setting('watchkeeper.seat', true)
FROM watchkeeper.migration;
"""

_COMMIT_WRITTEN = "UPDATE watchkeeper.counter SET last = last + 1 WHERE name = 'commit'; COMMIT"
# A NOTIFY inside the transaction would hold a lock of the whole server while the commit is synced.
_NOTIFY = "NOTIFY watchkeeper"

_HOLDER = """
SELECT a.pid, a.application_name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.granted AND l.pid <> pg_backend_pid()
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND ((l.locktype = 'advisory' AND l.classid = 0 AND l.objid = 1464550466)
        OR (l.locktype = 'relation' AND l.mode LIKE '%ExclusiveLock'
            AND l.relation IN (SELECT oid FROM pg_class WHERE relnamespace = to_regnamespace('watchkeeper'))))
ORDER BY l.locktype LIMIT 1
"""


class Patience(NamedTuple):
    """How long we wait."""

    wait_s: float = 10.0
    """For our turn to write, and for the locks of other programs."""
    answer_s: float = 30.0
    """For the answer to one statement, waiting for locks included."""


class Statement(NamedTuple):
    """A named statement as the server wants it."""

    sql: bytes
    names: tuple[str, ...]
    """Its parameters, in the order of their numbers."""


def compiled(sql: str) -> Statement:
    """A statement with numbers in the place of names."""
    names = tuple(dict.fromkeys(re.findall(_NAMED, sql)))
    numbered = re.sub(_NAMED, lambda found: f"${names.index(found[1]) + 1}", sql)
    return Statement(sql=numbered.encode("utf-8"), names=names)


class PostgresConnection:
    """One connection to a database, and the port's `rows` over it."""

    def __init__(self, address: Address, statements: Statements, patience: Patience, application: str) -> None:
        """Connect; the server will know us as `application`.

        Raises:
            DatabaseUnusable: and its kinds.
        """
        self._address = address
        self._statements = statements
        self._compiled: dict[str, Statement] = {}
        self._patience = patience
        self._spoilt = False
        self.writable = False
        self.met = Met()
        self.written = False
        """Whether the open transaction has changed a row."""
        self.is_silent = False
        """Whether it was given up because an answer did not come in time."""
        answer_s = max(patience.answer_s, patience.wait_s)
        try:
            self._driver = connect(
                address.parameters,
                application=application,
                connect_s=min(_CONNECT_S, answer_s),
                answer_s=answer_s + _MARGIN_S,
            )
        except psycopg.Error as error:
            raise faults.not_connected(error, address) from None
        self._cursor = self._driver.cursor()
        try:
            self._refuse_what_is_too_old()
            bounds = f"""
                SET lock_timeout TO {int(patience.wait_s * 1000)};
                SET statement_timeout TO {int(answer_s * 1000)};
                SET idle_in_transaction_session_timeout TO {int(answer_s * 1000)};
            """
            self._seat = os.urandom(8).hex()
            mark = f"SELECT set_config('watchkeeper.seat', '{self._seat}', false);"
            self.server_pid = int(self.batch(_SETTINGS + bounds + mark + _PID)[0][0] or 0)
        except BaseException:
            self.close()
            raise

    def _refuse_what_is_too_old(self) -> None:
        if self._driver.info.server_version < OLDEST_SERVER:
            raise DatabaseUnusable(
                f"The database server of {self._address} is too old; PostgreSQL {OLDEST_SERVER // 10_000} is needed.",
                hint="Upgrade the server, or use another one.",
            )
        if self._driver.info.parameter_status("server_encoding") != "UTF8":
            raise DatabaseUnusable(
                f"The database {self._address} does not keep texts as UTF-8.",
                hint="Make it with `createdb --encoding=UTF8 --template=template0`.",
            )

    @property
    def alive(self) -> bool:
        """False once the connection is known to be gone."""
        return not self._driver.closed

    @property
    def usable(self) -> bool:
        """Whether the next transaction can use it."""
        return self.alive and not self._spoilt and not self._in_transaction

    @property
    def _in_transaction(self) -> bool:
        """Whether a transaction is open, failed or not."""
        return self._driver.pgconn.transaction_status != TransactionStatus.IDLE

    @property
    def is_relayed(self) -> bool:
        """Whether something stands between us and the server that answers in its name."""
        return self.server_pid != self._driver.info.backend_pid

    def refuse_pooled(self, other: PostgresConnection) -> None:
        """Where something stands between: does each of two connections keep a server's process to itself? Raises DatabaseUnusable."""
        pids = (self.server_pid, other.server_pid)
        shared = pids[0] == pids[1]
        for _ in range(_LOOKS):
            if shared:
                raise faults.pooled(self._address)
            try:
                now = int(other.batch("BEGIN;" + _PID)[0][0] or 0)
                shared = (int(self.batch(_PID)[0][0] or 0), now) != pids
            finally:
                _ = other.roll_back()
        if shared:
            raise faults.pooled(self._address)

    def close(self) -> None:
        """Let go of it, whatever state it is in."""
        self._driver.close()

    def begin(self, *, write: bool, durable: bool = True) -> tuple[int, int, int]:
        """Begin a transaction, for a writing one after waiting for our turn; tells how many migrations there were, the newest one's number, and the time.

        Raises:
            psycopg.errors.UndefinedTable: there are no tables of Watchkeeper; the transaction is open, but spoilt.
            DatabaseUnusable: and its kinds. Nothing was begun.
        """
        sql = _BEGIN_READ if not write else _BEGIN_WRITE + ("" if durable else _NOT_DURABLE)
        count, number, time_us, seat = self._begin(sql + _NUMBER, write=write)[0]
        if seat != self._seat:
            self._spoilt = True
            raise faults.pooled(self._address)
        return int(count or 0), int(number or 0), int(time_us or 0)

    def begin_migration(self) -> None:
        """Begin a transaction that makes or changes the schema, after waiting for our turn. Raises DatabaseUnusable and its kinds."""
        _ = self._begin(_BEGIN_WRITE, write=True)
        self.take_time()

    def take_time(self) -> None:
        """The open transaction may take long. The connection is used for nothing else afterwards. Raises DatabaseUnusable and its kinds."""
        self._driver.answer_s = _MIGRATION_S + _MARGIN_S
        bound = int(_MIGRATION_S * 1000)
        _ = self.batch(
            f"SET LOCAL statement_timeout TO {bound}; SET LOCAL idle_in_transaction_session_timeout TO {bound};"
        )

    def _begin(self, sql: str, *, write: bool) -> list[Row]:
        self.writable, self.written = write, False
        try:
            return _rows(self._send(sql))
        except psycopg.errors.UndefinedTable:
            raise
        except psycopg.Error as error:
            self._give_up(error, waited=write)

    def commit(self, name: str) -> None:
        """Commit the open transaction, which is called `name`.

        Raises:
            DatabaseUnusable: and its kinds. Nothing was changed, or the message says that this is not known.
        """
        over = WatchkeeperError(f"The transaction '{name}' went on after a refused statement: nothing was written.")
        if not self._in_transaction:
            raise over
        crashpoint(f"tx.{name}.before_commit")
        try:
            done = self._send(_COMMIT_WRITTEN if self.written else "COMMIT").statusmessage
        except psycopg.errors.InFailedSqlTransaction:
            raise over from None
        except psycopg.Error as error:
            if not self.alive:
                raise faults.unknown(name, self._address, error) from None
            self._give_up(error)
        if done != "COMMIT":  # an error inside was swallowed, and the server has undone everything
            raise over
        crashpoint(f"tx.{name}.after_commit")
        if self.written:
            with contextlib.suppress(psycopg.Error):  # a hint: who does not get it finds out by looking
                _ = self._send(_NOTIFY)

    def roll_back(self) -> bool:
        """Undo the open transaction, if there is one. False: that did not work, the connection is good for nothing."""
        if self.alive and self._in_transaction:
            with contextlib.suppress(psycopg.Error):
                # psycopg gives up its prepared statements at each ROLLBACK; where nothing can be written COMMIT is the same.
                _ = self._send("ROLLBACK" if self.writable else "COMMIT")
        return self.usable

    def batch(self, sql: str) -> list[Row]:
        """Run several statements that have no parameters, and return the rows of the last one. Raises DatabaseUnusable and its kinds."""
        try:
            return _rows(self._send(sql))
        except psycopg.Error as error:
            self._give_up(error)

    def query(self, sql: str, values: Mapping[str, SqlValue] | None = None) -> list[Row]:
        """All rows of the answer to some SQL.

        Raises:
            RowConflict: a unique or foreign key stands against it.
            DatabaseUnusable: and its kinds.
        """
        return _rows(self._ask(compiled(sql), values or {}))

    def run(self, name: str, /, **values: SqlValue) -> int:
        changed = max(0, self._named(name, values).rowcount)
        if changed == 0 and conflicts_without_row(self._statements[name]):
            raise RowConflict(f"{name}: a key is taken")
        return changed

    def one(self, name: str, /, **values: SqlValue) -> Row | None:
        found = _rows(self._named(name, values))
        return found[0] if found else None

    def all(self, name: str, /, **values: SqlValue) -> list[Row]:
        return _rows(self._named(name, values))

    def _named(self, name: str, values: Mapping[str, SqlValue]) -> psycopg.Cursor[TupleRow]:
        statement = self._compiled.get(name)
        if statement is None:
            statement = self._compiled[name] = compiled(self._statements[name])
        return self._ask(statement, values)

    def _ask(self, statement: Statement, values: Mapping[str, SqlValue]) -> psycopg.Cursor[TupleRow]:
        try:
            done = self._cursor.execute(statement.sql, [values[one] for one in statement.names])
        except (psycopg.errors.UniqueViolation, psycopg.errors.ForeignKeyViolation) as refused:
            raise RowConflict(self._address.scrub(faults.describe(refused))) from None
        except psycopg.Error as error:
            self._give_up(error, waited=True)
        if done.rowcount > 0 and not (done.statusmessage or "").startswith("SELECT"):
            self.written = True
        return done

    def _send(self, sql: str) -> psycopg.Cursor[TupleRow]:
        """Run several statements that have no parameters in one exchange. What is returned is at the result of the last one. Raises psycopg.Error."""
        done = self._cursor.execute(sql.encode("utf-8"), prepare=False)
        while done.nextset():
            pass
        return done

    def _give_up(self, error: psycopg.Error, *, waited: bool = False) -> NoReturn:
        """Say what an error means; after some of them the connection is not used again. `waited`: it may be that another program holds what we wait for."""
        if waited and isinstance(error, psycopg.errors.LockNotAvailable):
            raise self._busy() from None
        self.is_silent = isinstance(error, psycopg.errors.ConnectionTimeout)
        self._spoilt = self._spoilt or faults.spoils(error, writing=self.writable)
        raise faults.translate(error, self._address, writing=self.writable) from None

    def _busy(self) -> DatabaseBusy:
        """Another process holds what we wait for; name it, if the server does."""
        who = "another program"
        if self.roll_back():
            with contextlib.suppress(psycopg.Error, LookupError):
                pid, application = _rows(self._send(_HOLDER))[0]
                who = f"{application or 'another program'} (server process {pid})"
        return DatabaseBusy(
            f"The database {self._address} is held by {who} for more than {self._patience.wait_s:g} s.",
            hint="Nothing was changed. Try again; if that process hangs or is stopped (Ctrl-Z), continue or end it.",
        )


def _rows(done: psycopg.Cursor[TupleRow]) -> list[Row]:
    """The rows of a result; none where it has no rows."""
    return [] if done.rownumber is None else done.fetchall()
