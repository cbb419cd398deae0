"""The hint that another connection has committed. Nothing rests on it, but it comes, and comes back."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.postgres import Server, ask, open_store
from support.readable import wait_readable
from support.records import NOON
from support.waiting import wait_until

from watchkeeper.store.postgres.store import PostgresStore
from watchkeeper.store.postgres.wake import PostgresWake


def hinted(wake: PostgresWake, within_s: float) -> bool:
    """Whether its descriptor becomes readable in time."""
    return wait_readable(wake.fileno(), within_s)


def write(store: PostgresStore) -> None:
    """Commit something."""
    _ = store.transact("j", lambda tx: tx.journal.append("x", NOON))


@pytest.fixture
def wake(url: str) -> Iterator[PostgresWake]:
    """Listens to the database, and has taken its first hint."""
    with PostgresWake(url) as wake:
        assert hinted(wake, 10)
        assert wake.clear()
        assert wake.trouble == ""
        yield wake


def test_a_commit_is_hinted_at_once(postgres: PostgresStore, wake: PostgresWake) -> None:
    """However many there were, they are one hint for a process that was away meanwhile."""
    for _ in range(3):
        write(postgres)
    assert hinted(wake, 10)
    wait_until(lambda: (wake.clear(), not hinted(wake, 0.05))[1], what="all hints are taken")
    write(postgres)
    assert hinted(wake, 10)


def test_what_changed_nothing_is_not_hinted(postgres: PostgresStore, wake: PostgresWake) -> None:
    postgres.transact("nothing", lambda tx: None)
    with contextlib.suppress(KeyError):
        postgres.transact("fails", lambda tx: (tx.journal.append("x", NOON), {}["x"]))
    _ = postgres.read(lambda tx: tx.journal.last())
    assert not hinted(wake, 0.2)


def test_a_listener_whose_connection_is_ended_comes_back(url: str, postgres: PostgresStore, wake: PostgresWake) -> None:
    """And hints by itself, for what it may have missed."""
    killed = ask(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%(wake)'")
    assert killed == [(True,)]
    assert hinted(wake, 10)
    wait_until(lambda: wake.trouble == "", what="it listens again")
    wait_until(lambda: (wake.clear(), not hinted(wake, 0.05))[1], what="all hints are taken")
    write(postgres)
    assert hinted(wake, 10)


def test_a_server_that_is_away_is_waited_for(victim: Server) -> None:
    """A wake begun while there is no server hints when there is one."""
    url = victim.url(victim.database())
    victim.stop()
    with PostgresWake(url) as wake:
        wait_until(lambda: "yet" not in wake.trouble, what="it has tried")
        assert wake.trouble and not hinted(wake, 0)
        victim.start()
        assert hinted(wake, 20)
        assert wake.clear()
        store = open_store(url)
        write(store)
        assert hinted(wake, 10)
        store.close()


def test_a_silent_server_is_asked_whether_it_is_there(url: str) -> None:
    with PostgresWake(url, ask_s=0.05) as wake:
        assert hinted(wake, 10)
        wait_until(
            lambda: ask(url, "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE '%(wake)' AND query = 'SELECT 1'"),
            what="it asks",
        )  # fmt: skip
        assert wake.trouble == ""


def test_closing_leaves_nothing_open(url: str) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    wake = PostgresWake(url)
    assert hinted(wake, 10)
    wake.close()
    wake.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
