"""The seam between the adapters and a database: named statements, run with named values."""

from collections.abc import Mapping
from typing import Protocol

from watchkeeper.ports.damage import Met

SqlValue = str | int | float | bytes | None
"""What a column holds."""

Row = tuple[SqlValue, ...]


class RowConflict(Exception):  # noqa: N818 - not an error by itself: the adapter says what it means
    """A key is taken, or the row that is referred to is not there. The statement has changed nothing."""


class Rows(Protocol):
    """One open transaction of a database."""

    @property
    def met(self) -> Met:
        """Where a record that cannot be read is noted."""
        ...

    @property
    def writable(self) -> bool:
        """False in a transaction that only reads."""
        ...

    def run(self, name: str, /, **values: SqlValue) -> int:
        """Run a statement that changes rows, and return how many.

        Raises:
            RowConflict: a unique or foreign key stands against it.
            DatabaseUnusable: and its kinds.
        """
        ...

    def one(self, name: str, /, **values: SqlValue) -> Row | None:
        """The first row of a statement's answer. Raises as `run` does."""
        ...

    def all(self, name: str, /, **values: SqlValue) -> list[Row]:
        """All rows of a statement's answer. Raises as `run` does."""
        ...

    def query(self, sql: str, values: Mapping[str, SqlValue] | None = None, /) -> list[Row]:
        """All rows of the answer to SQL that has no name: what concerns the whole database, whatever its tables are. Raises as `run` does."""
        ...

    def take_time(self) -> None:
        """One step of the open transaction, or the wait for the next one, may take long. Raises DatabaseUnusable and its kinds."""
        ...
