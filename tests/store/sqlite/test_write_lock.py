"""Whose turn it is to write."""

import fcntl
import gc
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.records import NOON, make_task
from support.waiting import wait_until

from watchkeeper.errors import DatabaseBusy
from watchkeeper.store.sqlite.store import SqliteStore
from watchkeeper.store.sqlite.write_lock import WriteLock


def blocked() -> set[int]:
    """The signals that this thread does not take now."""
    return set(signal.pthread_sigmask(signal.SIG_BLOCK, []))


def test_a_second_one_waits_and_names_the_first(tmp_path: Path) -> None:
    with WriteLock(tmp_path / "t"), pytest.raises(DatabaseBusy, match=f"process {os.getpid()} ") as caught:
        _ = WriteLock(tmp_path / "t", 0.05).__enter__()
    assert "Nothing was changed" in caught.value.hint


def test_who_gave_up_leaves_no_lock_behind(tmp_path: Path) -> None:
    """The thread that still stands in line gets the lock after its writer gave up. It releases the lock at once."""
    with WriteLock(tmp_path / "t"), pytest.raises(DatabaseBusy):
        _ = WriteLock(tmp_path / "t", 0.05).__enter__()
    # The thread ends after its turn. A writer that comes earlier may get the lock first, and does not meet one that is kept forever.
    wait_until(
        lambda: all(one.name != "write.lock" for one in threading.enumerate()), what="the waiting thread has ended"
    )
    with WriteLock(tmp_path / "t", 0.05):
        pass


def test_who_waits_gets_its_turn_when_it_is_free(tmp_path: Path) -> None:
    first, got = WriteLock(tmp_path / "t"), threading.Event()

    def second() -> None:
        write_lock = WriteLock(tmp_path / "t", 30)
        with write_lock:
            got.set()
        with write_lock:  # once more, with the descriptor that was won
            pass
        write_lock.close()

    with first:
        thread = threading.Thread(target=second)
        thread.start()
        wait_until(lambda: any(one.name == "write.lock" for one in threading.enumerate()), what="somebody waits")
        assert not got.is_set()
    assert got.wait(10)
    thread.join(10)
    with first:
        pass


def test_ctrl_z_waits_for_the_end_of_a_transaction(tmp_path: Path, sqlite: SqliteStore) -> None:
    """A stopped writer would stop every other one; the signal is taken when the transaction is over, also when it failed."""
    assert signal.SIGTSTP not in blocked()
    assert signal.SIGTSTP in sqlite.transact("look", lambda tx: blocked())
    assert signal.SIGTSTP not in blocked()
    with pytest.raises(ZeroDivisionError):
        sqlite.transact("fail", lambda tx: 1 // 0)
    assert signal.SIGTSTP not in blocked()
    with WriteLock(tmp_path / "write.lock"), pytest.raises(DatabaseBusy):
        _ = WriteLock(tmp_path / "write.lock", 0.05).__enter__()
    assert signal.SIGTSTP not in blocked()


def test_who_blocks_the_signal_itself_keeps_it_blocked(sqlite: SqliteStore) -> None:
    _ = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})
    try:
        sqlite.transact("nothing", lambda tx: None)
        assert signal.SIGTSTP in blocked()
    finally:
        _ = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})


HOLDER = """
import os, signal, sys
from pathlib import Path
from watchkeeper.store.sqlite.store import SqliteStore
root = Path(sys.argv[1])
store = SqliteStore.open(root / "wk.db", root / "write.lock", create=False, upgrade=False, wait_s=60)
def work(tx):
    print("holding", flush=True)
    sys.stdin.readline()
print("opened", flush=True)
try:
    store.transact("hold", work)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(7)
"""


