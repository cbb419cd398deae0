"""Migrations, versions, and how what we need in a database comes to be."""

import hashlib
import os
import subprocess
import sys

import pytest
from support.postgres import ask, open_store
from support.records import NOON, make_task

from watchkeeper.errors import DatabaseCorrupt, DatabaseNewer, DatabaseUnusable, NoDatabase, WatchkeeperError
from watchkeeper.store.migrations import Migration, Schema
from watchkeeper.store.postgres import connection
from watchkeeper.store.postgres.schema import shipped_schema, translated
from watchkeeper.store.postgres.store import PostgresStore
from watchkeeper.store.sqlite.schema import shipped_schema as schema_of_sqlite

NEXT = Schema(
    migrations=(
        *shipped_schema().migrations,
        Migration(name="9999_next", read=lambda: "CREATE TABLE next (id BIGINT);"),
    )
)


def add(store: PostgresStore) -> None:
    """Add a task."""
    store.transact("add", lambda tx: tx.tasks.add(make_task()))


def tables(url: str) -> list[tuple]:
    """Every one of our tables and columns."""
    return ask(
        url,
        "SELECT table_name, column_name, data_type FROM information_schema.columns "
        "WHERE table_schema = 'watchkeeper' ORDER BY 1, 2",
    )


def test_the_steps_are_those_of_sqlite() -> None:
    """Both databases are at the same number when the same version made them, so that one sentence tells both."""
    assert [step.name for step in shipped_schema().migrations] == [step.name for step in schema_of_sqlite().migrations]


def test_a_step_of_both_databases_is_said_in_the_words_of_each() -> None:
    """Types, the order of texts, the kind of a table, and fields of JSON; what else differs needs a step for each database."""
    text = """
    CREATE TABLE note (id INTEGER PRIMARY KEY, says TEXT NOT NULL CHECK (says <> ''), weight REAL) STRICT, WITHOUT ROWID;
    ALTER TABLE task ADD COLUMN team TEXT;
    UPDATE task SET team = (SELECT json_extract(spec.body, '$.team') FROM spec WHERE spec.task_id = task.id);
    """
    assert (
        translated(text)
        == """
    CREATE TABLE note (id BIGINT PRIMARY KEY, says TEXT COLLATE "C" NOT NULL CHECK (says <> ''), weight DOUBLE PRECISION);
    ALTER TABLE task ADD COLUMN team TEXT COLLATE "C";
    UPDATE task SET team = (SELECT (spec.body::json ->> 'team') FROM spec WHERE spec.task_id = task.id);
    """
    )


def test_what_steps_have_said_twice_can_be_said_once() -> None:
    """Each line of SQLite's newer steps that holds nothing of its own is, translated, one of PostgreSQL's."""
    own = ("TRIGGER", "BEGIN", "END;", "raise(", "UPDATE tally", "CREATE TABLE", "    ")
    compared = 0
    for step, theirs in zip(schema_of_sqlite().migrations[3:5], shipped_schema().migrations[3:5], strict=True):
        lines = theirs.read().splitlines()
        for line in step.read().splitlines():
            if not any(word in line for word in own):
                assert translated(line) in lines
                compared += 1
    assert compared > 30


def test_each_migration_is_recorded_with_its_hash(url: str) -> None:
    assert ask(url, "SELECT number, name, sha256 FROM watchkeeper.migration ORDER BY number") == [
        (number, step.name, hashlib.sha256(step.read().encode()).hexdigest())
        for number, step in enumerate(shipped_schema().migrations, start=1)
    ]


def test_a_reader_makes_nothing(empty: str) -> None:
    with pytest.raises(NoDatabase):
        _ = open_store(empty, create=False)
    assert ask(empty, "SELECT 1 FROM pg_namespace WHERE nspname = 'watchkeeper'") == []


def test_only_our_schema_is_touched(empty: str) -> None:
    """A database may be used by others, too."""
    _ = ask(empty, "CREATE TABLE task (theirs INTEGER)")
    store = open_store(empty)
    add(store)
    store.close()
    assert ask(empty, "SELECT count(*) FROM public.task") == [(0,)]
    assert ask(empty, "SELECT DISTINCT relnamespace::regnamespace::text FROM pg_class WHERE relname IN ('run', 'claim')") == [
        ("watchkeeper",)
    ]  # fmt: skip


