"""Backups: of one moment, whole or not there; and restores, killed at every step."""

import contextlib
import itertools
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.records import make_task
from support.sqlite_inside import inside
from support.waiting import wait_until

from watchkeeper.errors import (
    DatabaseBusy,
    DatabaseCorrupt,
    DatabaseNewer,
    DatabaseUnusable,
    NoDatabase,
    Refused,
)
from watchkeeper.store.sqlite import copying
from watchkeeper.store.sqlite.backup import SqliteBackups
from watchkeeper.store.sqlite.restore import STEP
from watchkeeper.store.sqlite.schema import Schema, shipped_schema
from watchkeeper.store.sqlite.store import SqliteStore

Add = Callable[..., None]


def no_progress(done: int, total: int) -> None:
    """Show nothing."""


@pytest.fixture
def backups(tmp_path: Path) -> SqliteBackups:
    """Those of the database of the `sqlite` fixture."""
    return SqliteBackups(tmp_path / "wk.db", tmp_path / "write.lock", wait_s=0.2)


@pytest.fixture
def add(sqlite: SqliteStore) -> Add:
    """Adds tasks by their ids."""

    def adding(*ids: str) -> None:
        for task_id in ids:
            sqlite.transact("add", lambda tx, name=task_id: tx.tasks.add(make_task(name)))

    return adding


def ids_in(path: Path) -> set[str]:
    """The tasks in a database file."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        return {name for (name,) in db.execute("SELECT id FROM task")}


def test_a_backup_is_one_private_file_that_needs_nothing_beside_it(
    tmp_path: Path, backups: SqliteBackups, add: Add
) -> None:
    add("aaaaaaaa", "bbbbbbbb")
    place = tmp_path / "elsewhere"
    place.mkdir()
    facts = backups.create(place / "b.db", replace=False, progress=no_progress)
    assert (facts.path, facts.tasks) == (place / "b.db", 2)
    assert [each.name for each in place.iterdir()] == ["b.db"]
    assert facts.path.stat().st_mode & 0o777 == 0o600
    assert facts.path.stat().st_size == facts.size
    add("cccccccc")
    assert ids_in(facts.path) == {"aaaaaaaa", "bbbbbbbb"}
    assert backups.inspect(facts.path, no_progress) == facts
    assert [each.name for each in place.iterdir()] == ["b.db"]


def test_a_backup_is_of_one_moment_while_others_write(
    tmp_path: Path, backups: SqliteBackups, add: Add, sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another connection commits after each page that is copied; the copy is of the moment when it began, and it does not begin anew."""
    add("aaaaaaaa")
    monkeypatch.setattr(copying, "PAGES_AT_ONCE", 1)
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        seen.append((done, total))
        sqlite.transact("add", lambda tx: tx.tasks.add(make_task(f"b{len(seen):07d}")))

    facts = backups.create(tmp_path / "b.db", replace=False, progress=progress)
    assert ids_in(facts.path) == {"aaaaaaaa"}
    assert seen == [(done, seen[0][1]) for done in range(1, seen[0][1] + 1)]


def test_nothing_is_overwritten_unless_that_is_asked_for(tmp_path: Path, backups: SqliteBackups, add: Add) -> None:
    add("aaaaaaaa")
    file = tmp_path / "elsewhere" / "b.db"
    file.parent.mkdir()
    file.write_text("mine", encoding="utf-8")
    with pytest.raises(Refused, match="already"):
        backups.create(file, replace=False, progress=no_progress)
    assert file.read_text(encoding="utf-8") == "mine"
    for _ in range(2):
        backups.create(file, replace=True, progress=no_progress)
        assert ids_in(file) == {"aaaaaaaa"}
    with pytest.raises(Refused, match="itself"):
        backups.create(tmp_path / "wk.db", replace=True, progress=no_progress)
    with pytest.raises(Refused, match="is a directory"):
        backups.create(tmp_path, replace=True, progress=no_progress)


