"""A look inside a SQLite store, for tests that ask SQLite itself."""

from watchkeeper.store.sqlite.connection import SqliteConnection
from watchkeeper.store.sqlite.store import SqliteStore


def inside(store: SqliteStore) -> SqliteConnection:
    """The store's open connection."""
    assert store._connection is not None
    return store._connection
