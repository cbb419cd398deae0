"""Who may come in, what is wrong with what is there, and how it is said: never with the password."""

import psycopg
import pytest
from support.postgres import Server, ask, open_store
from support.records import make_task

from watchkeeper.errors import (
    DatabaseBusy,
    DatabaseCorrupt,
    DatabaseFull,
    DatabaseUnusable,
    SettingsError,
    WatchkeeperError,
)
from watchkeeper.store.postgres import faults
from watchkeeper.store.postgres.address import Address
from watchkeeper.store.postgres.store import PostgresStore

WHERE = Address("postgresql://me:s3%2Fcret@host:5555/tasks")


def add(store: PostgresStore) -> None:
    """Add a task."""
    store.transact("add", lambda tx: tx.tasks.add(make_task()))


def ids(store: PostgresStore) -> list[str]:
    """The ids of all tasks."""
    return store.read(lambda tx: tx.tasks.ids_like("", 10_000))


@pytest.mark.parametrize(
    "url",
    ["", "tasks", "sqlite:///x", "http://a/b", "postgresql://me:s3cret@[host/tasks", "postgresql://me:s3cret@h:port/d",
     "host=h password=s3cret", "postgresql://me:s3 cret@@h/%zz"],
)  # fmt: skip
def test_a_url_that_is_none_is_not_repeated(url: str) -> None:
    with pytest.raises((SettingsError, DatabaseUnusable)) as caught:
        _ = open_store(url)
    assert caught.value.hint
    for error in (caught.value, caught.value.__cause__, caught.value.__context__):
        assert "s3" not in str(error) or error is None or "s3" not in url


def test_the_password_is_said_nowhere(victim: Server) -> None:
    victim.ask("CREATE ROLE keeper LOGIN PASSWORD 'right%/one'")
    (victim.data / "pg_hba.conf").write_text("local all postgres trust\nlocal all all scram-sha-256\n")
    victim.ask("SELECT pg_reload_conf()")
    name = victim.database()
    with pytest.raises(DatabaseUnusable, match="does not let 'keeper' in") as caught:
        _ = open_store(victim.url(name, "keeper", "wr%2Fong"))
    assert "wr%2Fong" not in str(caught.value) + caught.value.hint and "wr/ong" not in str(caught.value)
    with pytest.raises(DatabaseUnusable, match="does not let"):
        _ = open_store(victim.url(name, "keeper"))
    with pytest.raises(DatabaseUnusable, match="does not let 'nobody' in"):
        _ = open_store(victim.url(name, "nobody", "x"))
    with pytest.raises(DatabaseUnusable, match="may not do this") as caught:
        _ = open_store(victim.url(name, "keeper", "right%25%2Fone"))
    assert "CREATE SCHEMA watchkeeper AUTHORIZATION" in caught.value.hint
    victim.ask("CREATE SCHEMA watchkeeper AUTHORIZATION keeper", name)
    store = open_store(victim.url(name, "keeper", "right%25%2Fone"))
    add(store)
    assert ids(store) == ["t1"]
    store.close()


def test_no_such_database_and_no_such_server(databases, url: str) -> None:
    with pytest.raises(DatabaseUnusable, match="no database 'nowhere'") as caught:
        _ = open_store(url.replace("/wk_", "/nowhere?application_name=wk_").replace("?host", "&host"))
    assert "createdb nowhere" in caught.value.hint
    with pytest.raises(DatabaseUnusable, match="cannot be reached") as caught:
        _ = open_store("postgresql://me@127.0.0.1:1/x")
    assert "whether the server runs" in caught.value.hint
    with pytest.raises(DatabaseUnusable, match="cannot be reached"):
        _ = open_store("postgresql://me@no-such-host.invalid/x", wait_s=1, answer_s=1)


def test_too_many_connections(victim: Server) -> None:
    name = victim.database()
    victim.ask(f"CREATE ROLE limited LOGIN CONNECTION LIMIT 1; ALTER DATABASE {name} OWNER TO limited")
    (victim.data / "pg_hba.conf").write_text("local all all trust\n")
    victim.ask("SELECT pg_reload_conf()")
    with psycopg.connect(victim.url(name, "limited")), pytest.raises(DatabaseBusy, match="too many connections"):
        _ = open_store(victim.url(name, "limited"))


def test_a_full_disk(postgres: PostgresStore, url: str) -> None:
    """What a server says when its disk is full, put into its mouth; nothing is stored, and the store continues."""
    _ = ask(url, """
        CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$;
        CREATE TRIGGER full_disk BEFORE INSERT ON watchkeeper.outcome FOR EACH ROW EXECUTE FUNCTION full_disk();
        CREATE TRIGGER full_disk BEFORE INSERT ON watchkeeper.spec FOR EACH ROW EXECUTE FUNCTION full_disk()
    """)  # fmt: skip
    with pytest.raises(DatabaseFull, match="full"):
        add(postgres)
    _ = ask(url, "DROP TRIGGER full_disk ON watchkeeper.spec")
    add(postgres)
    assert ids(postgres) == ["t1"]


