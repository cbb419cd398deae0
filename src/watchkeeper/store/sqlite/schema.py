"""The schema: numbered migrations, forward only, each recorded with the hash of its text.

The number of the newest one is also in the file's header (`user_version`), where every transaction looks at it for next to nothing. All that is missing is
applied in one transaction under the write lock: afterwards the database is at the new number, or it is as it was.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from watchkeeper.store.migrations import Schema, missing, shipped

if TYPE_CHECKING:
    from watchkeeper.store.rows import SqlValue
    from watchkeeper.store.sqlite.connection import SqliteConnection

PACKAGE = "watchkeeper.store.sqlite"

APPLICATION_ID = 0x574B4442
"""`WKDB`, in the file's header: says that a database is ours."""


@cache
def shipped_schema() -> Schema:
    """What this version knows."""
    return shipped(PACKAGE)


_RECORD = """
INSERT INTO migration (number, name, sha256, at)
VALUES (:number, :name, :sha256, CAST(unixepoch('subsec') * 1000000 AS INTEGER))
"""


def migrate(connection: SqliteConnection, schema: Schema) -> None:
    """Apply what is missing. The caller holds the write lock and an open write transaction; it commits.

    Raises:
        DatabaseUnusable: a step that was applied once is another one now.
    """

    def apply(number: int, name: str, text: str, digest: str) -> None:
        _ = connection.query(text)
        _ = connection.query(_RECORD, {"number": number, "name": name, "sha256": digest})

    missing(schema, _applied(connection), apply)
    _ = connection.query(f"PRAGMA user_version={schema.number}; PRAGMA application_id={APPLICATION_ID}")


def _applied(connection: SqliteConnection) -> dict[SqlValue, str]:
    """The hashes of the steps that the database has had."""
    if not connection.pragma("user_version"):
        return {}
    found = connection.query("SELECT number, sha256 FROM migration")
    return {number: str(digest) for number, digest in found}


def dump(connection: SqliteConnection) -> str:
    """The schema as the database reports it; `docs/schema.sql` is this text."""
    found = connection.query(
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
    )
    return "".join(f"{sql};\n\n" for (sql,) in found).rstrip("\n") + "\n"
