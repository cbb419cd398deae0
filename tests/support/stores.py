"""Places where a database can be, on every database we know: a text, so that it can be handed to another process."""

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from watchkeeper.ports.store import Store
from watchkeeper.store.sqlite.store import SqliteStore

KINDS = ("sqlite", "postgres")
_MEMORY = Path("/dev/shm")


@contextmanager
def fresh_place(kind: str, *, empty: bool = False) -> Generator[str, None, None]:
    """A place with nothing stored in it; `empty`: where not even the tables are there yet, on any database.

    Nothing here outlives a power failure, so SQLite's files are in memory where that can be had, and the server of PostgreSQL syncs nothing: rows, locks and
    processes are what is tested in these places. What survives which failure has tests and files of its own.
    """
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None) as root:
            yield root
    else:
        from support.postgres import shared_databases

        databases = shared_databases()
        url = databases.empty() if empty else databases.lend()
        yield url
        if empty:
            databases.drop(url)
        else:
            databases.give_back(url)


def open_place(place: str, *, create: bool = True, wait_s: float = 5) -> Store:
    """Open the database there."""
    if place.startswith("postgresql:"):
        from support.postgres import open_store

        return open_store(place, create=create, wait_s=wait_s, answer_s=wait_s + 20)
    root = Path(place)
    return SqliteStore.open(root / "wk.db", root / "write.lock", create=create, upgrade=False, wait_s=wait_s)


def check(store: Store) -> None:
    """Read everything and look for damage, in the rows and in what is kept about them."""
    store.check(thorough=True)
    assert store.read(lambda tx: tx.waits.audit()) == []
