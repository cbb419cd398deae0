"""A connection: how it is opened, what is set on it, how its named statements are run."""

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import apsw

from watchkeeper.crash import crashpoint
from watchkeeper.errors import DatabaseBusy, DatabaseCorrupt, DatabaseUnusable, NoDatabase
from watchkeeper.ports.damage import Met
from watchkeeper.store.rows import Row, RowConflict, SqlValue
from watchkeeper.store.sqlite import newest
from watchkeeper.store.sqlite.faults import conflict, corrupt, in_our_words
from watchkeeper.store.statements import Statements, conflicts_without_row

OLDEST_SQLITE = (3, 51, 3)
"""Older ones have a bug with checkpoints of the write-ahead log that can damage a database."""

Identity = tuple[int, int]
"""The device and inode of a file."""

_LONGEST_NAP_S = 0.02
_LONG_NAPS = 8
"""So many waits in a row, which is an eighth of a second, are worth saying."""
_NEWEST = f"SELECT (SELECT database_id FROM meta), (SELECT sum(min(seq, {1 << 59})) FROM sqlite_sequence)"  # noqa: S608 - a torn number must not overflow the sum
_LARGEST = " UNION ALL ".join(
    f"SELECT '{table}', (SELECT max({key}) FROM {table}), (SELECT seq FROM sqlite_sequence WHERE name = '{table}')"  # noqa: S608 - names of our own
    for table, key in (("task", "seq"), ("authorisation", "seq"), ("journal", "seq"), ("outbox", "id"), ("lane", "id"))
)

_LAST = (1 << 63) - 1


def refuse_old_sqlite(version: str | None = None) -> None:
    """Refuse a SQLite that may damage the database.

    Raises:
        DatabaseUnusable: it is too old.
    """
    version = version or apsw.sqlite_lib_version()
    if tuple(int(part) for part in version.split(".")[:3]) < OLDEST_SQLITE:
        needed = ".".join(str(part) for part in OLDEST_SQLITE)
        raise DatabaseUnusable(
            f"SQLite {version} is too old; {needed} is needed.",
            hint="Upgrade the Python package apsw, which brings its own SQLite.",
        )


def restoring(database: Path) -> Path:
    """The copy of a backup that is about to become the database."""
    return database.with_name(f"{database.name}.restoring")


def refuse_half_restored(path: Path) -> None:
    """Where the database is missing: was a restore interrupted between the old one and the new one?

    Raises:
        DatabaseUnusable: it was.
    """
    if restoring(path).exists():
        raise DatabaseUnusable(
            f"A restore was interrupted: there is no database '{path}' now.",
            hint="Type the `wk restore` again. What was there before is kept beside it.",
        )


