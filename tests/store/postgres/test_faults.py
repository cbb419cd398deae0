"""What goes wrong between us and a server, and what is said. Every call ends, and what is there again is used again."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest
from support.postgres import Server, ask, open_store
from support.proxy import Proxy
from support.records import NOON, make_task
from support.waiting import wait_until

from watchkeeper.errors import DatabaseBusy, DatabaseUnusable, WatchkeeperError
from watchkeeper.store.postgres import connection
from watchkeeper.store.postgres.store import PostgresStore


def add(store: PostgresStore, task_id: str = "t1", **given) -> None:
    """Add a task."""
    store.transact("add", lambda tx: tx.tasks.add(make_task(task_id, **given)))


def ids(store: PostgresStore) -> list[str]:
    """The ids of all tasks."""
    return store.read(lambda tx: tx.tasks.ids_like("", 10_000))


def terminate_all(url: str) -> None:
    """End every connection to that database but this one."""
    _ = ask(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")  # fmt: skip


@pytest.fixture
def hurt(victim: Server) -> Iterator[tuple[PostgresStore, str]]:
    """A store on a server that may be hurt, and its URL."""
    url = victim.url(victim.database())
    store = open_store(url, wait_s=1, answer_s=2)
    yield store, url
    store.close()


def test_a_server_that_was_restarted_between_transactions(victim: Server, hurt) -> None:
    """It has no effect: nothing had been begun on the dead connections."""
    store, _ = hurt
    add(store)
    assert ids(store) == ["t1"]
    victim.restart()
    assert ids(store) == ["t1"]
    assert store.changed(0)[0]
    victim.restart()
    add(store, "t2")
    victim.restart()
    assert store.changed(0)[0]
    assert ids(store) == ["t2", "t1"]


def test_a_server_that_dies_in_the_middle(victim: Server, hurt) -> None:
    """Nothing of the transaction stays; the next one works."""
    store, _ = hurt

    def work(tx):
        tx.tasks.add(make_task())
        victim.restart()
        tx.tasks.add(make_task("t2"))

    with pytest.raises(DatabaseUnusable, match="ended the connection") as caught:
        store.transact("add", work)
    assert "Nothing was changed" in caught.value.hint
    assert ids(store) == []
    add(store)
    with pytest.raises(DatabaseUnusable):
        store.read(lambda tx: (tx.journal.last(), victim.restart(), tx.journal.last()))
    assert ids(store) == ["t1"]


def test_a_server_that_is_away_is_said_and_found_again(victim: Server, hurt) -> None:
    store, _ = hurt
    victim.stop()
    for _ in range(2):
        with pytest.raises(DatabaseUnusable, match=r"cannot be reached|ended the connection") as caught:
            add(store)
        assert caught.value.hint
    victim.start()
    add(store)
    assert ids(store) == ["t1"]


def test_a_connection_that_is_ended_in_the_middle(url: str, postgres: PostgresStore) -> None:
    def work(tx):
        tx.tasks.add(make_task())
        terminate_all(url)
        return tx.journal.append("x", NOON)

    with pytest.raises(DatabaseUnusable, match="ended the connection"):
        postgres.transact("add", work)
    assert ids(postgres) == []
    add(postgres)


def test_a_commit_without_an_answer_is_not_known(url: str, postgres: PostgresStore) -> None:
    """That is what is said, and that asking again is safe."""
    with pytest.raises(DatabaseUnusable, match="not known whether 'add' was stored") as caught:
        postgres.transact("add", lambda tx: (tx.tasks.add(make_task()), terminate_all(url)))
    assert "Asking again is safe" in caught.value.hint
    assert ids(postgres) == []
    add(postgres)


def test_a_commit_whose_answer_is_swallowed(url: str) -> None:
    """The server has committed, the network keeps it to itself: not known, in bounded time, and asking again finds it done."""
    with Proxy(url) as proxy:
        store = open_store(proxy.url, wait_s=1, answer_s=1)

        def work(tx):
            tx.tasks.add(make_task())
            proxy.swallow_answers = True

        with pytest.raises(DatabaseUnusable, match="not known"):
            store.transact("add", work)
        proxy.swallow_answers = False
        assert ids(store) == ["t1"]
        with pytest.raises(WatchkeeperError, match="already"):
            add(store)
        store.close()


def test_a_commit_whose_notify_is_refused_is_done(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hint is lost, and nothing else: no error is raised, and the store continues with the same connection."""
    store = open_store(url)
    add(store)
    used = store._writer.connection
    refused = f"NOTIFY watchkeeper, '{'x' * 8000}'"
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        _ = ask(url, refused)
    monkeypatch.setattr(connection, "_NOTIFY", refused)
    add(store, "t2")
    assert ids(store) == ["t2", "t1"]
    monkeypatch.undo()
    add(store, "t3")
    assert store._writer.connection is used
    store.close()