@pytest.mark.parametrize(
    "change",
    ["UPDATE task SET kind = 'gone_mad'", "UPDATE task SET updated_at = 9000000000000000000"],
)
def test_an_unreadable_record_is_named(postgres: PostgresStore, url: str, change: str) -> None:
    """R13: a word that we do not know is not guessed at."""
    add(postgres)
    _ = ask(url, "SET search_path TO watchkeeper; " + change)
    with pytest.raises(DatabaseCorrupt, match="t1"):
        _ = postgres.read(lambda tx: tx.tasks.get("t1"))


def test_a_table_that_is_gone(postgres: PostgresStore, url: str) -> None:
    _ = ask(url, "DROP TABLE watchkeeper.launch")
    _ = ask(url, "ALTER TABLE watchkeeper.outbox RENAME TO mailbox")
    with pytest.raises(DatabaseCorrupt, match="not laid out"):
        _ = postgres.read(lambda tx: tx.outbox.pending())


def test_a_wrong_count_is_found_by_the_check(postgres: PostgresStore, url: str) -> None:
    add(postgres)
    postgres.check(thorough=True)
    _ = ask(url, "UPDATE watchkeeper.tally SET tasks = 7 WHERE state = 'held'")
    with pytest.raises(DatabaseCorrupt, match="held"):
        postgres.check()


def test_every_error_of_the_server_has_a_sentence() -> None:
    """One sentence and what to do next; none comes through as it is, and none tells the password."""
    codes: set[str] = set(psycopg.errors._sqlcodes)  # psycopg's table of them
    assert len(codes) > 200
    for code in codes:
        said = faults.translate(psycopg.errors.lookup(code)("bad luck with s3/cret and s3%2Fcret"), WHERE)
        assert isinstance(said, WatchkeeperError)
        assert str(said).endswith((".", "nothing was changed.", "nothing was written.")), code
        assert said.hint or not isinstance(said, DatabaseUnusable), code
        assert "cret" not in str(said) + said.hint, code


def test_what_a_driver_says_is_one_line(postgres: PostgresStore) -> None:
    said = faults.not_connected(psycopg.OperationalError("connection failed:\n\tIs the server running?\n"), WHERE)
    assert "\n" not in str(said) and "'tasks' on host:5555" in str(said)


@pytest.mark.parametrize(
    ("sentence", "detail"),
    [
        ('password authentication failed for user "me"', "does not let 'me' in"),
        ('Peer authentication failed for user "me"', "does not let 'me' in"),
        ('no pg_hba.conf entry for host "h", user "me", database "tasks", no encryption', "does not let 'me' in"),
        ('role "recovery" does not exist', "does not let 'me' in"),
        ('role "me" is not permitted to log in', "does not let 'me' in"),
        ('database "starting up" does not exist', "There is no database"),
        ('permission denied for database "tasks"', "may not do this"),
        ("sorry, too many clients already", "too many connections"),
        ('too many connections for role "me"', "too many connections"),
        ("remaining connection slots are reserved for roles with the SUPERUSER attribute", "too many connections"),
        ("the database system is starting up", "ended the connection"),
        ("the database system is in recovery mode", "ended the connection"),
        ("the database system is not yet accepting connections\nDETAIL:  recovery", "ended the connection"),
    ],
)
def test_a_refusal_before_the_sign_in_is_known_by_the_servers_own_sentence(sentence: str, detail: str) -> None:
    """It has no SQLSTATE. The host's name stands before it, and may hold any word."""
    text = f'connection failed: connection to server at "too-many-clients" (10.0.0.1), port 5432 failed: FATAL:  {sentence}'
    assert detail in str(faults.not_connected(psycopg.OperationalError(text), WHERE))


@pytest.mark.parametrize("host", ["recovery", "too many clients", "starting up.example.org", "not accepting"])
def test_a_hosts_name_is_no_reason(host: str) -> None:
    """A server that cannot be reached is not taken for one that answered."""
    text = f'connection failed: connection to server at "{host}", port 5432 failed: Connection refused'
    assert "cannot be reached" in str(faults.not_connected(psycopg.OperationalError(text), WHERE))


def test_a_sqlstate_wins_over_the_words() -> None:
    error = psycopg.errors.TooManyConnections("connection failed: FATAL:  the database system is starting up")
    assert "too many connections" in str(faults.not_connected(error, WHERE))


def test_a_password_that_is_missing_is_said() -> None:
    text = 'connection failed: connection to server at "h", port 5432 failed: fe_sendauth: no password supplied'
    assert "does not let 'me' in" in str(faults.not_connected(psycopg.OperationalError(text), WHERE))
