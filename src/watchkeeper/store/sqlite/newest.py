"""How far a database has come, kept beside it, so that one that has lost its newest part, or everything, is not taken for a whole or a new one.

SQLite keeps what was written last in the file `-wal`. Where that is deleted, or the database itself, SQLite finds an older database, or none, and says
nothing. The file `wk.db.newest` holds the database's id and the sum of all numbers that it has given, as of the last durable commit. It is written after the
commit, so it never promises more than the database holds; a crash in between leaves it behind, which harms nothing.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from typing import TYPE_CHECKING, NamedTuple

from watchkeeper.crash import crashpoint
from watchkeeper.errors import DatabaseUnusable

if TYPE_CHECKING:
    from pathlib import Path

_LENGTH = 96


class Newest(NamedTuple):
    """What the file holds."""

    database_id: str
    given: int


def file_of(database: Path) -> Path:
    """Where it is kept."""
    return database.with_name(f"{database.name}.newest")


def read(database: Path) -> Newest | None:
    """What is kept; None if nothing is, or it cannot be read: then nothing is known."""
    try:
        text = file_of(database).read_bytes().decode("utf-8")
        checksum, database_id, given = text.split()
        if int(checksum, 16) == zlib.crc32(f"{database_id} {given}".encode()):
            return Newest(database_id, int(given))
    except (OSError, ValueError):
        return None
    return None


def write(database: Path, newest: Newest) -> None:
    """Keep it. Where that fails the older word stands, which promises less: the commit that it is about has been made and cannot be taken back."""
    body = f"{newest.database_id} {newest.given}"
    line = f"{zlib.crc32(body.encode()):08x} {body}".ljust(_LENGTH) + "\n"
    with contextlib.suppress(OSError):
        crashpoint("database.newest.before")
        fd = os.open(file_of(database), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            _ = os.pwrite(fd, line.encode("utf-8"), 0)
        finally:
            os.close(fd)
        crashpoint("database.newest.after")


def refuse_deleted(database: Path) -> None:
    """Where there is no database, or an empty one: was there one?

    Raises:
        DatabaseUnusable: there was.
    """
    kept = file_of(database)
    ran = _some_execution(database.parent / "executions")
    if not os.path.lexists(kept) and not ran:
        return
    why = f"'{kept.name}' is there" if os.path.lexists(kept) else f"'executions/{ran}' is there"
    raise DatabaseUnusable(
        f"The database '{database}' is gone or was emptied: {why}, so there was one. Nothing was changed.",
        hint="`wk restore FILE` puts a backup in its place. To begin with nothing, move the whole state directory away.",
    )


def refuse_lost(database: Path, kept: Newest | None, found: Newest) -> None:
    """Compare what was kept before with what a database holds now.

    Raises:
        DatabaseUnusable: it has lost its newest part.
    """
    if kept is None or kept.database_id != found.database_id or kept.given <= found.given:
        return
    raise DatabaseUnusable(
        f"The database '{database}' has lost what was written last: its '-wal' was deleted, or an older file was put in its place. Nothing was changed.",
        hint=(
            f"Put the files back; or `wk restore FILE` a backup. The newest one may be the database itself: "
            f"copy '{database.name}' elsewhere, and restore that copy; what has run since is held then, and not started again."
        ),
    )


def _some_execution(directory: Path) -> str:
    """The name of an execution's directory, if there is one."""
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        return next((entry.name for entry in entries if entry.name[:1] != "."), "")
    return ""