class SqliteConnection:
    """One connection to a database file that exists, and the port's `rows` over it."""

    def __init__(
        self, path: Path, statements: Statements, wait_s: float, vfs: str | None = None, met: Met | None = None
    ) -> None:
        """Open it; wait at most `wait_s` seconds for the locks of other programs.

        Raises:
            NoDatabase: there is no file.
            DatabaseUnusable: it cannot be opened.
        """
        refuse_old_sqlite()
        self._path = path
        self._statements = statements
        self._set: dict[str, int | str] = {}
        self._wait_s = wait_s
        self._patience_until = 0.0
        self.writable = False
        self.on_wait: Callable[[], None] = lambda: None
        """Called once it has waited a moment for another program's lock."""
        self.met = met or Met()
        self._kept = newest.read(path)
        self._log: tuple[Identity | None, Identity | None] = (None, None)
        self._vfs = vfs
        self._is_lost = False
        if not path.exists():
            refuse_half_restored(path)
            if not path.exists():  # a restore may have put the new one in its place meanwhile
                newest.refuse_deleted(path)
                raise NoDatabase(f"There is no database '{path}' yet.", hint="`wk run` makes it with the first task.")
        self._refuse_old_index()
        with in_our_words(path):
            self._raw = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=vfs)
            self._raw.set_busy_handler(self._nap)
            # One plan per statement, whatever its values: else SQLite plans a join anew for each value, which costs more than the join.
            _ = self._raw.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        try:
            self._identity = _identity(path)
            self._prepare()
            # From the first look on SQLite holds a lock by which a restore sees us. What has the name after it keeps the name for as long as we are there.
            _ = self.pragma("user_version")
            self.check_place()
            self._log = _log_identity(path)
            self._refuse_old_index()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        self.be_patient()
        for name, value in (("foreign_keys", "ON"), ("trusted_schema", "OFF"), ("temp_store", "MEMORY")):
            self.set(name, value)

    def set(self, pragma: str, value: int | str) -> None:
        """Set a pragma of this connection, if it is not set so already. Not inside a transaction."""
        if self._set.get(pragma) != value:
            _ = self.query(f"PRAGMA {pragma}={value}")
            self._set[pragma] = value

    def pragma(self, pragma: str) -> int:
        """The number that a pragma tells."""
        value = self.query(f"PRAGMA {pragma}")[0][0]
        return value if isinstance(value, int) else 0

    @property
    def written(self) -> int:
        """How many rows this connection has ever written."""
        return self._raw.total_changes()

    def be_patient(self) -> None:
        """Begin anew to count the time that we wait for other programs' locks."""
        self._patience_until = time.monotonic() + self._wait_s

    def _nap(self, naps: int) -> bool:
        """SQLite asks whether to continue waiting. In Python, not by SQLite's own timeout, so that Ctrl-C works meanwhile."""
        if naps == _LONG_NAPS:
            self.on_wait()
        return nap(naps, self._patience_until)

    def check_place(self) -> None:
        """Make sure that the file under our path is still the one that we have open.

        Raises:
            DatabaseUnusable: it was deleted or replaced.
        """
        if not self._is_in_place():
            raise DatabaseUnusable(
                f"The database '{self._path}' was deleted or replaced while it was open: nothing was changed.",
                hint="Put the file back, or restart the daemon to begin with the new one.",
            )

    def _is_in_place(self) -> bool:
        try:
            return _identity(self._path) == self._identity
        except DatabaseUnusable:
            return False

    def refuse_lost(self) -> None:
        """In an open transaction: does the database still hold all that it held? Asked once. Raises DatabaseUnusable."""
        kept, self._kept = self._kept, None
        if kept is not None:
            with contextlib.suppress(DatabaseCorrupt):  # the reader of a damaged record gets the error
                found = self.newest()
                if kept.given > found.given and any((last or 0) < (largest or 0) for _, largest, last in self._given()):
                    return  # what is kept of the numbers is torn: it tells nothing of what was lost, and `store repair` names it
                try:
                    newest.refuse_lost(self._path, kept, found)
                except DatabaseUnusable:
                    now = newest.read(self._path)
                    if now != kept:  # a restore put another database in its place since that was read
                        newest.refuse_lost(self._path, now, found)
                        return
                    self.check_place()  # a restore takes the log away before it puts another database in its place
                    if restoring(self._path).exists():
                        raise DatabaseUnusable(
                            f"The database '{self._path}' is being replaced by a restore: nothing was changed.",
                            hint="Try again when the restore is over.",
                        ) from None
                    raise

    def newest(self) -> newest.Newest:
        """How far the database has come, as the open transaction sees it."""
        database_id, given = self.query(_NEWEST)[0]
        return newest.Newest(str(database_id), int(given or 0))

    def _given(self) -> list[tuple[str, int | None, int | None]]:
        """By table, the largest number in it, and the last that was given."""
        return cast("list[tuple[str, int | None, int | None]]", self.query(_LARGEST))

    def _refuse_used_up(self) -> None:
        """SQLite calls a table full whose last number is the largest that there is. Raises DatabaseUnusable."""
        for table, largest, last in self._given():
            if max(largest or 0, last or 0) >= _LAST:
                raise DatabaseUnusable(
                    f"The numbers of the table '{table}' in the database '{self._path}' are used up: nothing was changed.",
                    hint=f"`wk store repair number:{table} --do mend` continues after the largest valid number.",
                )

    @property
    def log_is_gone(self) -> bool:
        """Whether the log that we have open, or its index, has lost its name: what is written now would be lost. Both stay while a process has them open."""
        return _log_identity(self._path) != self._log and self._has_a_log and self._is_in_place()

    @property
    def _has_a_log(self) -> bool:
        """Whether our log is known. It is not while the database is being made."""
        if self._log[0] is None:
            self._log = _log_identity(self._path)
            return False
        return True

    def save_log(self) -> None:
        """Bring what the nameless log holds into the database, unless another log was begun. It is our turn; the connection is of no use afterwards.

        The index loses its name, too: within one process all connections share it, and none may continue with this one and another log.
        """
        log, index = _log_identity(self._path)
        if log in {None, self._log[0]} or not Path(f"{self._path}-wal").stat().st_size:
            crashpoint("database.save_log.before")
            self.be_patient()
            ((busy, written, copied),) = self.query("PRAGMA wal_checkpoint(FULL)")
            if busy or written != copied:
                raise DatabaseBusy(
                    f"The log of the database '{self._path}' was deleted while it was open, and is in use: it could not be saved yet.",
                    hint="Nothing was changed; try again. Do not end the daemon before: what the log holds would be lost.",
                )
            crashpoint("database.save_log.after")
        if index is not None and index == self._log[1]:
            Path(f"{self._path}-shm").unlink(missing_ok=True)

    def _refuse_old_index(self) -> None:
        """Does a connection of this process still hold an index that has lost its name? We would share it. Raises DatabaseUnusable."""
        gone = f"{os.path.realpath(self._path)}-shm (deleted)"
        try:
            held = gone in Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            held = self._log[0] is not None and self._log[1] is None and self._vfs is None
        if held:
            self._is_lost = True
            raise DatabaseUnusable(
                f"The log of the database '{self._path}' was deleted while it was open; what it held was saved.",
                hint="Nothing was changed; try again in a moment.",
            )

    def close(self) -> None:
        """Close it, whatever state it is in."""
        with contextlib.suppress(apsw.Error):
            if self._is_lost or _log_identity(self._path) != self._log:
                # SQLite would delete the log by its name, which may be that of another one by now.
                _ = self._raw.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self._raw.close(force=True)

    def commit(self, name: str) -> None:
        """Commit the open transaction, which is called `name`. When this raises, nothing was changed."""
        crashpoint(f"tx.{name}.before_commit")
        with in_our_words(self._path):
            _ = self._raw.execute("COMMIT")  # pyright: ignore[reportUnknownMemberType] - apsw's stub
        crashpoint(f"tx.{name}.after_commit")

    def roll_back(self) -> bool:
        """Undo the open transaction, if there is one. False: that did not work, the connection is good for nothing."""
        try:
            if self._raw.in_transaction:
                _ = self._raw.execute("ROLLBACK")  # pyright: ignore[reportUnknownMemberType] - apsw's stub
        except apsw.Error:
            return False
        return True

    def take_time(self) -> None:
        """Nothing is bounded here."""

    def query(self, sql: str, values: Mapping[str, SqlValue] | None = None) -> list[Row]:
        """All rows of the answer to some SQL.

        Raises:
            RowConflict: a unique or foreign key stands against it.
            DatabaseUnusable: and its kinds.
        """
        with in_our_words(self._path):
            try:
                return self._rows(sql, values)
            except apsw.ConstraintError as error:
                raise conflict(error) from error
            except apsw.FullError:
                self._refuse_used_up()
                raise

    def run(self, name: str, /, **values: SqlValue) -> int:
        _ = self._named(name, values)
        changed = self._raw.changes()
        if changed == 0 and conflicts_without_row(self._statements[name]):
            raise RowConflict(f"{name}: a key is taken")
        return changed

    def one(self, name: str, /, **values: SqlValue) -> Row | None:
        found = self._named(name, values)
        return found[0] if found else None

    def all(self, name: str, /, **values: SqlValue) -> list[Row]:
        return self._named(name, values)

    def _named(self, name: str, values: Mapping[str, SqlValue]) -> list[Row]:
        try:
            return self.query(self._statements[name], values)
        except DatabaseCorrupt as damaged:
            raise DatabaseCorrupt(
                f"{damaged} It was met in '{name.partition('_')[0]}'.", hint=damaged.hint
            ) from damaged

    def _rows(self, sql: str, values: Mapping[str, SqlValue] | None) -> list[Row]:
        try:
            found = self._raw.execute(sql, values).fetchall()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - apsw's stub
        except UnicodeEncodeError:
            return self._rows(sql, {key: _storable(value) for key, value in (values or {}).items()})
        except UnicodeDecodeError:
            return self._rows_by_bytes(sql, values)
        return cast("list[Row]", found)

    def _rows_by_bytes(self, sql: str, values: Mapping[str, SqlValue] | None) -> list[Row]:
        """The rows of a query in which one text is not valid UTF-8: that one comes as bytes, which no record takes for a text, and all others as ever."""
        import apsw.ext  # noqa: PLC0415 - only for what is damaged

        question = sql.strip().rstrip(";")
        facts = apsw.ext.query_info(self._raw, question)  # pyright: ignore[reportUnknownMemberType] - apsw's stub
        if not facts.is_readonly:
            raise corrupt(self._path)
        names = [f"c{number}" for number in range(len(facts.description))]
        taken = ", ".join(
            f"CASE typeof({name}) WHEN 'text' THEN CAST({name} AS BLOB) ELSE {name} END" for name in names
        )
        again = f"WITH torn ({', '.join(names)}) AS ({question}) SELECT {taken} FROM torn"  # noqa: S608 - names of our own
        found = cast("list[Row]", self._raw.execute(again, values).fetchall())  # pyright: ignore[reportUnknownMemberType] - apsw's stub
        return [tuple(_text(value) for value in row) for row in found]


