"""Reading a whole database file: copying it page by page, and saying what is in it.

These connections do not check our schema's number: a backup is made of an older database too, before it is upgraded.
"""

from __future__ import annotations

import contextlib
import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

import apsw

from watchkeeper.errors import DatabaseCorrupt, DatabaseNewer, DatabaseUnusable
from watchkeeper.ports.backup import BackupFacts
from watchkeeper.store.sqlite.connection import nap, refuse_old_sqlite
from watchkeeper.store.sqlite.faults import corrupt, in_our_words
from watchkeeper.store.sqlite.schema import APPLICATION_ID

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

    from watchkeeper.ports.backup import Progress
    from watchkeeper.store.rows import Row, SqlValue

PAGES_AT_ONCE = 256
_PATIENCE_S = 10.0
MAGIC = b"SQLite format 3\0"
_NO_LOCKS = "unix-none"
"""No other process uses the file yet, and it may be on a file system that cannot lock."""


@contextlib.contextmanager
def opened(path: Path, *, private: bool = False, read_only: bool = False) -> Generator[apsw.Connection]:
    """A plain connection. `private`: the file is this process's own, and is not synced at each step."""
    refuse_old_sqlite()
    flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
    with in_our_words(path):
        connection = apsw.Connection(str(path), flags=flags, vfs=_NO_LOCKS if private else None)
        try:
            # Else one that found the file damaged would write the log into it at its end, and what was there would not be kept as it was.
            _ = connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            until = time.monotonic() + _PATIENCE_S
            connection.set_busy_handler(lambda naps: nap(naps, until))
            if private:
                _ = rows(connection, "PRAGMA locking_mode=EXCLUSIVE")
                _ = rows(connection, "PRAGMA synchronous=OFF")
            yield connection
        finally:
            with contextlib.suppress(apsw.Error):
                connection.close(force=True)


def rows(connection: apsw.Connection, sql: str, values: Mapping[str, SqlValue] | None = None) -> list[Row]:
    """The answer to some SQL."""
    found = connection.execute(sql, values).fetchall()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - apsw's stub
    return cast("list[Row]", found)


def number(connection: apsw.Connection, sql: str) -> int:
    """The one number that some SQL answers with; 0 if it answers with nothing."""
    found = rows(connection, sql)
    value = found[0][0] if found else None
    return value if isinstance(value, int) else 0


def make_private(path: Path) -> None:
    """An empty file that is there for our user alone. Raises OSError, FileExistsError among them."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def copy(source: Path, target: Path, progress: Progress) -> None:
    """Copy one moment of the database `source` into the empty file `target`, which needs no log beside it afterwards.

    Raises:
        DatabaseUnusable: and its kinds.
    """
    with opened(source) as ours, opened(target, private=True) as theirs:
        # A snapshot that is held for the whole time: otherwise each commit of another process would make the copy begin anew, and it might never end.
        _ = rows(ours, "BEGIN")
        _ = rows(ours, "SELECT count(*) FROM sqlite_schema")
        with in_our_words(target), theirs.backup("main", ours, "main") as running:
            while not running.done:
                _ = running.step(PAGES_AT_ONCE)
                progress(running.page_count - running.remaining, running.page_count)
        if rows(theirs, "PRAGMA journal_mode=DELETE") != [("delete",)]:
            raise DatabaseUnusable(f"The copy '{target}' cannot be closed up.", hint="Nothing was changed; try again.")


def refuse_foreign(path: Path) -> None:
    """Refuse a file that is not a database of Watchkeeper, before any use of it.

    Raises:
        DatabaseUnusable: it is not, or cannot be read.
    """
    try:
        if not path.is_file():
            what = "is not a file" if path.exists() else "is not there"
            raise DatabaseUnusable(f"'{path}' {what}.", hint="Name a file that `wk backup` has written.")
        with path.open("rb") as file:
            head = file.read(len(MAGIC))
    except OSError as error:
        raise DatabaseUnusable(
            f"'{path}' cannot be read ({error.strerror}).", hint="Look at its permissions; nothing was changed."
        ) from error
    if head != MAGIC:
        raise _foreign(path)


def facts_of(path: Path, *, newest_schema: int | None, private: bool = False) -> BackupFacts:
    """Read the whole file and say what it is.

    Args:
        path: the file.
        newest_schema: the newest step of the schema that can be used; None for a copy of our own database, which may be of any step.
        private: the file is this process's own.

    Raises:
        DatabaseNewer: it needs a newer Watchkeeper.
        DatabaseCorrupt: it is damaged.
        DatabaseUnusable: it is not ours, or cannot be read.
    """
    with opened(path, private=private, read_only=not private) as connection:
        if number(connection, "PRAGMA application_id") != APPLICATION_ID:
            raise _foreign(path) if newest_schema is not None else corrupt(path)
        schema = number(connection, "PRAGMA user_version")
        if newest_schema is not None and schema > newest_schema:
            raise DatabaseNewer(
                f"'{path}' was written by a newer version of Watchkeeper.",
                hint="Upgrade Watchkeeper; nothing was changed.",
            )
        _check(connection, path)
        newest = number(connection, "SELECT max(at) FROM journal")
        return BackupFacts(
            path=path,
            size=number(connection, "PRAGMA page_count") * number(connection, "PRAGMA page_size"),
            database_id=str(rows(connection, "SELECT database_id FROM meta WHERE id = 1")[0][0]),
            schema=schema,
            tasks=number(connection, "SELECT count(*) FROM task"),
            newest=datetime.fromtimestamp(newest / 1_000_000, UTC) if newest else None,
        )


def _check(connection: apsw.Connection, path: Path) -> None:
    found = rows(connection, "PRAGMA integrity_check(1)")
    if found == [("ok",)] and not rows(connection, "PRAGMA foreign_key_check"):
        return
    detail = str(found[0][0]).strip().splitlines()[-1] if found != [("ok",)] else "records refer to missing ones"
    raise DatabaseCorrupt(f"'{path}' is damaged: {detail}.", hint="Nothing was changed. Use an older backup.")


def _foreign(path: Path) -> DatabaseUnusable:
    return DatabaseUnusable(
        f"'{path}' is not a backup of Watchkeeper.",
        hint="Name a file that `wk backup` has written; nothing was changed.",
    )