def test_nobody_s_word_puts_a_backup_over_what_the_database_lives_by(
    tmp_path: Path, backups: SqliteBackups, add: Add
) -> None:
    """Its log, its lock, another database, a device: replaced, they would be lost for the processes that work with them."""
    add("aaaaaaaa")
    (tmp_path / "node").write_text("m1", encoding="utf-8")
    (tmp_path / "elsewhere").mkdir()
    other = SqliteStore.open(
        tmp_path / "elsewhere" / "wk.db", tmp_path / "elsewhere" / "write.lock", create=True, upgrade=False
    )
    os.mkfifo(tmp_path / "elsewhere" / "pipe")
    bad = [
        "wk.db-wal",
        "wk.db-shm",
        "wk.db-journal",
        "wk.db.restoring",
        "write.lock",
        "node",
        "elsewhere/wk.db",
        "elsewhere/pipe",
    ]
    before = {name: (tmp_path / name).stat().st_ino for name in bad if (tmp_path / name).exists()}
    for name in bad:
        with pytest.raises(Refused):
            backups.create(tmp_path / name, replace=True, progress=no_progress)
    assert before == {name: (tmp_path / name).stat().st_ino for name in bad if (tmp_path / name).exists()}
    for _ in range(2):
        backups.create(tmp_path / "b.db", replace=True, progress=no_progress)
    other.close()


def test_what_is_wrong_with_a_backup_is_said_of_it(tmp_path: Path, backups: SqliteBackups, add: Add) -> None:
    """Not of the copy, which is gone by then."""
    add(*(f"a{number:07d}" for number in range(200)))
    file = backups.create(tmp_path / "b.db", replace=False, progress=no_progress).path
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(DatabaseCorrupt, match=r"b\.db"), backups.stage(file, no_progress):
        pass
    assert not (tmp_path / "wk.db.restoring").exists()


def test_a_name_that_is_taken_meanwhile_is_left_alone(tmp_path: Path, backups: SqliteBackups, add: Add) -> None:
    add("aaaaaaaa")

    def progress(_done: int, _total: int) -> None:
        (tmp_path / "b.db").write_text("mine", encoding="utf-8")

    with pytest.raises(Refused, match="already"):
        backups.create(tmp_path / "b.db", replace=False, progress=progress)
    assert (tmp_path / "b.db").read_text(encoding="utf-8") == "mine"
    assert not list(tmp_path.glob(".*.tmp"))


def test_of_a_damaged_database_no_backup_is_made(
    tmp_path: Path, backups: SqliteBackups, add: Add, sqlite: SqliteStore
) -> None:
    """Whichever page is damaged, and whether that is noticed in the database or in the copy: the error names the database."""
    add(*(f"a{number:07d}" for number in range(40)))
    sqlite.close()
    whole, size = (tmp_path / "wk.db").read_bytes(), 4096
    refused = 0
    for start in range(0, len(whole), size):
        (tmp_path / "wk.db").write_bytes(whole[:start] + b"\0" * size + whole[start + size :])
        said = _complaint(backups, tmp_path / "b.db")
        assert not list(tmp_path.glob(".*.tmp"))
        if said:
            refused += 1
            assert str(tmp_path / "wk.db") in said and "no backup was made" in said and ".tmp" not in said, said
            assert not (tmp_path / "b.db").exists()
        else:
            assert ids_in(tmp_path / "b.db") == {f"a{number:07d}" for number in range(40)}
            (tmp_path / "b.db").unlink()
    assert refused > len(whole) // size // 2


def _complaint(backups: SqliteBackups, file: Path) -> str:
    """What is wrong with the database when a backup of it is wanted; empty if one was made."""
    try:
        backups.create(file, replace=True, progress=no_progress)
    except DatabaseCorrupt as error:
        return str(error)
    return ""


def test_a_database_that_lost_its_mark_is_damaged(
    tmp_path: Path, backups: SqliteBackups, add: Add, sqlite: SqliteStore
) -> None:
    """It is not called another program's backup."""
    add("aaaaaaaa")
    _ = inside(sqlite).query("PRAGMA application_id=0")
    sqlite.close()
    with pytest.raises(DatabaseCorrupt, match=r"wk\.db' is damaged.*no backup was made"):
        backups.create(tmp_path / "b.db", replace=False, progress=no_progress)
    assert not (tmp_path / "b.db").exists()


def test_where_it_cannot_be_written_a_sentence_says_so(tmp_path: Path, backups: SqliteBackups, add: Add) -> None:
    with pytest.raises(DatabaseUnusable, match="cannot be written"):
        backups.create(tmp_path / "no" / "b.db", replace=False, progress=no_progress)
    add("aaaaaaaa")
    nowhere = SqliteBackups(tmp_path / "none.db", tmp_path / "write.lock")
    with pytest.raises(NoDatabase):
        nowhere.create(tmp_path / "b.db", replace=False, progress=no_progress)


