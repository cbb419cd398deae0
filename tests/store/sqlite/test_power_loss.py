"""The power goes at any moment: what was durable is there, and the file is whole."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.power_loss import Recorder, states
from support.records import NOON, add, at_work, claim, make_task, settle
from support.sqlite_inside import inside

from watchkeeper.errors import NoDatabase
from watchkeeper.store.sqlite.store import SqliteStore

ROUNDS = 8
TORN = 2


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """A way to the files that remembers."""
    recorder = Recorder("recorder")
    yield recorder
    recorder.unregister()


def work_on(root: Path, recorder: Recorder) -> list[tuple[int, int, bool]]:
    """Add, claim and settle, every third transaction without a sync. Returns (events so far, journal entries so far, durable) after each."""
    store = SqliteStore.open(root / "wk.db", root / "write.lock", create=True, upgrade=False, vfs="recorder")
    marks: list[tuple[int, int, bool]] = []

    def act(name: str, work) -> None:
        def journalled(tx):
            work(tx)
            return tx.journal.append(name, NOON)

        durable = len(marks) % 3 != 2
        entries = store.transact(name, journalled, durable=durable)
        marks.append((len(recorder.events), entries, durable))

    for number in range(ROUNDS):
        act("add", lambda tx, n=number: add(tx, make_task(f"t{n}")))
        act("claim", claim)
        if number == ROUNDS // 2:  # the log is copied into the file in the middle of everything
            _ = inside(store).query("PRAGMA wal_checkpoint(RESTART)")
        act("settle", lambda tx: settle(tx, tx.runs.live()[0]))
    store.close()
    return marks


def survivors(files: dict[str, bytes], root: Path) -> int:
    """Put the files there and open them as the next daemon would; how many entries the journal has."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for name in ("wk.db", "wk.db-wal"):
        if name in files:
            (root / name).write_bytes(files[name])
    (root / "wk.db").touch()
    try:
        store = SqliteStore.open(root / "wk.db", root / "write.lock", create=False, upgrade=False)
    except NoDatabase:
        return 0
    store.check(thorough=True)
    entries = store.read(lambda tx: tx.journal.after(0, 1000))
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    names = [("add", "claim", "settle")[number % 3] for number in range(len(entries))]
    assert [entry.kind for entry in entries] == names
    done, live = len(entries) // 3, len(entries) % 3 == 2
    assert store.read(at_work) == int(live)
    assert sum(store.read(lambda tx: tx.tasks.counts()).values()) == done + bool(len(entries) % 3)
    store.close()
    return len(entries)


def lost(marks: list[tuple[int, int, bool]], done: int, found: int, *, durable_only: bool) -> bool:
    """Whether a transaction that had been acknowledged is gone."""
    promised = [entries for events, entries, durable in marks if events <= done and (durable or not durable_only)]
    return found < max(promised, default=0)


def test_durable_transactions_survive_and_the_file_is_whole(tmp_path: Path, recorder: Recorder) -> None:
    """At every cut, with none, all and some of the unsynced writes; and without a sync some transactions are lost, which the test must see."""
    (tmp_path / "work").mkdir()
    marks = work_on(tmp_path / "work", recorder)
    cuts = range(0, len(recorder.events) + 1, max(1, len(recorder.events) // 120))
    seen, undurable = 0, 0
    for done, files in states(recorder.events, cuts, random.Random(7), TORN):
        found = survivors(files, tmp_path / "after")
        assert not lost(marks, done, found, durable_only=True), f"cut after {done} events"
        undurable += lost(marks, done, found, durable_only=False)
        seen += 1
    assert seen > 300
    assert undurable > 0
    assert any(event.kind == "sync" and event.file == "wk.db" for event in recorder.events)
