"""Putting a backup in the place of the database.

The copy is made beside the database as `wk.db.restoring`, brought up to date, and folded into one file without a log. Then, while the daemon is held off and
no process has a turn or has the database open:

    the old database's log is folded into it ─▶ linked as wk.db.before-restore-… ─▶ `wk.db.restoring` renamed to `wk.db`

That rename is the whole step: before it the old database is there, after it the new one. A write-ahead log belongs to whatever lies under the database's name,
so one that still holds something must never lie beside the new file. It would only if the old database is so damaged that its log cannot be folded. Then the
old file loses its name first and its log after it, both kept under the other name; in between there is no database, and because `wk.db.restoring` is there,
every command says that a restore was interrupted instead of making a new database.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from watchkeeper.crash import crashpoint
from watchkeeper.errors import DatabaseBusy, DatabaseUnusable, WatchkeeperError
from watchkeeper.flock import holder, try_lock
from watchkeeper.store.filesystem import refuse_network_filesystem
from watchkeeper.store.sqlite.connection import restoring
from watchkeeper.store.sqlite.copying import copy, facts_of, make_private, number, opened, rows
from watchkeeper.store.sqlite.newest import file_of
from watchkeeper.store.sqlite.schema import PACKAGE, shipped_schema
from watchkeeper.store.sqlite.store import SqliteStore
from watchkeeper.store.sqlite.write_lock import WriteLock
from watchkeeper.store.statements import read_text

if TYPE_CHECKING:
    from collections.abc import Generator

    from watchkeeper.ports.backup import BackupFacts, Progress

STEP = 1_000_000
"""More numbers than can be given between a backup and its restore."""

_LOCKS_AT, _LOCKS = 0x40000000, 512
"""The bytes of a database file on which SQLite keeps its locks: a process that has a database with a log open holds a shared one there."""

_POLL_S = 0.02


class StagedBackup:
    """The copy that is about to become the database."""

    facts: BackupFacts

    def __init__(self, database: Path, write_lock: Path, wait_s: float) -> None:
        """Use `copy_from` next."""
        self._database = database
        self._copy = restoring(database)
        self._write_lock = write_lock
        self._wait_s = wait_s
        self._store: SqliteStore | None = None

    def copy_from(self, file: Path, progress: Progress) -> None:
        """Copy a backup and bring the copy up to date.

        Raises:
            DatabaseNewer: a newer version of Watchkeeper made it.
            DatabaseUnusable: and its kinds.
        """
        refuse_network_filesystem(self._database.parent)
        if file.resolve() == self._copy.resolve():
            raise DatabaseUnusable("That is the copy of an interrupted restore.", hint="Name the backup itself.")
        self._forget()
        try:
            make_private(self._copy)
        except OSError as error:
            raise _unwritable(self._copy, error) from error
        copy(file, self._copy, progress)
        self.facts = replace(facts_of(self._copy, newest_schema=shipped_schema().number, private=True), path=file)
        with opened(self._copy) as connection:
            _ = rows(connection, "PRAGMA journal_mode=WAL")
        self._store = SqliteStore.open(self._copy, self._write_lock, create=False, upgrade=True)

    @property
    def store(self) -> SqliteStore:
        """The copy."""
        if self._store is None:
            raise DatabaseUnusable("The copy is closed.")
        return self._store

    def skip_numbers(self, seen: int) -> None:
        """Skip what may have been given after the backup."""
        with opened(self._copy) as connection:
            crashpoint("restore.numbers.before")
            _ = rows(connection, read_text(PACKAGE, "restore.sql"), {"seen": seen, "step": STEP})
            crashpoint("restore.numbers.after")

    def put_in_place(self, stamp: str) -> Path | None:
        """Make the copy the database, and return the name under which the old one is kept."""
        self._fold_copy()
        try:
            with WriteLock(self._write_lock, self._wait_s):
                if not os.path.lexists(self._database):
                    self._rename()
                    return None
                _fold(self._database)
                with _alone(self._database, self._wait_s):
                    kept = self._keep(stamp)
                    self._rename()
                return kept
        except OSError as error:
            raise _unwritable(self._database, error) from error

    def close(self) -> None:
        """Delete what was not put in place."""
        if self._store is not None:
            self._store.close()
            self._store = None
        # An interrupted restore is known by this file: where there is no database it stays.
        if self._database.exists():
            self._forget()

    def _fold_copy(self) -> None:
        """One file, complete in itself and on disk. Raises DatabaseUnusable."""
        if self._store is not None:
            self._store.close()
            self._store = None
        _fold(self._copy)
        if _size(_log(self._copy)):
            raise DatabaseUnusable(f"'{self._copy}' is open elsewhere.", hint="Nothing was changed; try again.")
        for name in _beside(self._copy):
            name.unlink(missing_ok=True)
        fd = os.open(self._copy, os.O_RDONLY | os.O_CLOEXEC)
        try:
            crashpoint("restore.sync.before")
            os.fsync(fd)
            crashpoint("restore.sync.after")
        finally:
            os.close(fd)

    def _keep(self, stamp: str) -> Path:
        """Give the old database, and what its log still holds, another name. Raises OSError."""
        kept = _free_name(self._database.with_name(f"{self._database.name}.before-restore-{stamp}"))
        crashpoint("restore.keep.before")
        if _size(_log(self._database)):
            os.link(_log(self._database), _log(kept))
        os.link(self._database, kept)
        self._sync_directory()
        crashpoint("restore.keep.after")
        return kept

    def _rename(self) -> None:
        """The step itself; both names are synced. Raises OSError."""
        if _size(_log(self._database)):
            crashpoint("restore.unname.before")
            self._database.unlink(missing_ok=True)
            self._sync_directory()
            crashpoint("restore.unname.after")
        for name in _beside(self._database):
            name.unlink(missing_ok=True)
        self._sync_directory()
        crashpoint("restore.rename.before")
        self._copy.rename(self._database)
        crashpoint("restore.rename.after")
        self._sync_directory()

    def _sync_directory(self) -> None:
        fd = os.open(self._database.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            crashpoint("restore.directory.before")
            os.fsync(fd)
            crashpoint("restore.directory.after")
        finally:
            os.close(fd)

    def _forget(self) -> None:
        for name in (*_beside(self._copy), Path(f"{self._copy}-journal"), self._copy):
            with contextlib.suppress(OSError):
                name.unlink()


def _log(database: Path) -> Path:
    return Path(f"{database}-wal")


def _beside(database: Path) -> tuple[Path, ...]:
    return _log(database), Path(f"{database}-shm"), file_of(database)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _free_name(wanted: Path) -> Path:
    name, count = wanted, 1
    while os.path.lexists(name):
        count += 1
        name = wanted.with_name(f"{wanted.name}-{count}")
    return name


def _fold(database: Path) -> None:
    """Bring what a log holds into its database. Where the database is too damaged for it, nothing happens."""
    with contextlib.suppress(WatchkeeperError), opened(database) as connection:
        _ = number(connection, "PRAGMA wal_checkpoint(TRUNCATE)")


@contextlib.contextmanager
def _alone(database: Path, wait_s: float) -> Generator[None]:
    """Hold the database against every program that would open it, damaged as it may be. No connection of this process has it open.

    Raises:
        DatabaseBusy: a process has it open for too long.
        OSError: it cannot be opened.
    """
    fd = os.open(database, os.O_RDWR | os.O_CLOEXEC)
    try:
        until = time.monotonic() + wait_s
        while not _locked(fd):
            if time.monotonic() >= until:
                raise _open_elsewhere(database, fd)
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(fd)


def _locked(fd: int) -> bool:
    crashpoint("restore.lock.before")
    locked = try_lock(fd, _LOCKS_AT, _LOCKS)
    crashpoint("restore.lock.after")
    return locked


def _open_elsewhere(database: Path, fd: int) -> DatabaseBusy:
    pid = 0
    with contextlib.suppress(OSError):
        pid = holder(fd, _LOCKS_AT, _LOCKS) or 0
    who = f"process {pid}" if pid > 0 else "another program"
    return DatabaseBusy(
        f"The database '{database}' is open in {who}: nothing was changed.",
        hint="End what looks at it (`wk events --follow`, `wk wait`, a database browser), then do it again.",
    )


def _unwritable(path: Path, error: OSError) -> DatabaseUnusable:
    return DatabaseUnusable(
        f"'{error.filename or path}' cannot be written ({error.strerror}).",
        hint="Look at the permissions of the state directory and at the room on its disk.",
    )