def nap(naps: int, until: float) -> bool:
    """Sleep for a moment that grows with the number of `naps`; False, without sleep, at the monotonic time `until` and after it.

    SQLite and file locks do not notify a waiting process of their release, so it must look again.
    """
    if time.monotonic() >= until:
        return False
    time.sleep(min(_LONGEST_NAP_S, 0.0005 * 2 ** min(naps, 8)))
    return True


def _text(value: SqlValue) -> SqlValue:
    """Bytes as the text that they are, if they are one. No column holds bytes."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value


def _storable(value: SqlValue) -> SqlValue:
    """A text with lone surrogates (a broken file name in a message, say) is stored with them spelt out."""
    return value.encode("utf-8", "backslashreplace").decode("utf-8") if isinstance(value, str) else value


def _identity(path: Path) -> Identity:
    try:
        found = os.stat(path)  # noqa: PTH116 - at every transaction: half the cost of Path.stat
    except OSError as error:
        raise DatabaseUnusable(f"The database '{path}' cannot be read ({error.strerror}).") from error
    return found.st_dev, found.st_ino


def _log_identity(path: Path) -> tuple[Identity | None, Identity | None]:
    """Which files the log and its index are."""
    return _identity_or_none(f"{path}-wal"), _identity_or_none(f"{path}-shm")


def _identity_or_none(path: str) -> Identity | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - as above
    except OSError:
        return None
    return found.st_dev, found.st_ino