def test_what_is_no_backup_of_ours_is_refused(tmp_path: Path, backups: SqliteBackups, add: Add) -> None:
    add("aaaaaaaa")
    text, foreign, newer, torn = (tmp_path / name for name in ("text", "foreign", "newer", "torn"))
    text.write_text("SELECT 1;\n", encoding="utf-8")
    with contextlib.closing(sqlite3.connect(foreign)) as db:
        db.execute("CREATE TABLE task (id TEXT)")
        db.commit()
    backups.create(newer, replace=False, progress=no_progress)
    with contextlib.closing(sqlite3.connect(newer)) as db:
        db.execute("PRAGMA user_version=4000")
    backups.create(torn, replace=False, progress=no_progress)
    os.truncate(torn, torn.stat().st_size // 2)
    before = (tmp_path / "wk.db").read_bytes()
    for file, error in (
        (text, DatabaseUnusable),
        (foreign, DatabaseUnusable),
        (newer, DatabaseNewer),
        (torn, DatabaseCorrupt),
        (tmp_path, DatabaseUnusable),
        (tmp_path / "missing", DatabaseUnusable),
    ):
        with pytest.raises(error):
            backups.inspect(file, no_progress)
        with pytest.raises(error), backups.stage(file, no_progress):
            pass
        assert not (tmp_path / "wk.db.restoring").exists()
    assert (tmp_path / "wk.db").read_bytes() == before


def test_a_restore_puts_the_copy_in_place_and_keeps_what_was_there(
    tmp_path: Path, backups: SqliteBackups, add: Add, sqlite: SqliteStore
) -> None:
    add("aaaaaaaa")
    fence = sqlite.transact("fence", lambda tx: tx.runs.next_fence())
    last = sqlite.transact("say", lambda tx: tx.journal.append("x", make_task("x").created_at))
    backups.create(tmp_path / "b.db", replace=False, progress=no_progress)
    add("bbbbbbbb")
    sqlite.close()
    with backups.stage(tmp_path / "b.db", no_progress) as staged:
        staged.skip_numbers(fence + 5)
        kept = staged.put_in_place("then")
    assert kept is not None
    assert kept == tmp_path / "wk.db.before-restore-then"
    assert ids_in(kept) == {"aaaaaaaa", "bbbbbbbb"}
    assert ids_in(tmp_path / "b.db") == {"aaaaaaaa"}
    assert (tmp_path / "wk.db").stat().st_mode & 0o777 == 0o600
    with contextlib.closing(_open(tmp_path)) as store:
        assert store.transact("fence", lambda tx: tx.runs.next_fence()) == fence + 5 + STEP + 1
        said = store.transact("say", lambda tx: tx.journal.append("x", make_task("x").created_at))
        assert said == last + STEP + 1
        store.check(thorough=True)
    assert ids_in(tmp_path / "wk.db") == {"aaaaaaaa"}


def test_an_older_database_is_backed_up_as_it_is_and_restored_up_to_date(tmp_path: Path) -> None:
    """A backup is what one makes before an upgrade."""
    first = Schema(migrations=shipped_schema().migrations[:1])
    SqliteStore.open(tmp_path / "wk.db", tmp_path / "write.lock", create=True, upgrade=False, schema=first).close()
    backups = SqliteBackups(tmp_path / "wk.db", tmp_path / "write.lock")
    assert backups.create(tmp_path / "b.db", replace=False, progress=no_progress).schema == 1
    with backups.stage(tmp_path / "b.db", no_progress) as staged:
        staged.skip_numbers(0)
        staged.put_in_place("then")
    with contextlib.closing(_open(tmp_path)) as store:
        store.check(thorough=True)
        assert store.read(lambda tx: tx.tasks.counts())
    assert backups.inspect(tmp_path / "b.db", no_progress).schema == 1


def test_a_restore_on_a_new_machine_makes_the_database(tmp_path: Path, backups: SqliteBackups, add: Add) -> None:
    add("aaaaaaaa")
    backups.create(tmp_path / "b.db", replace=False, progress=no_progress)
    new = tmp_path / "new"
    new.mkdir()
    there = SqliteBackups(new / "wk.db", new / "write.lock")
    with there.stage(tmp_path / "b.db", no_progress) as staged:
        assert staged.put_in_place("then") is None
    assert ids_in(new / "wk.db") == {"aaaaaaaa"}
    assert sorted(each.name for each in new.iterdir()) == ["wk.db", "write.lock"]


def test_what_was_not_put_in_place_is_deleted(tmp_path: Path, backups: SqliteBackups, add: Add) -> None:
    add("aaaaaaaa")
    backups.create(tmp_path / "b.db", replace=False, progress=no_progress)
    with backups.stage(tmp_path / "b.db", no_progress) as staged:
        assert staged.facts.tasks == 1
    assert not list(tmp_path.glob("wk.db.restoring*"))


def test_a_database_that_is_open_elsewhere_is_not_replaced(
    tmp_path: Path, backups: SqliteBackups, add: Add, sqlite: SqliteStore
) -> None:
    """A reader in another process is named by its pid. Nothing was changed."""
    add("aaaaaaaa")
    backups.create(tmp_path / "b.db", replace=False, progress=no_progress)
    add("bbbbbbbb")
    sqlite.close()
    code = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('SELECT 1 FROM task').fetchall(); print(1, flush=True); input()"
    reader = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "wk.db")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"1\n"
        with (
            pytest.raises(DatabaseBusy, match=rf"process {reader.pid}\b"),
            backups.stage(tmp_path / "b.db", no_progress) as staged,
        ):
            staged.put_in_place("then")
    finally:
        reader.communicate(b"\n")
    assert ids_in(tmp_path / "wk.db") == {"aaaaaaaa", "bbbbbbbb"}
    assert not list(tmp_path.glob("wk.db.restoring*")) + list(tmp_path.glob("*before-restore*"))


