"""A database that lost its log, its newest part or all of itself is not taken for a whole or a new one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.records import add, make_task

from watchkeeper.errors import DatabaseUnusable, NoDatabase
from watchkeeper.store.sqlite.newest import file_of
from watchkeeper.store.sqlite.store import SqliteStore

BESIDE = ("wk.db-wal", "wk.db-shm")


def open_at(root: Path, *, create: bool = True) -> SqliteStore:
    return SqliteStore.open(root / "wk.db", root / "write.lock", create=create, upgrade=False, wait_s=5)


WRITER = """
import os, sys
from support.records import add, make_task
from support.stores import open_place
open_place(sys.argv[1]).transact("add", lambda tx: add(tx, make_task("t2")))
os._exit(0)
"""


def put(store: SqliteStore, name: str) -> None:
    _ = store.transact("add", lambda tx: add(tx, make_task(name)))


def ids(store: SqliteStore) -> list[str]:
    return store.read(lambda tx: sorted(tx.tasks.ids_like("", 99)))


def killed(root: Path, into: Path) -> None:
    """The files as a process leaves them that is killed: what was written last is in the log alone."""
    into.mkdir()
    for name in ("wk.db", "wk.db-wal", "wk.db.newest", "write.lock"):
        shutil.copy(root / name, into / name)


def test_a_log_that_was_deleted_at_rest_is_noticed(tmp_path: Path) -> None:
    """Else SQLite finds an older database, and what was handed over since is gone without a word."""
    store, left = open_at(tmp_path), tmp_path / "left"
    put(store, "t1")
    killed(tmp_path, left)
    store.close()
    whole = open_at(left)
    assert ids(whole) == ["t1"]
    whole.close()
    shutil.rmtree(left)
    store = open_at(tmp_path)
    put(store, "t2")
    killed(tmp_path, left)
    store.close()
    (left / "wk.db-wal").unlink()
    for create in (True, False):
        with pytest.raises(DatabaseUnusable, match="lost what was written last"):
            _ = open_at(left, create=create)


def test_an_older_file_in_its_place_is_noticed(tmp_path: Path) -> None:
    store = open_at(tmp_path)
    put(store, "t1")
    store.close()
    shutil.copy(tmp_path / "wk.db", tmp_path / "older")
    store = open_at(tmp_path)
    put(store, "t2")
    store.close()
    (tmp_path / "older").replace(tmp_path / "wk.db")
    with pytest.raises(DatabaseUnusable, match="older file"):
        _ = open_at(tmp_path)


@pytest.mark.parametrize("lost", [BESIDE, BESIDE[:1], BESIDE[1:]], ids=["both", "log", "index"])
def test_a_log_that_is_deleted_while_it_is_open_is_saved(tmp_path: Path, lost: tuple[str, ...]) -> None:
    """A process that has it open brings what it holds into the database before anything else is written, or lost."""
    store = open_at(tmp_path)
    put(store, "t1")
    for name in lost:
        (tmp_path / name).unlink()
    for use in (ids, lambda store: put(store, "t2")):
        with pytest.raises(DatabaseUnusable, match="was saved"):
            use(store)
    other = open_at(tmp_path, create=False)
    assert ids(other) == ["t1"]
    other.check(thorough=True)
    for each in (other, store):
        each.close()


@pytest.mark.parametrize("lost", [BESIDE, BESIDE[:1], BESIDE[1:]], ids=["both", "log", "index"])
def test_of_several_connections_none_goes_on_with_a_lost_log(tmp_path: Path, lost: tuple[str, ...]) -> None:
    """Those of one process share the index: one after the other gives it up, and nothing is written before the last has."""
    stores = [open_at(tmp_path) for _ in range(3)]
    put(stores[0], "t1")
    for name in lost:
        (tmp_path / name).unlink()
    for store in stores:
        with pytest.raises(DatabaseUnusable, match="was saved"):
            put(store, "t2")
    again = open_at(tmp_path)
    put(again, "t2")
    for store in (*stores, again):
        store.close()
    again = open_at(tmp_path)
    assert ids(again) == ["t1", "t2"]
    again.check(thorough=True)
    again.close()


def test_another_program_does_not_lose_what_it_wrote_to_a_new_log(tmp_path: Path) -> None:
    """A process that held the lost one leaves the new one alone, also when it is the last to close."""
    held = open_at(tmp_path)
    put(held, "t1")
    for name in BESIDE:
        (tmp_path / name).unlink()
    with pytest.raises(DatabaseUnusable, match="was saved"):
        _ = ids(held)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    _ = subprocess.run([sys.executable, "-c", WRITER, str(tmp_path)], check=True, env=environment)
    held.close()
    again = open_at(tmp_path)
    assert ids(again) == ["t1", "t2"]
    again.close()


@pytest.mark.parametrize("how", ["deleted", "emptied"])
def test_a_database_that_is_gone_is_not_made_anew(tmp_path: Path, how: str) -> None:
    store = open_at(tmp_path)
    put(store, "t1")
    store.close()
    if how == "deleted":
        (tmp_path / "wk.db").unlink()
    else:
        os.truncate(tmp_path / "wk.db", 0)
    for create in (True, False):
        with pytest.raises(DatabaseUnusable, match="so there was one") as problem:
            _ = open_at(tmp_path, create=create)
        assert not isinstance(problem.value, NoDatabase)


def test_one_without_a_word_of_ours_is_known_by_its_executions(tmp_path: Path) -> None:
    """An older version kept no such file."""
    (tmp_path / "executions" / "x1").mkdir(parents=True)
    with pytest.raises(DatabaseUnusable, match="executions/x1"):
        _ = open_at(tmp_path)


def test_a_torn_word_promises_nothing(tmp_path: Path) -> None:
    store = open_at(tmp_path)
    put(store, "t1")
    store.close()
    kept = file_of(tmp_path / "wk.db")
    kept.write_bytes(kept.read_bytes().replace(b" ", b" 9", 1))
    store = open_at(tmp_path)
    assert ids(store) == ["t1"]
    store.close()
