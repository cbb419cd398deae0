"""What goes wrong with files, disks and other programs, and what is said."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest
from support.records import NOON, make_spec, make_task
from support.sqlite_inside import inside

from watchkeeper.errors import (
    DatabaseBusy,
    DatabaseCorrupt,
    DatabaseFull,
    DatabaseUnusable,
    WatchkeeperError,
)
from watchkeeper.store.filesystem import refuse_network_filesystem
from watchkeeper.store.sqlite.faults import translate
from watchkeeper.store.sqlite.store import SqliteStore


def open_at(root: Path, *, create: bool = True, wait_s: float = 0.2) -> SqliteStore:
    """Open the database of that directory."""
    return SqliteStore.open(root / "wk.db", root / "write.lock", create=create, upgrade=False, wait_s=wait_s)


def add(store: SqliteStore, task_id: str = "t1", prompt: str = "x") -> None:
    """Add a task."""
    store.transact("add", lambda tx: tx.tasks.add(make_task(task_id, spec=make_spec(prompt=prompt))))


def ids(store: SqliteStore) -> list[str]:
    """The ids of all tasks."""
    return store.read(lambda tx: tx.tasks.ids_like("", 10_000))


def test_not_a_database(tmp_path: Path) -> None:
    (tmp_path / "wk.db").write_bytes(b"dear diary, " * 1000)
    for create in (True, False):
        with pytest.raises(DatabaseCorrupt, match="damaged") as caught:
            _ = open_at(tmp_path, create=create)
        assert "backup" in caught.value.hint


def test_a_damaged_page_is_noticed(tmp_path: Path) -> None:
    """By the check, and by a reader that meets it; what can be read is not changed."""
    store = open_at(tmp_path)
    for number in range(50):
        add(store, f"t{number}", "x" * 1000)
    store.close()
    path = tmp_path / "wk.db"
    content = bytearray(path.read_bytes())
    for page in range(4096 * 2, len(content), 4096):
        content[page : page + 64] = os.urandom(64)
    path.write_bytes(content)
    store = open_at(tmp_path)
    with pytest.raises(DatabaseCorrupt):
        store.check()
    with pytest.raises(DatabaseCorrupt):
        _ = store.read(lambda tx: [tx.tasks.get(one) for one in tx.tasks.ids_like("", 99)])


def test_a_healthy_database_passes_the_check(sqlite: SqliteStore) -> None:
    add(sqlite)
    sqlite.check()
    sqlite.check(thorough=True)


@pytest.mark.parametrize(
    "change",
    ["UPDATE task SET kind = 'gone_mad'", "UPDATE task SET stop_how = 'stop', stop_by = 'x', stop_at = 9e15 * 1000"],
)
def test_an_unreadable_record_is_named(sqlite: SqliteStore, change: str) -> None:
    """R13: a word that we do not know is not guessed at."""
    add(sqlite)
    _ = inside(sqlite).query("PRAGMA query_only=OFF; PRAGMA ignore_check_constraints=ON; " + change)
    with pytest.raises(DatabaseCorrupt, match="t1"):
        _ = sqlite.read(lambda tx: tx.tasks.get("t1"))


def test_an_unknown_field_of_a_spec_is_not_left_out(sqlite: SqliteStore) -> None:
    """R13: running a task without something that was asked for is running something else."""
    add(sqlite)
    _ = inside(sqlite).query(
        "PRAGMA query_only=OFF; DROP TRIGGER spec_kept; UPDATE spec SET body = json_set(body, '$.sandbox', 'strict')"
    )
    with pytest.raises(DatabaseCorrupt, match="t1"):
        _ = sqlite.read(lambda tx: tx.tasks.get("t1"))


def test_an_effect_of_a_newer_version_stands_in_nobodys_way(sqlite: SqliteStore) -> None:
    """It is kept, and what we know is done although many unknown ones came first."""
    from watchkeeper.domain.effects import ForgetEnvironment

    known = ForgetEnvironment(environment_id="e")

    def work(tx):
        for number in range(150):
            _ = inside(sqlite).run("outbox_put", kind="dance", payload=f'{{"step":{number}}}', at=1, machine="")
        _ = inside(sqlite).run("outbox_put", kind="forget_environment", payload='{"new":1}', at=1, machine="")
        tx.outbox.put([known], NOON)

    sqlite.transact("put", work)
    assert [row.effect for row in sqlite.read(lambda tx: tx.outbox.due(NOON, 5))] == [known]
    assert sqlite.read(lambda tx: (tx.outbox.next_due(), tx.outbox.pending())) == (NOON, 152)


def test_a_deleted_database_is_noticed(tmp_path: Path) -> None:
    store = open_at(tmp_path)
    add(store)
    for name in ("wk.db", "wk.db-wal", "wk.db-shm"):
        (tmp_path / name).unlink()
    with pytest.raises(DatabaseUnusable, match="deleted"):
        add(store, "t2")
    with pytest.raises(DatabaseUnusable):
        _ = ids(store)
    assert not (tmp_path / "wk.db").exists()


def test_a_replaced_database_is_noticed_and_then_used(tmp_path: Path) -> None:
    """A restored backup: the transaction that meets it fails, the next one goes to the new file."""
    store, other = open_at(tmp_path), tmp_path / "other"
    add(store)
    other.mkdir()
    second = open_at(other)
    add(second, "from-the-backup")
    second.close()
    _, mark = store.changed(0)
    for name in ("wk.db-wal", "wk.db-shm"):
        (tmp_path / name).unlink()
    (other / "wk.db").replace(tmp_path / "wk.db")
    with pytest.raises(DatabaseUnusable, match="replaced"):
        _ = ids(store)
    assert ids(store) == ["from-the-backup"]
    assert store.changed(mark)[0]


def test_a_writer_outside_the_write_lock_is_waited_for(tmp_path: Path) -> None:
    """A database browser, say: bounded, and the sentence says what to do."""
    store = open_at(tmp_path)
    browser = apsw.Connection(str(tmp_path / "wk.db"))
    _ = browser.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseBusy, match="another program"):
        add(store)
    assert ids(store) == []
    _ = browser.execute("ROLLBACK")
    add(store)
    assert ids(store) == ["t1"]


def test_a_database_that_may_not_grow(tmp_path: Path) -> None:
    """A full disk, by way of SQLite's own limit: nothing is half done, reading continues, and writing does too when there is room."""
    store = open_at(tmp_path)
    add(store)
    pages = inside(store).pragma("page_count")
    _ = inside(store).query(f"PRAGMA max_page_count={pages + 2}")
    with pytest.raises(DatabaseFull, match="full"):
        add(store, "t2", "x" * 100_000)
    assert ids(store) == ["t1"]
    add(store, "t2", "x" * 100_000)  # the connection was given up, and its limit with it
    store.check(thorough=True)


