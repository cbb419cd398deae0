"""A pooler that keeps no sessions is named at once; one that keeps them is as good as the server."""

import psycopg
import pytest
from support.pooler import Pooler
from support.postgres import Databases, open_store
from support.records import add, make_task

from watchkeeper.errors import DatabaseUnusable
from watchkeeper.store.postgres import faults
from watchkeeper.store.postgres.address import Address


def test_one_by_transaction_is_named_when_it_is_opened(databases: Databases) -> None:
    """Else what was handed over through it would wait forever."""
    with Pooler(databases.lend(), by="transaction") as pooler:
        with pytest.raises(DatabaseUnusable, match="pool_mode=transaction") as problem:
            _ = open_store(pooler.url)
        assert "pool_mode=session" in problem.value.hint


def test_one_by_session_is_as_good_as_the_server(databases: Databases) -> None:
    with Pooler(databases.lend(), by="session") as pooler:
        store = open_store(pooler.url)
        _ = store.transact("add", lambda tx: add(tx, make_task()))
        assert store.read(lambda tx: tx.tasks.get("t1")).id == "t1"
        store.check()
        store.close()


def test_a_pooler_that_is_switched_over_is_noticed_by_the_next_transaction(databases: Databases) -> None:
    """Each transaction looks whether the session is the one on which everything was set."""
    with Pooler(databases.lend(), by="session") as pooler:
        first, second = open_store(pooler.url), open_store(pooler.url)
        pooler.by = "transaction"
        first.read(lambda _: None)
        second.read(lambda _: None)  # from here on both their processes are for everybody, the second's first
        with pytest.raises(DatabaseUnusable, match="pool_mode=transaction"):
            first.read(lambda _: None)
        first.close()
        second.close()


def test_one_by_statement_says_it_itself() -> None:
    refused = psycopg.errors.ProtocolViolation("transaction blocks not allowed in statement pooling mode")
    assert "pool_mode=transaction or statement" in str(faults.translate(refused, Address("postgresql://a@b/c")))


def test_nothing_stands_between_us_and_a_server_of_our_own(databases: Databases) -> None:
    """No second connection is made where the server itself answers."""
    store = open_store(databases.lend())
    connection = store._reader.connection
    assert connection is not None
    assert not connection.is_relayed
    store.close()