def test_who_opens_the_database_meanwhile_waits_and_sees_the_new_one(
    tmp_path: Path, backups: SqliteBackups, add: Add, sqlite: SqliteStore
) -> None:
    add("aaaaaaaa")
    backups.create(tmp_path / "b.db", replace=False, progress=no_progress)
    add("bbbbbbbb")
    sqlite.close()
    stop = threading.Event()
    seen: list[int] = []
    problems: list[Exception] = []

    def look() -> None:
        while not stop.is_set():
            try:
                with contextlib.closing(_open(tmp_path)) as store:
                    seen.append(sum(store.read(lambda tx: tx.tasks.counts()).values()))
            except DatabaseUnusable as error:  # "was deleted or replaced": it had opened the old file just before
                problems.append(error)

    patient = SqliteBackups(tmp_path / "wk.db", tmp_path / "write.lock", wait_s=20)
    thread = threading.Thread(target=look)
    thread.start()
    try:
        wait_until(lambda: len(seen) > 3, what="it looks")
        with patient.stage(tmp_path / "b.db", no_progress) as staged:
            staged.put_in_place("then")
        count = len(seen)
        wait_until(lambda: len(seen) > count + 3, what="it looked again")
    finally:
        stop.set()
        thread.join()
    assert seen[0] == 2
    assert seen[-1] == 1
    assert [str(problem) for problem in problems if "replaced" not in str(problem)] == []
    assert ids_in(tmp_path / "wk.db") == {"aaaaaaaa"}


_RESTORE = """
import sys
from pathlib import Path
from watchkeeper.store.sqlite.backup import SqliteBackups
home = Path(sys.argv[1])
with SqliteBackups(home / "wk.db", home / "write.lock").stage(home / "b.db", lambda done, total: None) as staged:
    staged.skip_numbers(7)
    staged.put_in_place("then")
"""


def _restore(home: Path, **more: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", _RESTORE, str(home)], env=os.environ | more, capture_output=True, check=False
    )
    assert done.returncode in {0, -9}, done.stderr.decode()
    return done.returncode


@pytest.fixture(params=["whole", "damaged"])
def home(
    request: pytest.FixtureRequest, tmp_path: Path, backups: SqliteBackups, add: Add, sqlite: SqliteStore
) -> Iterator[Path]:
    """A database with a log that a process was killed over, and a backup; or the same where the file is so damaged that the log cannot be folded."""
    names = (f"a{number:07d}" for number in itertools.count())
    add(*itertools.islice(names, 40))
    while True:
        backups.create(tmp_path / "b.db", replace=True, progress=no_progress)
        _ = inside(sqlite).query("PRAGMA wal_checkpoint(TRUNCATE)")
        count = len(sqlite.read(lambda tx: tx.tasks.ids_like("", 1000)))
        add(next(names))
        if not _holds_first_page((tmp_path / "wk.db-wal").read_bytes()):
            break  # the log cannot mend a first page that is damaged
    _ = (tmp_path / "count").write_text(str(count), encoding="utf-8")
    files = {name: (tmp_path / name).read_bytes() for name in ("wk.db", "wk.db-wal")}
    sqlite.close()
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    if request.param == "damaged":
        (tmp_path / "wk.db").write_bytes(b"\0" * 100 + files["wk.db"][100:])
    yield tmp_path
    assert not list(tmp_path.glob("wk.db.restoring*"))


