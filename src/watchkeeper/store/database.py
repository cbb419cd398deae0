"""The database as a whole: its version and size, and transactions of other programs that have been open for long."""

from typing import cast

from watchkeeper.ports.databases import LongTransaction
from watchkeeper.store.rows import Rows, SqlValue

_LONG_S = 60.0


class StoredDatabase:
    """The port's `Database`."""

    def __init__(self, rows: Rows) -> None:
        """Work within one transaction."""
        self._rows = rows

    def version(self) -> str:
        """That of SQLite, or of the server."""
        return str(self._only("database_version"))

    def schema(self) -> int:
        """The number of the newest migration."""
        return cast("int", self._only("database_schema"))

    def size(self) -> int:
        """In bytes."""
        return cast("int", self._only("database_size"))

    def long_transactions(self) -> tuple[LongTransaction, ...]:
        """Those that have been open for more than a minute, oldest first."""
        return tuple(
            LongTransaction(
                application=str(name), process=cast("int", pid), user=str(user), open_s=cast("float", open_s)
            )
            for name, pid, user, open_s in self._rows.all("database_long_transactions", longer_s=_LONG_S)
        )

    def _only(self, name: str) -> SqlValue:
        (value,) = self._rows.one(name) or (None,)
        return value
