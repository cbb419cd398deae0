"""Copies of what Watchkeeper knows: made while it works, looked at, and put back.

A backup holds the database: tasks, runs, outcomes, the journal. It holds no logs, no captured environment, no sign-in of an account, no settings.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from watchkeeper.domain.lock_state import LockState
from watchkeeper.domain.run_record import DirectoryIdentity
from watchkeeper.ports.store import Store

Progress = Callable[[int, int], None]
"""Told now and then how much of how much is done, in pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFacts:
    """What a backup is, once it was read from end to end and found whole."""

    path: Path
    size: int
    database_id: str
    schema: int
    """The number of the newest step of its schema."""
    tasks: int
    newest: datetime | None
    """When the newest thing that it knows of happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedExecution:
    """What an execution directory says of itself, whatever the database knows."""

    execution_id: str
    database_id: str
    task_id: str
    run_id: str
    fence: int
    lock: LockState
    """Held: a shim lives in it."""
    begun: DirectoryIdentity | None = None
    """Which directory it is, if it is decided whether its agent is launched, or a shim lives in it."""


class Descriptions(Protocol):
    """The execution directories, read without a database."""

    def described(self) -> list[DescribedExecution]:
        """What each directory says of itself; one that cannot be read is left out."""
        ...

    def kept_logs(self, task_id: str) -> Path:
        """Where the logs of a removed task are kept, if they were kept."""
        ...


class Staged(Protocol):
    """A backup that is about to become the database: a copy beside it, brought up to date."""

    facts: BackupFacts

    @property
    def store(self) -> Store:
        """The copy, to be made fit before it is put in place."""
        ...

    def skip_numbers(self, seen: int) -> None:
        """Let no fence, and no number of the journal, that may have been given after the backup be given again; `seen` is the largest fence known."""
        ...

    def put_in_place(self, stamp: str) -> Path | None:
        """Make the copy the database. Returns the name, with `stamp` in it, under which the database that was there is kept, if there was one.

        Killed at any point, the database is afterwards the old one or the new one, or it is missing and every command says that a restore was interrupted.

        Raises:
            DatabaseBusy: some program has the database open. Nothing was changed.
            DatabaseUnusable: it could not be done. Nothing was changed.
        """
        ...


class Backups(Protocol):
    """Backups of one database."""

    def create(self, file: Path, *, replace: bool, progress: Progress) -> BackupFacts:
        """Write a consistent copy to `file` while others use the database, and check it before it gets its name.

        Raises:
            Refused: there is something by that name, and `replace` is False.
            NoDatabase: there is nothing to copy.
            DatabaseUnusable: and its kinds; then there is nothing by that name that was not there before.
        """
        ...

    def inspect(self, file: Path, progress: Progress) -> BackupFacts:
        """Read a backup from end to end, changing nothing.

        Raises:
            DatabaseNewer: a newer version of Watchkeeper made it.
            DatabaseUnusable: it is not a database of Watchkeeper, is damaged, or cannot be read.
        """
        ...

    def stage(self, file: Path, progress: Progress) -> AbstractContextManager[Staged]:
        """Copy a backup beside the database and bring it up to date. What was not put in place is deleted in the end. The caller holds the daemon off.

        Raises as `inspect` does.
        """
        ...
