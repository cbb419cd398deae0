"""Stores for tests. A second database joins the contract tests by another parameter of `store_factory`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from watchkeeper.ports.store import Store
from watchkeeper.store.sqlite.store import SqliteStore


@pytest.fixture(params=["sqlite"])
def store_factory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Opens one and the same database as often as it is called; it is made by the first call."""
    opened: list[Store] = []

    def open_store() -> Store:
        opened.append(
            SqliteStore.open(tmp_path / "wk.db", tmp_path / "turnstile", create=True, upgrade=False, wait_s=5)
        )
        return opened[-1]

    yield open_store
    for store in opened:
        store.close()


@pytest.fixture
def store(store_factory: Callable[[], Store]) -> Store:
    """A fresh database."""
    return store_factory()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteStore]:
    """A fresh SQLite database."""
    store = SqliteStore.open(tmp_path / "wk.db", tmp_path / "turnstile", create=True, upgrade=False, wait_s=5)
    yield store
    store.close()
