"""A database as a whole: what it is, how it does, and everything of it moved into another one."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class LongTransaction:
    """A transaction of another program that has been open for long, so that the server cannot clear away what is outdated."""

    application: str
    process: int
    """The server's process that serves it."""
    user: str
    open_s: float


class Database(Protocol):
    """The database as a whole, inside a transaction."""

    def version(self) -> str:
        """That of SQLite, or of the server."""
        ...

    def schema(self) -> int:
        """The number of the newest migration."""
        ...

    def size(self) -> int:
        """In bytes."""
        ...

    def long_transactions(self) -> tuple[LongTransaction, ...]:
        """Transactions of other programs that have been open for more than a minute, oldest first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """What a database is."""

    kind: str
    """`sqlite` or `postgresql`."""
    where: str
    """For people; nothing secret."""
    version: str
    """That of SQLite, or of the server."""
    schema: int
    database_id: str
    size: int
    """In bytes."""
    skew_s: float | None
    """How far this machine's clock is ahead of the database's; None where they are the same one."""
    long_transactions: tuple[LongTransaction, ...] = ()
    faults: tuple[str, ...] = ()
    """What is kept beside the records and differs from what it is derived from, a sentence each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedFacts:
    """What was moved."""

    rows: int
    tasks: int
    digest: str
    source: str
    destination: str
    finished_earlier: bool
    bound: int
    """Tasks that were bound to this machine, because others may share the database now."""