def test_a_commit_whose_notify_is_not_answered_is_done(url: str) -> None:
    """It ends in bounded time without an error, and the next transaction opens a new connection."""
    with Proxy(url) as proxy:
        store = open_store(proxy.url, wait_s=0.5, answer_s=0.5)
        proxy.swallow_from = b"NOTIFY"
        begun = time.monotonic()
        add(store)
        assert time.monotonic() - begun < 8
        assert proxy.swallow_answers
        proxy.swallow_from, proxy.swallow_answers = None, False
        add(store, "t2")
        assert ids(store) == ["t2", "t1"]
        store.close()


def test_a_network_that_swallows_everything(url: str) -> None:
    """Each call ends within its time, also where the connection is only half there."""
    with Proxy(url) as proxy:
        store = open_store(proxy.url, wait_s=0.5, answer_s=0.5)
        add(store)
        proxy.swallow_answers = True
        for call in (lambda: ids(store), lambda: add(store, "t2"), lambda: store.changed(0)):
            begun = time.monotonic()
            with pytest.raises(DatabaseUnusable, match=r"does not answer|cannot be reached"):
                _ = call()
            assert time.monotonic() - begun < 8
        proxy.swallow_answers = False
        assert ids(store) == ["t1"]
        store.close()


def test_a_stopped_server_keeps_nobody(victim: Server, hurt) -> None:
    """SIGSTOP: it is there and says nothing. A call ends, a large statement too, closing too, and afterwards all is well."""
    store, _ = hurt
    add(store)
    assert ids(store) == ["t1"]
    victim.signal_all(signal.SIGSTOP)
    try:
        begun = time.monotonic()
        with pytest.raises(DatabaseUnusable, match="does not answer"):
            _ = ids(store)
        with pytest.raises(DatabaseUnusable, match="does not answer"):
            add(store, "t2")
        with pytest.raises(
            DatabaseUnusable, match="cannot be reached"
        ):  # nothing is open any more: it may not even be connected
            _ = ids(store)
        assert time.monotonic() - begun < 25
    finally:
        victim.signal_all(signal.SIGCONT)
    wait_until(lambda: can(lambda: ids(store)), what="the server answers again")
    add(store, "t3")
    assert ids(store) == ["t3", "t1"]


def test_a_stopped_server_and_a_large_statement(victim: Server, hurt) -> None:
    """More than the socket holds is on its way when it stops: sending is bounded, too."""
    store, _ = hurt

    def work(tx):
        victim.signal_all(signal.SIGSTOP)
        tx.tasks.add(make_task(reason="x" * 8_000_000))

    try:
        begun = time.monotonic()
        with pytest.raises(DatabaseUnusable, match="does not answer"):
            store.transact("add", work)
        store.close()
        assert time.monotonic() - begun < 20
    finally:
        victim.signal_all(signal.SIGCONT)


def can(call: Callable[[], object]) -> bool:
    """Whether that works now."""
    try:
        _ = call()
    except DatabaseUnusable:
        return False
    return True


def test_a_database_that_became_read_only_is_left_and_found_again(url: str) -> None:
    """A primary that was made a standby: the connection to it is given up, and the next one may lead elsewhere."""
    store = open_store(url)
    add(store)
    name = ask(url, "SELECT current_database()")[0][0]
    _ = ask(url, f"ALTER DATABASE {name} SET default_transaction_read_only TO on")
    terminate_all(url)
    for _ in range(2):
        with pytest.raises(DatabaseUnusable, match="read-only"):
            add(store, "t2")
    assert ids(store) == ["t1"]
    _ = ask(url, f"BEGIN READ WRITE; ALTER DATABASE {name} RESET default_transaction_read_only; COMMIT")
    add(store, "t2")
    assert ids(store) == ["t2", "t1"]
    store.close()


