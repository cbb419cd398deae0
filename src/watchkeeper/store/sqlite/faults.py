"""What SQLite's errors mean, each one sentence and what to do next."""

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import apsw

from watchkeeper.errors import (
    DatabaseBusy,
    DatabaseCorrupt,
    DatabaseFull,
    DatabaseUnusable,
    WatchkeeperError,
)
from watchkeeper.store.rows import RowConflict

_CONFLICTS = frozenset(
    {
        apsw.SQLITE_CONSTRAINT_FOREIGNKEY,
        apsw.SQLITE_CONSTRAINT_PRIMARYKEY,
        apsw.SQLITE_CONSTRAINT_ROWID,
        apsw.SQLITE_CONSTRAINT_UNIQUE,
    }
)

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextmanager
def in_our_words(path: Path) -> Generator[None, None, None]:
    """Turn SQLite's errors inside into ours."""
    try:
        yield
    except apsw.Error as error:
        raise translate(error, path) from error
    except UnicodeDecodeError as error:
        raise corrupt(path) from error


def conflict(error: apsw.ConstraintError) -> RowConflict | WatchkeeperError:
    """What a refused statement means: a key that is taken, or an invalid row, which is a bug."""
    extended = cast("object", getattr(error, "extendedresult", None))  # apsw's stub does not know it
    if extended in _CONFLICTS:
        return RowConflict(str(error))
    return WatchkeeperError(f"The database refused an impossible record ({error}): nothing was written.")


def corrupt(path: Path) -> DatabaseCorrupt:
    """The file is damaged."""
    return DatabaseCorrupt(
        f"The database '{path}' is damaged.",
        hint="Nothing was changed. `wk restore FILE` puts a backup in its place; the damaged file is kept.",
    )


def translate(error: apsw.Error, path: Path) -> WatchkeeperError:
    """Our error for one of SQLite's."""
    match error:
        case apsw.CorruptError() | apsw.NotADBError():
            return corrupt(path)
        case apsw.FullError():
            return _full(path)
        case apsw.IOError() | apsw.CantOpenError() if _no_space(path):
            return _full(path)
        case apsw.BusyError() | apsw.LockedError():
            return DatabaseBusy(
                f"The database '{path}' is held by another program for too long.",
                hint="Nothing was changed. Close what else has it open (a database browser, a backup), and try again.",
            )
        case apsw.ReadOnlyError() | apsw.PermissionsError():
            return DatabaseUnusable(
                f"The database '{path}' cannot be written.",
                hint="Look at the permissions of the file and its directory, and whether the file system is read-only.",
            )
        case apsw.CantOpenError():
            return DatabaseUnusable(
                f"The database '{path}' cannot be opened.",
                hint="Look at the permissions of the file and its directory.",
            )
        case apsw.IOError():
            return DatabaseUnusable(
                f"Reading or writing the database '{path}' failed ({error}).",
                hint="Nothing was changed. Look at the disk (`dmesg` may tell), then try again.",
            )
        case apsw.ConstraintError():
            return WatchkeeperError(f"The database refused an impossible record ({error}): nothing was written.")
        case apsw.SQLError():
            return DatabaseCorrupt(
                f"The database '{path}' is not laid out as it should be ({error}).",
                hint="Nothing was changed. Put a backup in its place.",
            )
        case _:
            return DatabaseUnusable(
                f"The database '{path}' cannot be used ({error}).", hint="Nothing was changed; try again."
            )


def _full(path: Path) -> DatabaseFull:
    return DatabaseFull(
        f"The disk of '{path}' is full: nothing was changed.", hint="Free some space, then do it again."
    )


def _no_space(path: Path) -> bool:
    """Whether the disk is full now; SQLite calls a write that failed for want of space an I/O error in some places."""
    try:
        return os.statvfs(path.parent).f_bavail == 0
    except OSError as error:
        return error.errno in _NO_SPACE
