"""`SqliteStore`: the port over one connection.

A write transaction, step by step:

    write lock ─▶ is the file still ours ─▶ BEGIN IMMEDIATE ─▶ is the schema still ours ─▶ work ─▶ COMMIT ─▶ write lock free

A crash before COMMIT leaves nothing behind, a crash after it everything; SQLite sees to that. A caller that missed the answer asks again, and what must not
happen twice is kept from it by the rows themselves: ids, fences, versions, operations.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Self, TypeVar

from watchkeeper.crash import crashpoint
from watchkeeper.errors import DatabaseCorrupt, DatabaseNewer, DatabaseUnusable, NoDatabase, RecordTorn
from watchkeeper.ports.damage import Met
from watchkeeper.store.filesystem import refuse_network_filesystem
from watchkeeper.store.sqlite import newest
from watchkeeper.store.sqlite.connection import SqliteConnection, refuse_half_restored
from watchkeeper.store.sqlite.schema import APPLICATION_ID, PACKAGE, Schema, migrate, shipped_schema
from watchkeeper.store.sqlite.write_lock import WAIT_S, WriteLock
from watchkeeper.store.statements import Statements
from watchkeeper.store.tx import StoredTx
from watchkeeper.store.values import torn

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path


T = TypeVar("T")

_OF_A_RECORD = (
    "CHECK constraint failed in ",
    "NULL value in ",
    "TEXT value in ",
    "NUMERIC value in ",
    "non-INT value in ",
)
"""How SQLite's check begins to speak of a record, as opposed to a page or an index."""