def test_who_holds_the_turn_is_named(url: str) -> None:
    """Bounded, and the sentence says who it is and what to do."""
    holder, waiting = open_store(url, application="wk daemon 17@m2"), open_store(url, wait_s=0.2)

    def work(tx):
        begun = time.monotonic()
        with pytest.raises(DatabaseBusy, match="held by wk daemon 17@m2") as caught:
            add(waiting)
        assert time.monotonic() - begun < 5
        assert "Nothing was changed" in caught.value.hint
        assert ids(waiting) == []  # reading needs no turn

    holder.transact("hold", work)
    add(waiting)
    holder.close()
    waiting.close()


def test_somebody_outside_the_turn_is_waited_for(url: str) -> None:
    """A database browser with an open transaction: bounded, named, and numbers stay in the order of commits."""
    store = open_store(url, wait_s=0.2)
    with psycopg.connect(url, application_name="browser") as browser:
        _ = browser.execute("INSERT INTO watchkeeper.journal (at, kind, data) VALUES (1, 'theirs', '{}')")
        with pytest.raises(DatabaseBusy, match="browser"):
            _ = store.transact("j", lambda tx: tx.journal.append("ours", NOON))
        browser.commit()
    _ = store.transact("j", lambda tx: tx.journal.append("ours", NOON))
    assert [(e.seq, e.kind) for e in store.read(lambda tx: tx.journal.after(0, 9))] == [(1, "theirs"), (2, "ours")]
    store.close()


def test_a_long_transaction_of_somebody_else_delays_no_history(url: str, postgres: PostgresStore) -> None:
    """A reader that follows the journal sees what is committed, whatever else happens in the server."""
    with psycopg.connect(url) as browser:
        _ = browser.execute("CREATE TABLE theirs (id INTEGER)")
        _ = postgres.transact("j", lambda tx: tx.journal.append("ours", NOON))
        assert [e.kind for e in postgres.read(lambda tx: tx.journal.after(0, 9))] == ["ours"]
        browser.rollback()


def test_a_stopped_client_does_not_keep_the_turn(url: str) -> None:
    """A person typed Ctrl-Z in the middle of a commit: the server ends that transaction after a while."""
    program = (
        "import os, signal, sys\nfrom support.postgres import open_store\n"
        "store = open_store(sys.argv[1], wait_s=1, answer_s=1)\n"
        "store.transact('hold', lambda tx: (print('holds', flush=True), os.kill(os.getpid(), signal.SIGSTOP)))\n"
    )
    env = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", program, url], env=env, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"holds\n"
        store = open_store(url, wait_s=10)
        add(store)
        store.close()
    finally:
        process.kill()
        _ = process.communicate()


def test_an_error_that_is_swallowed_does_not_pass_for_success(postgres: PostgresStore) -> None:
    """PostgreSQL undoes a transaction in which something was refused; that must not look like a commit."""

    def work(tx):
        tx.tasks.add(make_task())
        with pytest.raises(WatchkeeperError):
            tx.tasks.add(make_task("t2", attempts=-1))

    with pytest.raises(WatchkeeperError, match="nothing was written"):
        postgres.transact("add", work)
    assert ids(postgres) == []


_WAITS_HERE = """
SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0
"""


def test_ctrl_c_while_waiting(url: str) -> None:
    """It ends the wait at once, and the store continues."""
    holder, waiting = open_store(url), open_store(url, wait_s=30, answer_s=60)

    def interrupt() -> None:
        # Others wait on the same server for other databases: what counts is that ours does, or the signal comes before there is a wait.
        wait_until(lambda: ask(url, _WAITS_HERE), what="the second store waits")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def work(tx):
        thread = threading.Thread(target=interrupt)
        thread.start()
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            add(waiting)
        thread.join()
        assert time.monotonic() - begun < 15

    holder.transact("hold", work)
    add(waiting)
    assert ids(waiting) == ["t1"]
    holder.close()
    waiting.close()
