"""The schema: numbered migrations, forward only, each recorded with the hash of its text.

The number of the newest one is also in the file's header (`user_version`), where every transaction looks at it for next to nothing. All that is missing is
applied in one transaction under the turnstile: afterwards the database is at the new number, or it is as it was.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from watchkeeper.crash import crashpoint
from watchkeeper.errors import DatabaseUnusable
from watchkeeper.store.statements import read_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from watchkeeper.store.rows import Value
    from watchkeeper.store.sqlite.connection import Connection

PACKAGE = "watchkeeper.store.sqlite"

APPLICATION_ID = 0x574B4442
"""`WKDB`, in the file's header: says that a database is ours."""


# A named tuple, as in `settings`: every command waits for the class.
class Migration(NamedTuple):
    """One step of the schema."""

    name: str
    """The file's name, `0001_first`."""
    read: Callable[[], str]
    """Its SQL; read only when it is needed."""


class Schema(NamedTuple):
    """All steps, oldest first."""

    migrations: tuple[Migration, ...]

    @property
    def number(self) -> int:
        """The number of the newest step."""
        return len(self.migrations)


def _shipped(name: str) -> Migration:
    return Migration(name=name, read=partial(read_text, PACKAGE, f"migrations/{name}.sql"))


SCHEMA = Schema(migrations=(_shipped("0001_first"), _shipped("0002_queue"), _shipped("0003_keeping")))
"""What this version knows."""


_RECORD = """
INSERT INTO migration (number, name, sha256, at)
VALUES (:number, :name, :sha256, CAST(unixepoch('subsec') * 1000000 AS INTEGER))
"""


def migrate(connection: Connection, schema: Schema) -> None:
    """Apply what is missing. The caller holds the turnstile and an open write transaction; it commits.

    Raises:
        DatabaseUnusable: a step that was applied once is another one now.
    """
    known = _applied(connection)
    for number, step in enumerate(schema.migrations, start=1):
        text = step.read()
        import hashlib  # noqa: PLC0415 - only a new or an older database needs it

        digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
        if number in known:
            if known[number] != digest:
                raise DatabaseUnusable(
                    f"The database was made by another build: its step {step.name} differs from ours.",
                    hint="Use the version of Watchkeeper that made it.",
                )
            continue
        crashpoint(f"migration.{step.name}.before")
        _ = connection.query(text)
        _ = connection.query(_RECORD, {"number": number, "name": step.name, "sha256": digest})
        crashpoint(f"migration.{step.name}.after")
    _ = connection.query(f"PRAGMA user_version={schema.number}; PRAGMA application_id={APPLICATION_ID}")


def _applied(connection: Connection) -> dict[Value, str]:
    """The hashes of the steps that the database has had."""
    if not connection.pragma("user_version"):
        return {}
    found = connection.query("SELECT number, sha256 FROM migration")
    return {number: str(digest) for number, digest in found}


def dump(connection: Connection) -> str:
    """The schema as the database tells it; `schema.sql` is this text."""
    found = connection.query(
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
    )
    return "".join(f"{sql};\n\n" for (sql,) in found).rstrip("\n") + "\n"
