"""A SQLite database as the place that everything is moved from or to."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from watchkeeper.store import marks
from watchkeeper.store.sqlite.schema import shipped_schema
from watchkeeper.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from watchkeeper.store.rows import Rows

_TRIGGERS = "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY name"


class SqliteLocation:
    """The port's `DatabaseLocation`, see `store.moving`."""

    def __init__(self, database: Path, write_lock: Path) -> None:
        """The database file, and where its writers take turns."""
        self._database = database
        self._write_lock = write_lock

    @property
    def detail(self) -> str:
        """The file."""
        return f"'{self._database}'"

    def open(self, *, marked: bool = False, new: bool = True) -> SqliteStore:
        schema = marks.MarkedSchema(shipped_schema().migrations) if marked else shipped_schema()
        new = new and not marked
        return SqliteStore.open(self._database, self._write_lock, create=new, upgrade=new, schema=schema, anew=new)

    def columns(self, rows: Rows, table: str) -> list[str]:
        """Those that are not generated."""
        found = rows.query("SELECT name FROM pragma_table_xinfo(:name) WHERE hidden = 0", {"name": table})
        return [str(name) for (name,) in found]

    def set_rules_aside(self, rows: Rows) -> object:
        """Drop the triggers, and tell what they were."""
        triggers = {str(name): str(sql) for name, sql in rows.query(_TRIGGERS)}
        for name in triggers:
            _ = rows.query(f"DROP TRIGGER {name}")
        return triggers

    def put_rules_back(self, rows: Rows, aside: object) -> None:
        """Make them again; keys are looked at when the transaction is committed."""
        for sql in cast("dict[str, str]", aside).values():
            _ = rows.query(sql)

    def numbers(self, rows: Rows) -> dict[str, int]:
        found = rows.query("SELECT name, seq FROM sqlite_sequence WHERE seq > 0 ORDER BY name")
        return {str(name): int(last or 0) for name, last in found}

    def set_numbers(self, rows: Rows, numbers: Mapping[str, int]) -> None:
        _ = rows.query("DELETE FROM sqlite_sequence")
        for name, last in numbers.items():
            _ = rows.query(
                "INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :last)", {"name": name, "last": last}
            )

    def mark(self, rows: Rows, detail: str) -> None:
        if detail:
            marks.mark(rows, detail)
        else:
            marks.unmark(rows)
        _ = rows.query(f"PRAGMA user_version={marks.MARKED if detail else shipped_schema().number}")