def can_mount() -> bool:
    """Whether a small file system can be mounted here."""
    if os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory() as where:
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", where], check=False).returncode:
            return False
        return subprocess.run(["umount", where], check=False).returncode == 0


@contextmanager
def small_disk(where: Path) -> Generator[Path, None, None]:
    """A file system of 600 kB."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(where)], check=True)
    try:
        yield where
    finally:
        subprocess.run(["umount", str(where)], check=True)


if can_mount():  # else there is nothing to test on, and the limit above stands for it

    def test_a_full_disk(tmp_path: Path) -> None:
        """Every task that was acknowledged is there, the others are not, and freeing space is enough to continue."""
        with small_disk(tmp_path) as disk:
            store = open_at(disk)
            ballast = disk / "ballast"
            ballast.write_bytes(b"x" * 100_000)
            added: list[str] = []

            def add_on() -> None:
                for number in range(1000):
                    add(store, f"t{number:03}", "x" * 5000)
                    added.append(f"t{number:03}")

            with pytest.raises(DatabaseFull):
                add_on()
            with pytest.raises(DatabaseFull):
                add(store, "late", "x" * 50_000)
            assert sorted(ids(store)) == added != []
            ballast.unlink()
            add(store, "again")
            store.check(thorough=True)
            assert sorted(ids(store)) == ["again", *added]
            store.close()

    def test_a_disk_that_is_full_from_the_start(tmp_path: Path) -> None:
        with small_disk(tmp_path) as disk:
            ballast = disk / "ballast"
            with pytest.raises(OSError, match="space"):
                ballast.write_bytes(b"x" * 700_000)
            with pytest.raises(DatabaseUnusable):
                _ = open_at(disk)
            ballast.unlink()
            open_at(disk).close()


@contextmanager
def as_nobody(directory: Path, mode: int) -> Generator[None, None, None]:
    """Be a user whom permissions hold back, with that directory in this mode."""
    root = os.geteuid() == 0
    directory.chmod(mode)
    if root:
        for path in (directory, *directory.iterdir()):
            os.chown(path, 65534, 65534)
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        directory.chmod(0o700)


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that everybody can reach."""
    with tempfile.TemporaryDirectory(dir="/tmp") as where:
        yield Path(where)


@pytest.mark.parametrize("create", [True, False])
def test_a_directory_that_cannot_be_written(open_directory: Path, create: bool) -> None:
    with as_nobody(open_directory, 0o500), pytest.raises(DatabaseUnusable):
        _ = open_at(open_directory, create=create)
    assert list(open_directory.iterdir()) == []


def test_a_database_that_cannot_be_written(open_directory: Path) -> None:
    store = open_at(open_directory)
    add(store)
    store.close()
    (open_directory / "wk.db").chmod(0o400)
    with as_nobody(open_directory, 0o700):
        store = open_at(open_directory)
        with pytest.raises(DatabaseUnusable, match="cannot be written") as caught:
            add(store, "t2")
        assert "permissions" in caught.value.hint
        assert ids(store) == ["t1"]
        store.close()


def test_a_write_lock_that_cannot_be_opened(open_directory: Path) -> None:
    """Reading needs no turn."""
    store = open_at(open_directory)
    add(store)
    store.close()
    (open_directory / "write.lock").chmod(0o000)
    with as_nobody(open_directory, 0o700):
        store = open_at(open_directory)
        with pytest.raises(DatabaseUnusable, match=r"write\.lock"):
            add(store, "t2")
        assert ids(store) == ["t1"]
        store.close()


@pytest.mark.parametrize(
    "error", [kind for kind in vars(apsw).values() if isinstance(kind, type) and issubclass(kind, apsw.Error)]
)
def test_every_error_of_sqlite_has_a_sentence(tmp_path: Path, error: Callable[[str], apsw.Error]) -> None:
    """One sentence and what to do next; none comes through as it is."""
    said = translate(error("bad luck"), tmp_path / "wk.db")
    assert isinstance(said, WatchkeeperError)
    assert str(said).endswith((".", "nothing was changed.", "nothing was written."))
    assert said.hint or not isinstance(said, DatabaseUnusable)


def test_where_the_system_does_not_tell_nothing_is_refused(tmp_path: Path) -> None:
    refuse_network_filesystem(tmp_path, tmp_path / "missing")
