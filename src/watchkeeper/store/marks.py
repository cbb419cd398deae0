"""A database that must not be used as it is: one that was moved elsewhere, or one that a move did not finish filling.

It says so where every transaction looks first: its schema's number is one that no version ever has. A process that has it open notices at its next transaction,
also a version without marks, to which it is a newer schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from watchkeeper.errors import DatabaseMoved
from watchkeeper.store.migrations import Schema

if TYPE_CHECKING:
    from watchkeeper.store.rows import Rows

MARKED = 1_000_000
"""The number of a marked database's schema."""

_MOVED = "moved to "
_DIGEST = "0" * 64


class MarkedSchema(Schema):
    """The schema of a marked database: its number is one that no version has."""

    __slots__ = ()

    @property
    def number(self) -> int:
        """`MARKED`."""
        return MARKED


def mark(rows: Rows, detail: str) -> None:
    """Mark the database; `detail` is `unfinished(...)` or `moved(...)`."""
    unmark(rows)
    sql = "INSERT INTO migration (number, name, sha256, at) VALUES (:number, :name, :digest, 0)"
    _ = rows.query(sql, {"number": MARKED, "name": detail, "digest": _DIGEST})


def unmark(rows: Rows) -> None:
    """Let it be used again."""
    _ = rows.query("DELETE FROM migration WHERE number = :number", {"number": MARKED})


def unfinished(database_id: str) -> str:
    """What the mark of a database says that is being filled. Whose copy it is, because what was moved into it may be the only one that is of use."""
    return f"a copy of the database {database_id} that was not finished"


def moved(where: str) -> str:
    """What the mark of a database says that was moved."""
    return f"{_MOVED}{where}"


def stored_mark(rows: Rows) -> str:
    """What the mark says; empty without one."""
    found = rows.query("SELECT name FROM migration WHERE number = :number", {"number": MARKED})
    return str(found[0][0]) if found else ""


def refusal(rows: Rows, what: str) -> DatabaseMoved:
    """Why a marked database, called `what`, is not used."""
    found = stored_mark(rows)
    if found.startswith(_MOVED):
        where = found.removeprefix(_MOVED)
        return DatabaseMoved(
            f"The database {what} was moved to {where}: nothing more is written here.",
            hint="`wk config set store URL` makes that one yours on this machine.",
        )
    return DatabaseMoved(
        f"The database {what} is {found or 'marked'}: it cannot be used.",
        hint="Type `wk store copy` again: it begins anew, and the database that was copied is as it was.",
    )
