"""Databases, and servers that a test may hurt."""

from collections.abc import Iterator

import pytest
from support.postgres import Databases, Server, open_store

from watchkeeper.store.postgres.store import PostgresStore


@pytest.fixture
def url(databases: Databases) -> Iterator[str]:
    """A database that was just made by us, and that is not used afterwards."""
    url = databases.fresh()
    yield url
    databases.drop(url)


@pytest.fixture
def empty(databases: Databases) -> Iterator[str]:
    """A database with nothing in it."""
    url = databases.empty()
    yield url
    databases.drop(url)


@pytest.fixture
def postgres(url: str) -> Iterator[PostgresStore]:
    """A store on such a database."""
    store = open_store(url)
    yield store
    store.close()


@pytest.fixture(scope="module")
def victim() -> Iterator[Server]:
    """A server of its own for a module of tests that stop and start it."""
    server = Server()
    yield server
    server.remove()