def test_a_schema_of_somebody_else_is_left_alone(empty: str) -> None:
    _ = ask(empty, "CREATE SCHEMA watchkeeper CREATE TABLE photos (id INTEGER)")
    for create, upgrade in ((True, False), (False, True)):
        with pytest.raises(DatabaseUnusable, match="not one of Watchkeeper"):
            _ = open_store(empty, create=create, upgrade=upgrade)
    assert tables(empty) == [("photos", "id", "integer")]


@pytest.mark.parametrize("upgrade", [False, True])
def test_a_newer_database_is_refused(empty: str, upgrade: bool) -> None:
    open_store(empty, schema=NEXT).close()
    with pytest.raises(DatabaseNewer):
        _ = open_store(empty, upgrade=upgrade)


def test_a_database_that_becomes_newer_is_refused(url: str) -> None:
    """An upgrade under our feet is noticed by the next transaction."""
    old = open_store(url)
    open_store(url, upgrade=True, schema=NEXT).close()
    with pytest.raises(DatabaseNewer):
        add(old)
    with pytest.raises(DatabaseNewer):
        old.read(lambda tx: tx.journal.last())
    old.close()


def test_an_older_database_waits_for_the_daemon(url: str, postgres: PostgresStore) -> None:
    add(postgres)
    for create in (True, False):
        with pytest.raises(DatabaseUnusable) as caught:
            _ = open_store(url, create=create, schema=NEXT)
        assert "wk daemon start" in caught.value.hint
    upgraded = open_store(url, upgrade=True, schema=NEXT)
    assert upgraded.read(lambda tx: tx.tasks.get("t1")).id == "t1"
    upgraded.close()


def test_a_failed_migration_leaves_the_database_as_it_was(url: str) -> None:
    before = tables(url)
    broken = Migration(name="9999_broken", read=lambda: "CREATE TABLE half (id BIGINT); SELECT nonsense;")
    with pytest.raises(DatabaseUnusable):
        _ = open_store(url, upgrade=True, schema=Schema(migrations=(*shipped_schema().migrations, broken)))
    assert tables(url) == before
    open_store(url).close()


def test_a_migration_may_take_longer_than_a_statement(url: str) -> None:
    slow = Migration(name="9999_slow", read=lambda: "SELECT pg_sleep(1.5); CREATE TABLE slow (id BIGINT);")
    schema = Schema(migrations=(*shipped_schema().migrations, slow))
    store = open_store(url, upgrade=True, schema=schema, wait_s=0.5, answer_s=0.5)
    with pytest.raises(DatabaseUnusable, match="took too long"):
        _ = store.read(lambda tx: tx.rows.query("SELECT pg_sleep(1.5)"))
    store.close()


def test_a_migration_that_was_changed_afterwards_is_noticed(url: str) -> None:
    first = Migration(name="0001_first", read=lambda: shipped_schema().migrations[0].read() + "-- edited\n")
    with pytest.raises(DatabaseUnusable, match="another build"):
        _ = open_store(url, upgrade=True, schema=Schema(migrations=(first, *NEXT.migrations[1:])))


def test_a_database_that_was_upgraded_by_half_is_refused(url: str, postgres: PostgresStore) -> None:
    """A backup restored in part, say."""
    _ = ask(url, "DELETE FROM watchkeeper.migration WHERE number = 1")
    for call in (lambda: add(postgres), lambda: open_store(url, upgrade=True)):
        with pytest.raises(DatabaseCorrupt, match="by half") as caught:
            call()
        assert "Restore" in caught.value.hint


def test_many_make_it_at_once(empty: str) -> None:
    made = [subprocess.Popen([sys.executable, "-c", CREATE, empty], env=environment()) for _ in range(6)]
    assert [process.wait(60) for process in made] == [0] * 6
    store = open_store(empty, create=False)
    store.check(thorough=True)
    store.close()
    assert ask(empty, "SELECT count(*) FROM watchkeeper.meta") == [(1,)]


CREATE = "import sys; from support.postgres import open_store; s = open_store(sys.argv[1])\n"
ADD = "from support.records import make_task\ns.transact('add', lambda tx: tx.tasks.add(make_task()), durable=False)\n"
POINTS = [
    *(f"migration.{step.name}.{when}" for step in shipped_schema().migrations for when in ("before", "after")),
    "tx.migrate.before_commit",
    "tx.migrate.after_commit",
]


def environment(**given: str) -> dict[str, str]:
    """The environment of a process that finds our modules."""
    return dict(os.environ) | {"PYTHONPATH": os.pathsep.join(sys.path)} | given