def _holds_first_page(log: bytes) -> bool:
    """Whether a write-ahead log has a frame of page 1, which a transaction writes that makes the file longer."""
    frame = 24 + int.from_bytes(log[8:12], "big")
    return any(int.from_bytes(log[at : at + 4], "big") == 1 for at in range(32, len(log), frame))


def _in_backup(home: Path) -> int:
    """How many tasks the backup has; the database has one more."""
    return int((home / "count").read_text(encoding="utf-8"))


def test_killed_at_any_step_a_restore_leaves_the_old_or_the_new_or_a_word(
    home: Path, request: pytest.FixtureRequest
) -> None:
    """And typed again it does what was asked; the old database is never lost, and its log never lies beside the new file."""
    damaged = "damaged" in request.node.callspec.id
    start = {each.name: each.read_bytes() for each in home.iterdir() if each.is_file()}
    points = home / "points"
    assert _restore(home, WATCHKEEPER_CRASH_LOG=str(points)) == 0
    names = points.read_text(encoding="utf-8").splitlines()
    points.unlink()
    counted = [f"{name}:{names[:at].count(name) + 1}" for at, name in enumerate(names) if name.startswith("restore.")]
    assert len(counted) >= 16
    between = 0
    for point in counted:
        _reset(home, start)
        assert _restore(home, WATCHKEEPER_CRASH_AT=point) == -9, point
        between += _is_old_or_new(home, point, damaged=damaged)
        assert _restore(home) == 0
        _is_new(home, point)
        assert _kept(home, start), point
    assert (between > 0) is damaged
    _reset(home, start)
    assert _restore(home) == 0


def _reset(home: Path, start: dict[str, bytes]) -> None:
    for each in home.iterdir():
        if each.is_file():
            each.unlink()
    for name, data in start.items():
        (home / name).write_bytes(data)


def _is_old_or_new(home: Path, point: str, *, damaged: bool) -> bool:
    """Whether there is no database now, and a command says why."""
    if not (home / "wk.db").exists():
        for create in (False, True):
            with pytest.raises(DatabaseUnusable, match="restore was interrupted"):
                SqliteStore.open(home / "wk.db", home / "write.lock", create=create, upgrade=create)
        assert not (home / "wk.db").exists(), point
        return True
    if damaged and (home / "wk.db").read_bytes()[:1] == b"\0":
        assert (home / "wk.db-wal").stat().st_size, (
            point
        )  # as it was, log and all; looking with SQLite would change that
        return False
    count = _in_backup(home)
    assert len(ids_in(home / "wk.db")) in ({count} if damaged else {count, count + 1}), point
    return False


def _is_new(home: Path, point: str) -> None:
    with contextlib.closing(_open(home)) as store:
        store.check(thorough=True)
        counts = store.read(lambda tx: tx.tasks.counts())
        assert sum(counts.values()) == _in_backup(home), point
        assert store.transact("fence", lambda tx: tx.runs.next_fence()) > STEP, point


def _kept(home: Path, start: dict[str, bytes]) -> bool:
    """Under one of the names what was there is kept, with its log if that was not folded."""
    for kept in home.glob("wk.db.before-restore-*"):
        if kept.name.endswith(("-wal", "-shm")):
            continue
        log = Path(f"{kept}-wal")
        if log.exists() and (kept.read_bytes(), log.read_bytes()) == (start["wk.db"], start["wk.db-wal"]):
            return True
        with contextlib.suppress(sqlite3.DatabaseError):
            if len(ids_in(kept)) == _in_backup(home) + 1:
                return True
    return False


def _open(home: Path) -> SqliteStore:
    return SqliteStore.open(home / "wk.db", home / "write.lock", create=False, upgrade=False, wait_s=20)