class SqliteStore:
    """The database of one state directory. Threads may share it; their transactions take turns."""

    def __init__(
        self, path: Path, write_lock: WriteLock, schema: Schema, vfs: str | None, met: Met, *, anew: bool
    ) -> None:
        """Use `open` instead."""
        self._anew = anew
        self.met = met
        met.stores.add(self)
        self._path = path
        self._write_lock = write_lock
        self._schema = schema
        self._vfs = vfs
        self._statements = Statements(PACKAGE)
        self._writing = threading.Lock()
        self._using = threading.Lock()
        self._user: int | None = None
        self._connection: SqliteConnection | None = None
        self._closed = False
        self._mark = 0
        """Raised by each commit of our own and each new connection, neither of which SQLite's own mark tells of."""
        self._seen = 0

    @classmethod
    def open(  # noqa: PLR0913 - each is a choice of its own
        cls,
        path: Path,
        write_lock: Path,
        *,
        create: bool,
        upgrade: bool,
        wait_s: float = WAIT_S,
        schema: Schema | None = None,
        vfs: str | None = None,
        met: Met | None = None,
        anew: bool = False,
    ) -> Self:
        """Open the database file `path`, whose writers take turns at the file `write lock`.

        Args:
            path: the database file.
            write_lock: the file of the write lock.
            create: make the database if there is none. Reading commands never do.
            upgrade: bring an older database up to date. Only the daemon does.
            wait_s: how long a writer waits for its turn.
            schema: what the database should look like.
            vfs: SQLite's name for another way to reach files.
            met: where records are noted that cannot be read; without it the store has a place of its own.
            anew: a new database is wanted where an earlier one was, because everything is about to be copied into it.

        Raises:
            NoDatabase: there is none and it was not to be made.
            DatabaseNewer: a newer version has been here.
            DatabaseUnusable: and its other kinds.
        """
        refuse_network_filesystem(path.parent)
        store = cls(path, WriteLock(write_lock, wait_s), schema or shipped_schema(), vfs, met or Met(), anew=anew)
        try:
            if create and _is_empty(path):
                store._bring_up(from_nothing=True)
            try:
                store._check_file()
            except NoDatabase:
                if not create:
                    raise
                store._bring_up(from_nothing=True)
            except _Older:
                if not upgrade:
                    raise
                store._bring_up(from_nothing=False)
        except BaseException:
            store.close()
            raise
        return store

    def transact(self, name: str, work: Callable[[StoredTx], T], *, durable: bool = True) -> T:
        self._refuse_nesting()
        with self._writing, self._write_lock, self._use(turn=True) as connection:
            connection.set("synchronous", "FULL" if durable else "NORMAL")
            connection.set("query_only", "OFF")
            before = connection.written
            with self._transaction(connection, "BEGIN IMMEDIATE"):
                self._write_lock.goes_on()
                connection.writable = True
                self._check_schema(connection)
                result = work(StoredTx(connection))
                now = connection.newest() if durable and connection.written != before else None
                connection.commit(name)
                if connection.written != before:
                    self._mark += 1
                if now is not None:
                    newest.write(self._path, now)
            return result

    def read(self, work: Callable[[StoredTx], T]) -> T:
        if self._has_lost_its_log():
            self.transact("save_log", lambda _: None, durable=False)
        with self._use() as connection:
            connection.set("query_only", "ON")
            with self._transaction(connection, "BEGIN"):
                connection.writable = False
                self._check_schema(connection)
                return work(StoredTx(connection))

    def changed(self, since: int) -> tuple[bool, int]:
        with self._use() as connection:
            self._seen = connection.pragma("data_version")
            mark = self._mark + self._seen
        return mark != since, mark

    def check(self, *, thorough: bool = False) -> None:
        """Read the whole file and look for damage; takes seconds for a large one.

        Raises:
            RecordTorn: records break the rules of their tables, and the file is whole.
            DatabaseCorrupt: there is some.
        """
        with self._use() as connection:
            connection.be_patient()
            found = connection.query("PRAGMA integrity_check" if thorough else "PRAGMA quick_check")
            broken = connection.query("PRAGMA foreign_key_check") if thorough else []
        wrong = [str(row[0]) for row in found if row != ("ok",)]
        if wrong and all(detail.startswith(_OF_A_RECORD) for detail in wrong):
            raise torn(wrong[0].rpartition(" in ")[2].partition(".")[0], "?", wrong[0])
        if wrong or broken:
            detail = wrong[0] if wrong else "records refer to missing ones"
            raise DatabaseCorrupt(
                f"The database '{self._path}' is damaged: {detail}.",
                hint="`wk restore FILE` puts a backup in its place; the damaged file is kept.",
            )

    @property
    def is_shared(self) -> bool:
        """Its file is on this machine, and so is everybody who works on it."""
        return False

    def time(self) -> None:
        """There is no other clock than this machine's."""

    def close(self) -> None:
        with self._using:
            self._closed = True
            self._drop()
        with self._writing:
            self._write_lock.close()

    def let_go(self) -> None:
        """Let go of a log that has lost its name, unless it is being used now."""
        if self._using.acquire(blocking=False):
            try:
                if self._connection is not None and self._connection.log_is_gone:
                    self._drop()
            finally:
                self._using.release()

    def _refuse_nesting(self) -> None:
        if self._user == threading.get_ident():
            raise RuntimeError("a transaction inside a transaction")

    @contextlib.contextmanager
    def _use(self, *, turn: bool = False) -> Generator[SqliteConnection, None, None]:
        """Have the connection to ourselves, opened again if the last one was given up. `turn`: it is our turn to write."""
        self._refuse_nesting()
        with self._using:
            self._user = threading.get_ident()
            try:
                if self._closed:
                    raise DatabaseUnusable("The database is closed.")
                if turn and self._connection is not None and self._connection.log_is_gone:
                    self._connection.save_log()
                    self._drop()
                    self.met.lost_log = True
                    for other in list(self.met.stores):
                        if other is not self:
                            other.let_go()
                if self._connection is None and self.met.lost_log:
                    raise DatabaseUnusable(
                        f"The log of the database '{self._path}' was deleted while it was open; what it held was saved.",
                        hint="`wk daemon restart` continues with it; agents continue meanwhile.",
                    )
                if self._connection is None:
                    self._connection = SqliteConnection(
                        self._path, self._statements, self._write_lock.wait_s, self._vfs, self.met
                    )
                    self._connection.on_wait = self._write_lock.waits
                yield self._connection
            finally:
                self._user = None

    @contextlib.contextmanager
    def _transaction(self, connection: SqliteConnection, begin: str) -> Generator[None, None, None]:
        """What was begun and not committed inside is undone. A connection that cannot undo, or whose file is gone, is given up."""
        connection.be_patient()
        good = False
        try:
            connection.check_place()
            _ = connection.query(begin)
            good = True
            yield
        except RecordTorn as problem:
            self.met.note(problem)
            raise
        except DatabaseCorrupt as damaged:
            self.met.whole = str(damaged)
            good = False
            raise
        except DatabaseUnusable:
            good = False
            raise
        finally:
            if not connection.roll_back() or not good:
                self._drop()

    def _has_lost_its_log(self) -> bool:
        """Whether a writer's turn is needed first. A look without the lock: at worst a turn is taken in vain."""
        connection = self._connection
        return connection is not None and connection.log_is_gone

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            # The next connection counts from one again: the mark must not come back to a value that was given before.
            self._mark += self._seen + 1
            self._seen = 0

    def _check_schema(self, connection: SqliteConnection) -> None:
        number = connection.pragma("user_version")
        if number == self._schema.number:
            connection.refuse_lost()
            return
        if number > self._schema.number:
            from watchkeeper.store.marks import MARKED, refusal  # noqa: PLC0415 - hardly any database is marked

            if number == MARKED:
                raise refusal(connection, f"'{self._path}'")
            raise DatabaseNewer(
                f"The database '{self._path}' was written by a newer version of Watchkeeper.",
                hint="Upgrade Watchkeeper; nothing was changed.",
            )
        if number == 0:
            if not connection.query("SELECT 1 FROM sqlite_schema LIMIT 1"):
                if not self._anew:
                    newest.refuse_deleted(self._path)
                raise NoDatabase(
                    f"The database '{self._path}' is empty.", hint="`wk run` makes it with the first task."
                )
            raise self._foreign()
        raise _Older(
            f"The database '{self._path}' is of an older version.", hint="`wk daemon start` brings it up to date."
        )

    def _check_file(self) -> None:
        """See whether the database can be used as it is."""
        with self._use() as connection, self._transaction(connection, "BEGIN"):
            if connection.pragma("application_id") != (APPLICATION_ID if connection.pragma("user_version") else 0):
                raise self._foreign()
            self._check_schema(connection)

    def _foreign(self) -> DatabaseUnusable:
        return DatabaseUnusable(
            f"'{self._path}' is not a database of Watchkeeper.", hint="Move that file away; nothing was changed."
        )

    def _bring_up(self, *, from_nothing: bool) -> None:
        """Make or upgrade the database, unless another process did so while this one waited for its turn."""
        with self._writing, self._write_lock:
            if from_nothing:
                self._make_file()
            with self._use() as connection:
                connection.set("synchronous", "FULL")
                connection.set("query_only", "OFF")
                if connection.query("PRAGMA journal_mode=WAL") != [("wal",)]:
                    raise DatabaseUnusable(
                        f"'{self._path}' is on a file system where SQLite cannot keep a write-ahead log.",
                        hint="Set WATCHKEEPER_HOME to a directory on a local disk.",
                    )
                with self._transaction(connection, "BEGIN IMMEDIATE"):
                    try:
                        self._check_schema(connection)
                    except (NoDatabase, _Older) as missing:
                        if isinstance(missing, NoDatabase) is not from_nothing:
                            raise
                        migrate(connection, self._schema)
                        connection.commit("migrate")

    def _make_file(self) -> None:
        """The file itself, for our user alone and durable under its name."""
        if not self._path.exists():
            refuse_half_restored(self._path)
            if not self._anew:
                newest.refuse_deleted(self._path)
        try:
            crashpoint("database.file.before")
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.close(fd)
            directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
            crashpoint("database.file.after")
        except OSError as error:
            raise DatabaseUnusable(
                f"The database '{self._path}' cannot be made ({error.strerror}).",
                hint="Look at the permissions of the state directory.",
            ) from error


class _Older(DatabaseUnusable):
    """The database is of an older version."""


def _is_empty(path: Path) -> bool:
    """Whether there is nothing in that file, or no file."""
    try:
        return path.stat().st_size == 0
    except FileNotFoundError:
        return True
    except OSError:
        return False