def killed_at(point: str, code: str, url: str) -> bool:
    """Run that in a process of its own, which dies at the point."""
    done = subprocess.run([sys.executable, "-c", code, url], env=environment(WATCHKEEPER_CRASH_AT=point), timeout=60)  # noqa: PLW1510 - the test looks
    return done.returncode == -9


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_while_it_is_made(empty: str, point: str) -> None:
    """Killed at any step: the next one finishes it, and readers learn what is there."""
    assert killed_at(point, CREATE, empty)
    if point == "tx.migrate.after_commit":
        open_store(empty, create=False).close()
    else:
        with pytest.raises(NoDatabase):
            _ = open_store(empty, create=False)
    store = open_store(empty)
    store.check(thorough=True)
    store.close()


@pytest.mark.parametrize(("point", "there"), [("tx.add.before_commit", []), ("tx.add.after_commit", ["t1"])])
def test_a_crash_around_a_commit(url: str, postgres: PostgresStore, point: str, there: list[str]) -> None:
    assert killed_at(point, CREATE + ADD, url)
    assert postgres.read(lambda tx: tx.tasks.ids_like("", 9)) == there
    assert postgres.read(lambda tx: tx.tasks.environment_in_use("env-t1")) is bool(there)


def test_an_old_server_and_one_of_another_alphabet_are_refused(databases, monkeypatch: pytest.MonkeyPatch) -> None:
    name = databases.server.database()
    url = databases.server.url(name)
    monkeypatch.setattr(connection, "OLDEST_SERVER", 990_000)
    with pytest.raises(DatabaseUnusable, match="PostgreSQL 99 is needed"):
        _ = open_store(url)
    monkeypatch.undo()
    databases.server.ask("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    with pytest.raises(DatabaseUnusable, match="UTF-8") as caught:
        _ = open_store(databases.server.url("latin"))
    assert "createdb --encoding=UTF8" in caught.value.hint


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ("UPDATE task SET created_at = 1", "what a task is"),
        ("UPDATE spec SET task_id = 'x'", "what was asked for"),
        ("UPDATE journal SET kind = 'y'", "history"),
        ("UPDATE counter SET last = last WHERE name = 'journal'", "never given twice"),
        ("UPDATE meta SET fence = 0", "never given twice"),
        ("UPDATE spec SET body = 'no json'", "invalid input syntax"),
        ("INSERT INTO claim (task_id, run_id, fence, machine, lane) SELECT id, 'r', 9, 'm', 99 FROM task", "foreign key"),
        ("INSERT INTO outbox (kind, payload, attempts, not_before, put_at) VALUES ('', '{}', 0, 1, 1)", "check constraint"),
        ("DELETE FROM task", "foreign key"),
    ],
)  # fmt: skip
def test_the_rules_hold_against_anybody(url: str, postgres: PostgresStore, change: str, detail: str) -> None:
    """Also where a person types SQL."""
    add(postgres)
    _ = postgres.transact("j", lambda tx: (tx.journal.append("x", NOON), tx.runs.next_fence()))
    with pytest.raises(Exception, match=detail):
        _ = ask(url, f"SET search_path TO watchkeeper; {change}")
    postgres.check(thorough=True)


def test_numbers_beyond_a_column_are_refused(postgres: PostgresStore) -> None:
    with pytest.raises(WatchkeeperError, match="impossible"):
        postgres.transact("add", lambda tx: tx.tasks.add(make_task(runs=2**63)))


@pytest.mark.parametrize("text", ["naïve \udcff \x00 text", "\ud83d", "a\\b\"'%s :name $1"])
def test_texts_that_a_server_cannot_hold_are_spelt_out(postgres: PostgresStore, text: str) -> None:
    """In a message; what was asked for comes back as it was, letter for letter."""
    from dataclasses import replace

    task = make_task(reason=text)
    task = replace(task, spec=replace(task.spec, prompt=text, title="old"))
    postgres.transact("add", lambda tx: tx.tasks.add(task))
    stored = postgres.read(lambda tx: tx.tasks.get("t1"))
    assert stored.spec.prompt == text
    assert stored.reason == text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
    renamed = replace(stored, spec=replace(stored.spec, title='new \\" \udcff'))
    postgres.transact("rename", lambda tx: tx.tasks.save(renamed, stored))
    assert postgres.read(lambda tx: tx.tasks.get("t1")).spec == renamed.spec


def test_opening_costs_no_driver_for_sqlite() -> None:
    """A process that uses SQLite does not load PostgreSQL's driver."""
    code = "import sys, watchkeeper.compose, watchkeeper.store.sqlite.store; sys.exit('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=environment(), check=False).returncode == 0
