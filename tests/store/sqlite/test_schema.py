"""Migrations, versions, and how a database comes to be."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from enum import StrEnum
from importlib.resources import files
from pathlib import Path

import apsw
import pytest
from support.records import make_task
from support.source import ROOT
from support.sqlite_inside import inside
from support.statements import own, statements, topics

from watchkeeper.domain.model import (
    Cause,
    Disposition,
    OutcomeStatus,
    Proof,
    RunState,
    StopHow,
    TaskState,
)
from watchkeeper.errors import DatabaseNewer, DatabaseUnusable, NoDatabase
from watchkeeper.store import migrations
from watchkeeper.store.migrations import Migration, Schema
from watchkeeper.store.sqlite.connection import OLDEST_SQLITE, refuse_old_sqlite
from watchkeeper.store.sqlite.schema import PACKAGE, dump, shipped_schema
from watchkeeper.store.sqlite.store import SqliteStore
from watchkeeper.store.statements import SHARED, Statements, parameters

TOPICS = (
    "commands",
    "tasks",
    "damage",
    "database",
    "repair",
    "runs",
    "queue",
    "rules",
    "waits",
    "accounts",
    "outcomes",
    "journal",
    "messages",
    "notices",
    "outbox",
    "machines",
    "deletion",
)
DUMP = ROOT / "docs" / "schema.sql"
NEXT = Schema(
    migrations=(
        *shipped_schema().migrations,
        Migration(name="9999_next", read=lambda: "CREATE TABLE next (id INTEGER) STRICT;"),
    )
)


def open_at(root: Path, *, create: bool = False, upgrade: bool = False, schema: Schema | None = None) -> SqliteStore:
    """Open the database of that directory."""
    return SqliteStore.open(
        root / "wk.db", root / "write.lock", create=create, upgrade=upgrade, wait_s=5, schema=schema
    )


def test_the_dump_is_the_migrations(sqlite: SqliteStore) -> None:
    """`docs/schema.sql` is what a reader looks at, and it is what the migrations make."""
    assert dump(inside(sqlite)) == DUMP.read_text(encoding="utf-8")


def test_every_migration_is_known() -> None:
    """Each number is there once, and every text can be read."""
    assert [int(step.name[:4]) for step in shipped_schema().migrations] == list(range(1, shipped_schema().number + 1))
    assert shipped_schema().number >= 5 and all(step.read().strip() for step in shipped_schema().migrations)


def test_a_step_of_every_database_has_its_place_by_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands once, among those that each database says in its own way."""
    for package, names in (("one", ("0001_first", "0003_third", "notes", "x0004_no")), ("both", ("0002_second",))):
        (tmp_path / package / "migrations").mkdir(parents=True)
        (tmp_path / package / "__init__.py").touch()
        for name in names:
            (tmp_path / package / "migrations" / f"{name}.sql").write_text(f"{package} {name}", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(migrations, "SHARED", "both")
    found = migrations.shipped("one", str.upper).migrations
    assert [(step.name, step.read()) for step in found] == [
        ("0001_first", "one 0001_first"),
        ("0002_second", "BOTH 0002_SECOND"),
        ("0003_third", "one 0003_third"),
    ]


def test_each_migration_is_recorded_with_its_hash(sqlite: SqliteStore) -> None:
    rows = inside(sqlite).query("SELECT number, name, sha256 FROM migration ORDER BY number")
    assert rows == [
        (number, step.name, hashlib.sha256(step.read().encode()).hexdigest())
        for number, step in enumerate(shipped_schema().migrations, start=1)
    ]
    assert inside(sqlite).pragma("user_version") == shipped_schema().number


@pytest.mark.parametrize(
    ("table", "column", "kind"),
    [("task", "state", TaskState), ("run", "state", RunState), ("run", "cause", Cause), ("task", "stop_how", StopHow),
     ("outcome", "status", OutcomeStatus), ("outcome", "disposition", Disposition), ("outcome", "proof", Proof)],
)  # fmt: skip
def test_the_database_knows_the_words_of_the_rules(
    sqlite: SqliteStore, table: str, column: str, kind: type[StrEnum]
) -> None:
    """The lists in the CHECK constraints are the enumerations of the domain."""
    (sql,) = inside(sqlite).query(f"SELECT sql FROM sqlite_schema WHERE name = '{table}'")[0]
    listed = str(sql).split(f"CHECK ({column} IN (", 1)[1].split(")", 1)[0]
    assert {word.strip(" '\n") for word in listed.split(",")} == {word.value for word in kind}


def test_statements_live_where_their_names_say() -> None:
    assert topics() == sorted(TOPICS)
    for package in (SHARED, PACKAGE):
        for file, named in own(package).items():
            assert {name.partition("_")[0] for name in named} == {file.removesuffix(".sql")}


def test_statements_are_used_and_used_ones_exist() -> None:
    """No statement without a caller, no caller without a statement."""
    source = "".join(path.read_text() for path in Path(str(files("watchkeeper.store"))).glob("*.py"))
    assert {name for name in statements(PACKAGE) if f'"{name}"' not in source} == set()
    with pytest.raises(KeyError):
        _ = Statements(PACKAGE)["tasks_nothing"]


def test_parameters_are_read_from_the_statement() -> None:
    assert parameters("SELECT :a, ':b' || x::int WHERE y = :c_d") >= {"a", "c_d"}


def test_a_reader_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(NoDatabase):
        _ = open_at(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_anything_in_it_is_no_database(tmp_path: Path) -> None:
    """A crash may have left one; a reader says so, and a process that creates the database continues from there."""
    (tmp_path / "wk.db").touch()
    with pytest.raises(NoDatabase):
        _ = open_at(tmp_path)
    open_at(tmp_path, create=True).check(thorough=True)


def test_only_we_can_read_it(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        store = open_at(tmp_path, create=True)
        store.transact("add", lambda tx: tx.tasks.add(make_task()))
        assert {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()} == dict.fromkeys(
            ("wk.db", "wk.db-wal", "wk.db-shm", "wk.db.newest", "write.lock"), "0o600"
        )
    finally:
        _ = os.umask(old)


@pytest.mark.parametrize("upgrade", [False, True])
def test_a_newer_database_is_refused(tmp_path: Path, upgrade: bool) -> None:
    open_at(tmp_path, create=True, schema=NEXT).close()
    with pytest.raises(DatabaseNewer):
        _ = open_at(tmp_path, create=True, upgrade=upgrade)


def test_a_database_that_becomes_newer_is_refused(tmp_path: Path) -> None:
    """An upgrade under our feet is noticed by the next transaction."""
    old = open_at(tmp_path, create=True)
    open_at(tmp_path, upgrade=True, schema=NEXT).close()
    with pytest.raises(DatabaseNewer):
        old.transact("add", lambda tx: tx.tasks.add(make_task()))
    with pytest.raises(DatabaseNewer):
        old.read(lambda tx: tx.journal.last())


def test_an_older_database_waits_for_the_daemon(tmp_path: Path) -> None:
    store = open_at(tmp_path, create=True)
    store.transact("add", lambda tx: tx.tasks.add(make_task()))
    store.close()
    for create in (True, False):
        with pytest.raises(DatabaseUnusable) as caught:
            _ = open_at(tmp_path, create=create, schema=NEXT)
        assert "wk daemon start" in caught.value.hint
    upgraded = open_at(tmp_path, upgrade=True, schema=NEXT)
    assert upgraded.read(lambda tx: tx.tasks.get("t1")).id == "t1"
    applied = inside(upgraded).query("SELECT number FROM migration ORDER BY number")
    assert [row[0] for row in applied] == list(range(1, NEXT.number + 1))


def test_a_failed_migration_leaves_the_database_as_it_was(tmp_path: Path) -> None:
    open_at(tmp_path, create=True).close()
    broken = Migration(name="9999_broken", read=lambda: "CREATE TABLE half (id INTEGER) STRICT; SELECT nonsense;")
    with pytest.raises(DatabaseUnusable):
        _ = open_at(tmp_path, upgrade=True, schema=Schema(migrations=(*shipped_schema().migrations, broken)))
    store = open_at(tmp_path)
    assert dump(inside(store)) == DUMP.read_text(encoding="utf-8")


def test_a_migration_that_was_changed_afterwards_is_noticed(tmp_path: Path) -> None:
    open_at(tmp_path, create=True).close()
    first = Migration(name="0001_first", read=lambda: shipped_schema().migrations[0].read() + "-- edited\n")
    with pytest.raises(DatabaseUnusable, match="another build"):
        _ = open_at(tmp_path, upgrade=True, schema=Schema(migrations=(first, *NEXT.migrations[1:])))


@pytest.mark.parametrize("version", [0, 1, 9])
def test_a_database_of_somebody_else_is_left_alone(tmp_path: Path, version: int) -> None:
    other = apsw.Connection(str(tmp_path / "wk.db"))
    _ = other.execute(f"CREATE TABLE photos (id); PRAGMA user_version={version}")
    other.close()
    before = (tmp_path / "wk.db").read_bytes()
    for create, upgrade in ((True, False), (False, True)):
        with pytest.raises(DatabaseUnusable, match="not a database of Watchkeeper"):
            _ = open_at(tmp_path, create=create, upgrade=upgrade)
    assert (tmp_path / "wk.db").read_bytes() == before


def test_an_old_sqlite_is_refused() -> None:
    refuse_old_sqlite()
    refuse_old_sqlite(".".join(map(str, OLDEST_SQLITE)))
    with pytest.raises(DatabaseUnusable, match=r"3\.51\.2"):
        refuse_old_sqlite("3.51.2")


CREATE = """
import sys
from pathlib import Path
from watchkeeper.store.sqlite.store import SqliteStore
root = Path(sys.argv[1])
SqliteStore.open(root / "wk.db", root / "write.lock", create=True, upgrade=False)
"""
POINTS = [
    "database.file.before", "database.file.after", "migration.0001_first.before", "migration.0001_first.after",
    "tx.migrate.before_commit", "tx.migrate.after_commit",
]  # fmt: skip


def run_python(code: str, root: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run some Python in a process of its own."""
    env = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment
    return subprocess.run([sys.executable, "-c", code, str(root)], env=env, capture_output=True, text=True, timeout=60)  # noqa: PLW1510 - the test looks


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_while_it_is_made(tmp_path: Path, point: str) -> None:
    """Killed at any step of making the database: the next one finishes it, and readers learn what is there."""
    assert run_python(CREATE, tmp_path, WATCHKEEPER_CRASH_AT=point).returncode == -9
    if point == "tx.migrate.after_commit":
        open_at(tmp_path).close()
    else:
        with pytest.raises(NoDatabase):
            _ = open_at(tmp_path)
    open_at(tmp_path, create=True).check(thorough=True)


@pytest.mark.parametrize(("point", "there"), [("tx.add.before_commit", []), ("tx.add.after_commit", ["t1"])])
def test_a_crash_around_a_commit(tmp_path: Path, sqlite: SqliteStore, point: str, there: list[str]) -> None:
    code = CREATE.replace("SqliteStore.open(", "s = SqliteStore.open(") + (
        "from support.records import make_task\ns.transact('add', lambda tx: tx.tasks.add(make_task()))\n"
    )
    assert run_python(code, tmp_path, WATCHKEEPER_CRASH_AT=point).returncode == -9
    assert sqlite.read(lambda tx: tx.tasks.ids_like("", 9)) == there


def test_many_make_it_at_once(tmp_path: Path, store_factory: Callable[[], SqliteStore]) -> None:
    root = tmp_path / "new"
    root.mkdir()
    env = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(sys.path)}
    made = [subprocess.Popen([sys.executable, "-c", CREATE, str(root)], env=env) for _ in range(6)]
    assert [process.wait(60) for process in made] == [0] * 6
    store = open_at(root)
    store.check(thorough=True)
    assert len(inside(store).query("SELECT * FROM meta")) == 1
