"""Stores for tests. A further database joins the contract tests by another word in `KINDS`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.postgres import Databases, shared_databases
from support.stores import KINDS, fresh_place, open_place

from watchkeeper.ports.store import Store
from watchkeeper.store.sqlite.store import SqliteStore


@pytest.fixture
def databases() -> Databases:
    """PostgreSQL's databases, made when they are asked for."""
    return shared_databases()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of database."""
    return request.param


@pytest.fixture
def store_factory(kind: str) -> Iterator[Callable[[], Store]]:
    """Opens one and the same database as often as it is called."""
    opened: list[Store] = []
    with fresh_place(kind) as place:

        def open_one() -> Store:
            opened.append(open_place(place))
            return opened[-1]

        yield open_one
        for store in opened:
            store.close()


@pytest.fixture
def store(store_factory: Callable[[], Store]) -> Store:
    """A fresh database."""
    return store_factory()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteStore]:
    """A fresh SQLite database."""
    store = SqliteStore.open(tmp_path / "wk.db", tmp_path / "write.lock", create=True, upgrade=False, wait_s=5)
    yield store
    store.close()
