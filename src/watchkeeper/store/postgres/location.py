"""A PostgreSQL database as the place that everything is moved from or to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchkeeper.store import marks
from watchkeeper.store.postgres.address import Address
from watchkeeper.store.postgres.schema import shipped_schema
from watchkeeper.store.postgres.store import PostgresStore
from watchkeeper.store.schema import TABLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchkeeper.store.rows import Rows

_COLUMNS = """
SELECT column_name::text FROM information_schema.columns
WHERE table_schema = 'watchkeeper' AND table_name = :name AND is_generated = 'NEVER'
"""
_WITH_RULES = (*TABLES, "counter")
_NOT_A_TABLE = "commit"
"""Counts transactions, not rows."""


class PostgresLocation:
    """The port's `DatabaseLocation`, see `store.moving`."""

    def __init__(self, url: str, application: str) -> None:
        """Where it is, and what its server knows us as. Raises SettingsError."""
        self._url = url
        self._application = application
        self._address = Address(url)

    @property
    def detail(self) -> str:
        """The database's name and its host."""
        return str(self._address)

    def open(self, *, marked: bool = False, new: bool = True) -> PostgresStore:
        new = new and not marked
        schema = marks.MarkedSchema(shipped_schema().migrations) if marked else shipped_schema()
        return PostgresStore.open(self._url, create=new, upgrade=new, schema=schema, application=self._application)

    def columns(self, rows: Rows, table: str) -> list[str]:
        """Those that are not generated."""
        return [str(name) for (name,) in rows.query(_COLUMNS, {"name": table})]

    def set_rules_aside(self, rows: Rows) -> object:
        """Our own triggers sleep; those of keys do not."""
        for table in _WITH_RULES:
            _ = rows.query(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        return None

    def put_rules_back(self, rows: Rows, aside: object) -> None:
        """Look at all keys now, because a table whose keys are not looked at yet cannot be altered."""
        del aside
        _ = rows.query("SET CONSTRAINTS ALL IMMEDIATE")
        for table in _WITH_RULES:
            _ = rows.query(f"ALTER TABLE {table} ENABLE TRIGGER USER")

    def numbers(self, rows: Rows) -> dict[str, int]:
        found = rows.query("SELECT name, last FROM counter WHERE last > 0 ORDER BY name")
        return {str(name): int(last or 0) for name, last in found if name != _NOT_A_TABLE}

    def set_numbers(self, rows: Rows, numbers: Mapping[str, int]) -> None:
        _ = rows.query("UPDATE counter SET last = 0 WHERE name <> :name", {"name": _NOT_A_TABLE})
        for name, last in numbers.items():
            _ = rows.query("UPDATE counter SET last = :last WHERE name = :name", {"name": name, "last": last})

    def mark(self, rows: Rows, detail: str) -> None:
        if detail:
            marks.mark(rows, detail)
        else:
            marks.unmark(rows)