def start(root: Path) -> "subprocess.Popen[str]":
    """A process that takes the turn to write and holds it until it is sent a line."""
    env = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(root)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def line(process: "subprocess.Popen[str]") -> str:
    """The next line that it prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_who_only_waits_for_another_program_is_not_called_the_holder(tmp_path: Path, sqlite: SqliteStore) -> None:
    """One of our processes has the turn and waits for a program that takes none. When that is done, the turn is its own again."""
    other = sqlite3.connect(tmp_path / "wk.db", isolation_level=None)
    _ = other.execute("BEGIN IMMEDIATE")
    process = start(tmp_path)
    assert line(process) == "opened"
    wait_until(lambda: (tmp_path / "write.lock").read_text().strip().endswith(" waits"), what="it says that it waits")
    with pytest.raises(
        DatabaseBusy, match=f"held by another program .*process {process.pid} .*waits for it, too"
    ) as caught:
        _ = WriteLock(tmp_path / "write.lock", 0.05).__enter__()
    assert "end it" not in caught.value.hint
    other.close()
    assert line(process) == "holding"
    with pytest.raises(DatabaseBusy, match=f"held by process {process.pid} "):
        _ = WriteLock(tmp_path / "write.lock", 0.05).__enter__()
    _ = process.communicate("go on\n")
    sqlite.transact("after", lambda tx: None)


def test_a_dead_holder_is_not_named(tmp_path: Path) -> None:
    """The name of one that was killed stays in the file; whatever holds the lock now has not written its own."""
    gone = subprocess.Popen(["true"])
    _ = gone.wait()
    (tmp_path / "t").write_text(f"{gone.pid} wk run".ljust(95) + "\n")
    with (tmp_path / "t").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(DatabaseBusy, match="held by another process"):
            _ = WriteLock(tmp_path / "t", 0.05).__enter__()


def test_ctrl_c_ends_the_waiting(tmp_path: Path, sqlite: SqliteStore) -> None:
    """And leaves nothing held and nothing half done."""
    with WriteLock(tmp_path / "write.lock"):
        process = start(tmp_path)
        assert line(process) == "opened"
        tasks = Path(f"/proc/{process.pid}/task")
        wait_until(lambda: len(list(tasks.iterdir())) > 1, what="it waits in line")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 7
    sqlite.transact("add", lambda tx: tx.tasks.add(make_task()))
    assert process.communicate()[0].split() == ["interrupted"]


def test_ctrl_c_in_a_transaction_undoes_it(tmp_path: Path, sqlite: SqliteStore) -> None:
    process = start(tmp_path)
    assert [line(process), line(process)] == ["opened", "holding"]
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 7
    _ = process.communicate()
    assert sqlite.transact("j", lambda tx: tx.journal.append("x", NOON)) == 1


def test_a_killed_holder_holds_nothing(tmp_path: Path, sqlite: SqliteStore) -> None:
    process = start(tmp_path)
    assert [line(process), line(process)] == ["opened", "holding"]
    process.kill()
    _ = process.communicate()
    assert sqlite.transact("j", lambda tx: tx.journal.append("x", NOON)) == 1


def test_the_name_of_the_holder_says_no_more_than_it_must(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Program and verb; what a user typed behind them stays out of the file (R17)."""
    for argv, detail in (
        (["/usr/bin/wk", "run", "secret"], "wk run"),
        (["wk", "my secret"], "wk"),
        ([], "python"),
        (["/a/watchkeeper/__main__.py", "daemon", "run"], "wk-daemon"),
    ):
        monkeypatch.setattr(sys, "argv", argv)
        with WriteLock(tmp_path / "t"):
            pass
        assert (tmp_path / "t").read_text().strip() == f"{os.getpid()} {detail}"


def test_one_that_is_dropped_keeps_no_descriptor(tmp_path: Path) -> None:
    """Not even without `close`, and not for a store whose cycles the collector has to break."""

    def is_open() -> bool:
        return any(os.path.realpath(each) == str(path) for each in Path("/proc/self/fd").iterdir())

    path = tmp_path / "write.lock"
    dropped = SqliteStore.open(tmp_path / "wk.db", path, create=True, upgrade=False)
    assert is_open()
    del dropped
    _ = gc.collect()
    assert not is_open()
