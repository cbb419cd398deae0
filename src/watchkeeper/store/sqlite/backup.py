"""Backups of a SQLite database: one file each, complete in itself, checked before it gets its name.

    .NAME.PID.XXXX.tmp ── copied ── read from end to end ── synced ──▶ linked as NAME (never over something), or renamed over it if that was asked for

A crash leaves the temporary file at worst. The copy is of one moment: writers do not wait for it, and it does not wait for them.
"""

from __future__ import annotations

import contextlib
import errno
import os
from contextlib import contextmanager
from dataclasses import replace as with_other
from pathlib import Path
from typing import TYPE_CHECKING

from watchkeeper.crash import crashpoint
from watchkeeper.errors import DatabaseCorrupt, DatabaseUnusable, NoDatabase, Refused
from watchkeeper.store.sqlite.connection import refuse_half_restored, restoring
from watchkeeper.store.sqlite.copying import MAGIC, copy, facts_of, make_private, refuse_foreign
from watchkeeper.store.sqlite.restore import StagedBackup
from watchkeeper.store.sqlite.schema import shipped_schema
from watchkeeper.store.sqlite.write_lock import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Generator

    from watchkeeper.ports.backup import BackupFacts, Progress

_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES, errno.EMLINK})
"""What file systems without hard links answer."""

_WITHOUT_LOG, _WITH_LOG = 1, 2
"""What SQLite writes behind its magic word (the version for writers)."""


class SqliteBackups:
    """Backups of the database file of one state directory."""

    def __init__(self, database: Path, write_lock: Path, *, wait_s: float = WAIT_S) -> None:
        """`wait_s`: how long a restore waits for others to let go of the database."""
        self._database = database
        self._write_lock = write_lock
        self._wait_s = wait_s

    def create(self, file: Path, *, replace: bool, progress: Progress) -> BackupFacts:
        """Write a consistent copy to `file`.

        Raises:
            Refused: there is something by that name, and `replace` is False; or it is the database itself.
            NoDatabase: there is nothing to copy.
            DatabaseUnusable: and its kinds.
        """
        if not self._database.exists():
            refuse_half_restored(self._database)
            raise NoDatabase(
                "There is nothing to back up yet.", hint="`wk run` makes the database with the first task."
            )
        self._refuse_name(file, replace=replace)
        temporary = file.with_name(f".{file.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
        try:
            make_private(temporary)
            with self._named(temporary, file):
                copy(self._database, temporary, progress)
                facts = facts_of(temporary, newest_schema=None, private=True)
            _sync(temporary, "backup.sync")
            _name(temporary, file, replace=replace)
        except OSError as error:
            where = file.parent if error.filename in {None, str(temporary)} else error.filename
            raise DatabaseUnusable(
                f"The backup '{file}' cannot be written ({where}: {error.strerror}).",
                hint="Choose a directory that you may write to and that has room.",
            ) from error
        finally:
            _forget(temporary)
        return with_other(facts, path=file)

    def inspect(self, file: Path, progress: Progress) -> BackupFacts:
        """Read a backup from end to end."""
        del progress
        refuse_foreign(file)
        return facts_of(file, newest_schema=shipped_schema().number)

    @contextmanager
    def stage(self, file: Path, progress: Progress) -> Generator[StagedBackup]:
        """Copy a backup beside the database and bring it up to date."""
        refuse_foreign(file)
        staged = StagedBackup(self._database, self._write_lock, self._wait_s)
        try:
            _copied(staged, file, progress, restoring(self._database))
            yield staged
        finally:
            staged.close()

    @contextmanager
    def _named(self, temporary: Path, file: Path) -> Generator[None]:
        """Name the files that the user knows in every error. Damage of the copy is damage of the database, whichever of them it is noticed in."""
        try:
            yield
        except DatabaseCorrupt as error:
            detail = str(error).replace(str(temporary), str(self._database))
            raise DatabaseCorrupt(
                f"{detail.removesuffix('.')}; no backup was made.",
                hint="Keep the file and its '-wal'. `wk restore` puts an earlier backup in its place.",
            ) from error
        except DatabaseUnusable as error:
            error.args = (str(error).replace(str(temporary), str(file)),)
            raise

    def _refuse_name(self, file: Path, *, replace: bool) -> None:
        with contextlib.suppress(OSError):
            if file.samefile(self._database):
                raise Refused(f"'{file}' is the database itself.", hint="Name another file.")
        if file.is_dir():
            raise Refused(f"'{file}' is a directory.", hint="Name a file in it.")
        if os.path.lexists(file) and not replace:
            raise _taken(file)
        if _is_of(self._database, file):
            raise Refused(f"'{file}' has a place among the files of the database.", hint="Choose another directory.")
        if file.exists() and not file.is_file():
            raise Refused(f"'{file}' is not a file.", hint="Choose another name.")
        if _log_mode(file) == _WITH_LOG:
            raise Refused(f"'{file}' is a database that may be in use.", hint="Choose another name.")


def _copied(staged: StagedBackup, file: Path, progress: Progress, copied: Path) -> None:
    """Copy a backup; what is wrong with the copy is wrong with the backup, which is there when the copy is gone. Raises as `copy_from`."""
    try:
        staged.copy_from(file, progress)
    except DatabaseCorrupt as error:
        detail = str(error).replace(str(copied), str(file))
        raise DatabaseCorrupt(detail, hint="Nothing was changed. Restore another backup.") from error
    except DatabaseUnusable as error:
        error.args = (str(error).replace(str(copied), str(file)),)
        raise


def _is_of(database: Path, file: Path) -> bool:
    """Whether a name is one that the state directory gives itself: a lock, a log, what is kept of before a restore. Backups may lie there."""
    with contextlib.suppress(OSError):
        if not file.parent.samefile(database.parent):
            return False
        return file.name.startswith(database.name) or (os.path.lexists(file) and _log_mode(file) != _WITHOUT_LOG)
    return False


def _log_mode(file: Path) -> int | None:
    """How a database file is written: a backup has no log, one in use has. None: it is not a database."""
    try:
        with file.open("rb") as opened_file:
            head = opened_file.read(len(MAGIC) + 3)
    except OSError:
        return None
    return head[-1] if len(head) == len(MAGIC) + 3 and head.startswith(MAGIC) else None


def _name(temporary: Path, file: Path, *, replace: bool) -> None:
    """Give the finished file its name, durably. Raises Refused, OSError."""
    crashpoint("backup.name.before")
    if replace:
        temporary.replace(file)
    else:
        try:
            os.link(temporary, file)
        except FileExistsError:
            raise _taken(file) from None
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if os.path.lexists(file):
                raise _taken(file) from None
            temporary.rename(file)
    crashpoint("backup.name.after")
    _sync(file.parent, "backup.directory")


def _taken(file: Path) -> Refused:
    return Refused(f"There is a '{file}' already; it was left alone.", hint="Choose another name, or say --force.")


def _sync(path: Path, point: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        crashpoint(f"{point}.before")
        os.fsync(fd)
        crashpoint(f"{point}.after")
    finally:
        os.close(fd)


def _forget(temporary: Path) -> None:
    for name in (temporary, Path(f"{temporary}-journal"), Path(f"{temporary}-wal")):
        with contextlib.suppress(OSError):
            name.unlink()
