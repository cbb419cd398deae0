"""The schema: numbered migrations, forward only, each recorded with the hash of its text.

They live in a PostgreSQL schema of our own, `watchkeeper`. All that is missing is applied in one transaction while we hold the turn of a writer:
afterwards the database is at the new number, or it is as it was.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from watchkeeper.errors import DatabaseCorrupt, DatabaseUnusable, NoDatabase
from watchkeeper.store.marks import MARKED
from watchkeeper.store.migrations import Schema, missing, shipped

if TYPE_CHECKING:
    from watchkeeper.store.postgres.address import Address
    from watchkeeper.store.postgres.connection import PostgresConnection
    from watchkeeper.store.rows import SqlValue

PACKAGE = "watchkeeper.store.postgres"

_WORDS = (
    (r"\bINTEGER\b", "BIGINT"),
    (r"\bREAL\b", "DOUBLE PRECISION"),
    (r"\bTEXT\b", 'TEXT COLLATE "C"'),
    (r"\) STRICT(, WITHOUT ROWID)?;", ");"),
    (r"json_valid\(([\w.]+)\)", r"\1::json IS NOT NULL"),
    (r"json_extract\(([\w.]+), '\$\.(\w+)'\)", r"(\1::json ->> '\2')"),
)
"""SQLite's words, as patterns, and PostgreSQL's."""


def translated(text: str) -> str:
    """A step in PostgreSQL's words: its types, the order of its texts, and the fields of its JSON."""
    for ours, theirs in _WORDS:
        text = re.sub(ours, theirs, text)
    return text


@cache
def shipped_schema() -> Schema:
    """What this version knows."""
    return shipped(PACKAGE, translated)


_RECORD = """
INSERT INTO watchkeeper.migration (number, name, sha256, at)
VALUES (:number, :name, :digest, CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT))
"""

_HAS_SCHEMA = "SELECT to_regnamespace('watchkeeper') IS NOT NULL"
_IS_THERE = "SELECT to_regclass('watchkeeper.migration') IS NOT NULL"
_APPLIED = "SELECT count(*), max(number) FROM watchkeeper.migration"
# Looked at in one go: between two looks another process may have made what was missing.
_FOREIGN = """
SELECT 1 FROM pg_class WHERE relnamespace = to_regnamespace('watchkeeper') AND to_regclass('watchkeeper.migration') IS NULL LIMIT 1
"""


def read_schema_number(connection: PostgresConnection, address: Address) -> int | None:
    """The number of the newest migration that the database has had; None if it is empty.

    Raises:
        DatabaseUnusable: what is there is not ours, or not whole.
    """
    if not connection.batch(_IS_THERE)[0][0]:
        missing_is = _nothing(connection, address)
        if not isinstance(missing_is, NoDatabase):
            raise missing_is
        return None
    count, number = (int(value or 0) for value in connection.batch(_APPLIED)[0])
    refuse_gaps(count, number, address)
    return number


def nothing_of_ours(connection: PostgresConnection, address: Address) -> DatabaseUnusable:
    """What it means that a transaction found no table of migrations. Undoes the transaction."""
    _ = connection.roll_back()
    return _nothing(connection, address)


def _nothing(connection: PostgresConnection, address: Address) -> DatabaseUnusable:
    """There is no table of migrations: an empty database, or a foreign schema."""
    if connection.batch(_FOREIGN):
        return DatabaseUnusable(
            f"The schema 'watchkeeper' in the database {address} is not one of Watchkeeper.",
            hint="Use another database; nothing was changed.",
        )
    return NoDatabase(f"The database {address} is empty.", hint="`wk run` makes what it needs with the first task.")


def refuse_gaps(count: int, number: int, address: Address) -> None:
    """Refuse a database that lacks a migration before its newest one, as a backup does that was restored in part."""
    if count != number != MARKED:
        raise DatabaseCorrupt(
            f"The database {address} was upgraded by half: {count} of its {number} steps are on record.",
            hint="Nothing was changed. Restore the whole backup.",
        )


def migrate(connection: PostgresConnection, schema: Schema, *, from_nothing: bool) -> None:
    """Apply what is missing. The caller holds the turn and an open write transaction; it commits.

    Raises:
        DatabaseUnusable: a step that was applied once is another one now.
    """
    known: dict[SqlValue, str] = {}
    if from_nothing:
        if not connection.batch(_HAS_SCHEMA)[0][0]:  # who may not make one may use one that was made for it
            _ = connection.batch("CREATE SCHEMA watchkeeper")
    else:
        found = connection.query("SELECT number, sha256 FROM watchkeeper.migration")
        known = {number: str(digest) for number, digest in found}

    def apply(number: int, name: str, text: str, digest: str) -> None:
        _ = connection.batch(text)
        _ = connection.query(_RECORD, {"number": number, "name": name, "digest": digest})

    missing(schema, known, apply)
