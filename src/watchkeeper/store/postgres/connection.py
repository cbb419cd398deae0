"""A connection: what is set on it, how a transaction begins and ends on it, how its named statements are run.

A refused statement spoils a transaction in PostgreSQL, but a key that is taken is an ordinary answer that the adapters go on from. So an INSERT that may
meet a taken key ends in `ON CONFLICT DO NOTHING`, without naming the key: then nothing is refused, and that no row came in is the conflict.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from watchkeeper.crash import crashpoint
from watchkeeper.errors import DatabaseBusy, DatabaseUnusable, WatchkeeperError
from watchkeeper.ports.damage import Met
from watchkeeper.store.postgres import faults
from watchkeeper.store.postgres.wire import Lost, Refused, Wire, rows
from watchkeeper.store.rows import Row, RowConflict, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg.pq.abc import PGresult

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
_MAY_BE_TAKEN = re.compile(r"ON CONFLICT DO NOTHING;?\s*$")

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

# After a commit everybody who listens is told. The telling stands behind the COMMIT, in a transaction of its own: a NOTIFY inside would hold a lock of
# the whole server while the commit is synced, and whoever is not told finds out by looking.
_COMMIT_WRITTEN = """
UPDATE watchkeeper.counter SET last = last + 1 WHERE name = 'commit';
COMMIT;
NOTIFY watchkeeper;
"""

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

    sql: str
    names: tuple[str, ...]
    """Its parameters, in the order of their numbers."""
    may_be_taken: bool
    """No row inserted means that the key is taken."""


def compiled(sql: str) -> Statement:
    """A statement with numbers in the place of names."""
    names = tuple(dict.fromkeys(re.findall(_NAMED, sql)))
    numbered = re.sub(_NAMED, lambda found: f"${names.index(found[1]) + 1}", sql)
    return Statement(sql=numbered, names=names, may_be_taken=_MAY_BE_TAKEN.search(sql) is not None)


class Connection:
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
        answer_s = max(patience.answer_s, patience.wait_s)
        try:
            self.wire = Wire(
                address.parameters,
                application=application,
                connect_s=min(_CONNECT_S, answer_s),
                answer_s=answer_s + _MARGIN_S,
            )
        except Lost as lost:
            raise faults.not_connected(lost, address) from None
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
        if self.wire.server_version < OLDEST_SERVER:
            raise DatabaseUnusable(
                f"The database server of {self._address} is too old; PostgreSQL {OLDEST_SERVER // 10_000} is needed.",
                hint="Upgrade the server, or use another one.",
            )
        if self.wire.parameter("server_encoding") != "UTF8":
            raise DatabaseUnusable(
                f"The database {self._address} does not keep texts as UTF-8.",
                hint="Make it with `createdb --encoding=UTF8 --template=template0`.",
            )

    @property
    def usable(self) -> bool:
        """Whether the next transaction can use it."""
        return self.wire.alive and not self._spoilt and not self.wire.in_transaction

    @property
    def is_relayed(self) -> bool:
        """Whether something stands between us and the server that answers in its name."""
        return self.server_pid != self.wire.server_pid

    def refuse_pooled(self, other: Connection) -> None:
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
        self.wire.close()

    def begin(self, *, write: bool, durable: bool = True) -> tuple[int, int, int]:
        """Begin a transaction, for a writing one after waiting for our turn; tells how many migrations there were, the newest one's number, and the time.

        Raises:
            Refused: with `NO_SUCH_TABLE` there is nothing of ours; the transaction is open, but spoilt.
            Lost: the connection is gone; nothing was begun.
            DatabaseUnusable: and its kinds. Nothing was begun.
        """
        sql = _BEGIN_READ if not write else _BEGIN_WRITE + ("" if durable else _NOT_DURABLE)
        count, number, time_us, seat = self._begin(sql + _NUMBER, write=write)[0]
        if seat != self._seat:
            self._spoilt = True
            raise faults.pooled(self._address)
        return int(count or 0), int(number or 0), int(time_us or 0)

    def begin_migration(self) -> None:
        """Begin a transaction that makes or changes the schema, after waiting for our turn. Raises Lost, and DatabaseUnusable and its kinds."""
        _ = self._begin(_BEGIN_WRITE, write=True)
        self.take_time()

    def take_time(self) -> None:
        """The open transaction may take long. The connection is used for nothing else afterwards. Raises DatabaseUnusable and its kinds."""
        self.wire.answer_s = _MIGRATION_S + _MARGIN_S
        bound = int(_MIGRATION_S * 1000)
        _ = self.batch(
            f"SET LOCAL statement_timeout TO {bound}; SET LOCAL idle_in_transaction_session_timeout TO {bound};"
        )

    def _begin(self, sql: str, *, write: bool) -> list[Row]:
        self.writable, self.written = write, False
        try:
            return rows(self.wire.batch(sql)[-1])
        except Refused as refused:
            if refused.sqlstate == faults.NO_SUCH_TABLE:
                raise
            if refused.sqlstate == faults.WAITED_TOO_LONG and write:
                raise self._busy() from None
            self._give_up(refused)

    def commit(self, name: str) -> None:
        """Commit the open transaction, which is called `name`.

        Raises:
            DatabaseUnusable: and its kinds. Nothing was changed, or the message says that this is not known.
        """
        over = WatchkeeperError(f"The transaction '{name}' went on after a refused statement: nothing was written.")
        if not self.wire.in_transaction:
            raise over
        crashpoint(f"tx.{name}.before_commit")
        try:
            done = [_tag(result) for result in self.wire.batch(_COMMIT_WRITTEN if self.written else "COMMIT")]
        except Refused as refused:
            if "COMMIT" not in refused.tags:
                if refused.sqlstate == faults.SPOILT_ALREADY:
                    raise over from None
                if not self.wire.alive:
                    raise faults.unknown(name, self._address, str(refused)) from None
                self._give_up(refused)
            done = list(refused.tags)
        except Lost as lost:
            if "COMMIT" not in lost.tags:
                raise faults.unknown(name, self._address, str(lost)) from None
            done = list(lost.tags)
        if "COMMIT" not in done:  # an error inside was swallowed, and the server has undone everything
            raise over
        crashpoint(f"tx.{name}.after_commit")

    def roll_back(self) -> bool:
        """Undo the open transaction, if there is one. False: that did not work, the connection is good for nothing."""
        if self.wire.alive and self.wire.in_transaction:
            with contextlib.suppress(Lost, Refused):
                _ = self.wire.batch("ROLLBACK")
        return self.usable

    def batch(self, sql: str) -> list[Row]:
        """Run several statements that have no parameters, and return the rows of the last one. Raises DatabaseUnusable and its kinds."""
        try:
            return rows(self.wire.batch(sql)[-1])
        except Refused as refused:
            self._give_up(refused)
        except Lost as lost:
            raise faults.lost(lost, self._address) from None

    def query(self, sql: str, values: Mapping[str, Value] | None = None) -> list[Row]:
        """All rows of the answer to some SQL.

        Raises:
            RowConflict: a unique or foreign key stands against it.
            DatabaseUnusable: and its kinds.
        """
        import hashlib  # noqa: PLC0415 - only for SQL without a name of its own

        # A server cuts the names of prepared statements off, so the text itself cannot be the name.
        name = hashlib.blake2b(sql.encode("utf-8"), digest_size=16).hexdigest()
        return rows(self._ask(name, compiled(sql), values or {}))

    def run(self, name: str, /, **values: Value) -> int:
        """Run a statement that changes rows, and return how many."""
        statement = self._statement(name)
        changed = self._ask(name, statement, values).command_tuples or 0
        if changed == 0 and statement.may_be_taken:
            raise RowConflict(f"{name}: a key is taken")
        return changed

    def one(self, name: str, /, **values: Value) -> Row | None:
        """The first row of a statement's answer."""
        found = rows(self._ask(name, self._statement(name), values))
        return found[0] if found else None

    def all(self, name: str, /, **values: Value) -> list[Row]:
        """All rows of a statement's answer."""
        return rows(self._ask(name, self._statement(name), values))

    def _statement(self, name: str) -> Statement:
        statement = self._compiled.get(name)
        if statement is None:
            statement = self._compiled[name] = compiled(self._statements[name])
        return statement

    def _ask(self, name: str, statement: Statement, values: Mapping[str, Value]) -> PGresult:
        try:
            result = self.wire.ask(name, statement.sql, [values[one] for one in statement.names])
        except Refused as refused:
            if refused.sqlstate in {faults.TAKEN, faults.MISSING}:
                raise RowConflict(self._address.scrub(str(refused))) from None
            if refused.sqlstate == faults.WAITED_TOO_LONG:
                raise self._busy() from None
            self._give_up(refused)
        except Lost as lost:
            raise faults.lost(lost, self._address) from None
        if not _tag(result).startswith("SELECT") and (result.command_tuples or 0) > 0:
            self.written = True
        return result

    def _give_up(self, refused: Refused) -> NoReturn:
        """Say what the server's refusal means; after some of them the connection is not used again."""
        if faults.spoils(refused.sqlstate) and (self.writable or refused.sqlstate != faults.READ_ONLY):
            self._spoilt = True
        raise faults.translate(refused, self._address, writing=self.writable) from None

    def _busy(self) -> DatabaseBusy:
        """Somebody holds what we wait for; say who, if the server tells."""
        who = "another program"
        if self.roll_back():
            with contextlib.suppress(Lost, Refused, LookupError):
                pid, application = rows(self.wire.batch(_HOLDER)[-1])[0]
                who = f"{application or 'another program'} (server process {pid})"
        return DatabaseBusy(
            f"The database {self._address} is held by {who} for more than {self._patience.wait_s:g} s.",
            hint="Nothing was changed. Try again; if that process hangs or is stopped (Ctrl-Z), continue or end it.",
        )


def _tag(result: PGresult) -> str:
    """The command that a result answers, with its count."""
    return (result.command_status or b"").decode("ascii", "replace")
