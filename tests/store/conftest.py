"""Stores for tests. A second database joins the contract tests by another parameter of `store_factory`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.postgres import Databases, open_store

from watchkeeper.ports.store import Store
from watchkeeper.store.sqlite.store import SqliteStore

Opener = Callable[[], Store]
KINDS = ("sqlite", "postgres")


@pytest.fixture(scope="session")
def databases() -> Iterator[Databases]:
    """PostgreSQL's databases, made when they are asked for."""
    made = Databases()
    yield made
    made.close()


@pytest.fixture(params=KINDS)
def store_factory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens one and the same database as often as it is called; it is made by the first call."""
    opened: list[Store] = []
    databases: Databases | None = request.getfixturevalue("databases") if request.param == "postgres" else None
    url = "" if databases is None else databases.lend()

    def open_one() -> Store:
        if databases is not None:
            opened.append(open_store(url))
        else:
            opened.append(
                SqliteStore.open(tmp_path / "wk.db", tmp_path / "turnstile", create=True, upgrade=False, wait_s=5)
            )
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()
    if databases is not None:
        databases.give_back(url)


@pytest.fixture
def store(store_factory: Opener) -> Store:
    """A fresh database."""
    return store_factory()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteStore]:
    """A fresh SQLite database."""
    store = SqliteStore.open(tmp_path / "wk.db", tmp_path / "turnstile", create=True, upgrade=False, wait_s=5)
    yield store
    store.close()
