"""A state directory or a database that cannot be used: said in one sentence, nothing lost, and well again when the cause is gone."""

import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from support.flow_words import healthy, refused, row
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.file_systems import NETWORK
from watchkeeper.domain.model import TaskState
from watchkeeper.errors import DatabaseUnusable, Exit, StateDirectoryUnusable
from watchkeeper.runtimes.state_directory import StateDirectory, refuse_network
from watchkeeper.store.filesystem import refuse_network_filesystem

NOBODY = 65534


@pytest.fixture
def used(rig: Rig) -> Rig:
    """A rig with a task that is done and no daemon."""
    healthy(rig)
    rig.wk("daemon", "stop")
    _merge_log(rig)
    return rig


def _merge_log(rig: Rig) -> None:
    """Bring everything into the one file that is damaged next."""
    with sqlite3.connect(rig.state / "wk.db") as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def _garbage_head(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"no database at all" * 20)


def _garbage_inside(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (path.stat().st_size - 4096))


def _half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _newer(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version=9999")
    db.close()


def _another(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE somebodys (thing)")
    db.close()


@pytest.mark.parametrize(
    ("damage", "detail"),
    [
        (_garbage_head, "is damaged"),
        (_garbage_inside, "is damaged"),
        (_half, "is damaged"),
        (_newer, "newer version"),
        (_another, "is not a database of Watchkeeper"),
    ],
)
def test_a_database_that_cannot_be_used(used: Rig, damage: Callable[[Path], None], detail: str) -> None:
    """Every command says so with exit code 6 and changes nothing in it; put back, everything is as it was."""
    database = used.state / "wk.db"
    whole = database.read_bytes()
    damage(database)
    damaged = database.read_bytes()
    task_id = "something"
    for command in (
        ("ls",),
        ("status",),
        ("show", task_id),
        ("stop", task_id),
        ("run", "hello", "--", "cat"),
        ("daemon", "run"),
    ):
        refused(used, *command, code=Exit.STATE, detail=detail)
    assert database.read_bytes() == damaged
    for file in used.state.glob("wk.db*"):
        file.unlink()
    database.write_bytes(whole)
    assert [task.state for task in used.tasks()] == [TaskState.DONE]
    healthy(used)


def test_a_database_that_is_away_for_a_while(used: Rig) -> None:
    """The daemon says so once for each loop, continues, and works again without help when the file is back."""
    database = used.state / "wk.db"
    daemon = used.start_daemon()
    kept = used.state / "kept"
    database.rename(kept)
    wait_until(lambda: _log(used).count("tick failed") >= 2, within_s=20, what="the daemon notices")
    kept.rename(database)
    healthy(used)
    assert daemon.poll() is None
    over = {f"recovered: {loop}" for loop in re.findall(r"tick failed: (loop=\w+)", _log(used))}
    wait_until(lambda: all(said in _log(used) for said in over), within_s=60, what="every loop says that it is over")
    failed = [line.partition("tick failed")[2] for line in _log(used).splitlines() if "tick failed" in line]
    assert len(failed) == len(set(failed)), failed


def test_a_database_that_somebody_holds_is_an_outage_that_ends(used: Rig) -> None:
    """A program that locks it exclusively for longer than any process waits: `wk run` says so with 6; the daemon says it once, and continues afterwards."""
    daemon = used.start_daemon()
    with sqlite3.connect(used.state / "wk.db", isolation_level=None) as db:
        db.execute("BEGIN IMMEDIATE")
        refused(used, "run", "hello", "--", "cat", code=Exit.STATE, detail="held by another program")
        assert len(used.tasks()) == 1
        db.execute("ROLLBACK")
    db.close()
    healthy(used)
    assert daemon.poll() is None
    failed = [line.partition("tick failed")[2] for line in _log(used).splitlines() if "tick failed" in line]
    assert len(failed) == len(set(failed)), failed


def _log(rig: Rig) -> str:
    return (rig.root / "daemon.log").read_text(encoding="utf-8")


def test_a_state_directory_of_somebody_else(used: Rig) -> None:
    """Refused with exit code 6 by every command, for reading too; nothing in it changes."""
    if os.geteuid() != 0:
        pytest.fail("only root can give a directory away")
    os.chown(used.state, NOBODY, NOBODY)
    before = sorted(path.name for path in used.state.iterdir())
    for command in (("ls",), ("run", "hello", "--", "cat"), ("daemon", "run"), ("stop", "x")):
        refused(used, *command, code=Exit.STATE, detail="belongs to another user")
    assert sorted(path.name for path in used.state.iterdir()) == before
    os.chown(used.state, os.geteuid(), os.getegid())
    healthy(used)


def test_a_state_directory_that_may_not_be_written() -> None:
    """Refused with a way out, for an ordinary user; with the right to write it is taken again."""
    with tempfile.TemporaryDirectory(prefix="wk-closed-") as made:
        path = Path(made) / "state"
        path.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(made, NOBODY, NOBODY)
            os.chown(path, NOBODY, NOBODY)
        path.chmod(0o500)
        assert _opened_by_somebody_ordinary(path).startswith(f"The state directory {path} cannot be written to.")
        path.chmod(0o700)
        assert _opened_by_somebody_ordinary(path) == "opened"


def _opened_by_somebody_ordinary(path: Path) -> str:
    """What opening it comes to in a process that permissions hold."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
            StateDirectory.open(path, create=True)
            os.write(writer, b"opened")
        except StateDirectoryUnusable as refused:
            os.write(writer, str(refused).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as said:
        return said.read()


def test_a_state_directory_on_a_file_system_that_is_read_only(used: Rig) -> None:
    """Looking says what is wrong too, if it cannot be done there."""
    with _mounted_read_only(used.state):
        for command in (("run", "hello", "--", "cat"), ("daemon", "run")):
            refused(used, *command, code=Exit.STATE, detail="cannot be")
        listed = used.wk("ls", check=False)
        assert listed.returncode in {0, Exit.STATE} and b"Traceback" not in listed.stderr
    healthy(used)


class _mounted_read_only:  # noqa: N801 - reads as a phrase
    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def __enter__(self) -> None:
        subprocess.run(["mount", "--bind", self._path, self._path], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", self._path], check=True)

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", self._path], check=True)


MOUNTS = """\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 21 0:40 / /home/ann rw,relatime - nfs4 server:/home rw
41 40 8:2 / /home/ann/local\\040disk rw - xfs /dev/sdb rw
42 21 0:50 / /mnt/s rw - fuse.sshfs ann@server: rw
43 21 0:51 / /mnt/c rw - 9p drvfs rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/ann/.local/state/watchkeeper", "nfs4"),
        ("/home/ann/local disk/watchkeeper", None),
        ("/home/annabel/watchkeeper", None),
        ("/mnt/s/x", "fuse.sshfs"),
        ("/mnt/c/Users/ann", "9p"),
        ("/var/lib", None),
    ],
)
def test_a_network_file_system_is_refused(tmp_path: Path, path: str, kind: str | None) -> None:
    """By what the mount table says of the path, in both places that look."""
    table = tmp_path / "mountinfo"
    table.write_text(MOUNTS, encoding="utf-8")
    if kind is None:
        refuse_network(Path(path), MOUNTS)
        refuse_network_filesystem(Path(path), table)
        return
    with pytest.raises(StateDirectoryUnusable, match="network file system") as first:
        refuse_network(Path(path), MOUNTS)
    with pytest.raises(DatabaseUnusable, match="network file system") as second:
        refuse_network_filesystem(Path(path), table)
    for error in (first.value, second.value):
        assert kind in str(error) and error.hint and error.exit_code == Exit.STATE


@pytest.mark.parametrize("kind", sorted(NETWORK))
def test_the_state_directory_and_the_database_know_each_network_file_system(tmp_path: Path, kind: str) -> None:
    mounts = f"22 1 8:1 / / rw - {kind} server:/ rw\n"
    table = tmp_path / "mountinfo"
    table.write_text(mounts, encoding="utf-8")
    with pytest.raises(StateDirectoryUnusable, match=kind):
        refuse_network(tmp_path, mounts)
    with pytest.raises(DatabaseUnusable, match=kind):
        refuse_network_filesystem(tmp_path, table)


def test_a_broken_settings_file_of_a_repository_does_not_keep_anybody_from_stopping(rig: Rig) -> None:
    """Every user and agent that works in a repository can write that file; it must not make their tasks unstoppable."""
    task_id = rig.run("wait", str(rig.root / "never"))
    rig.wk("daemon", "start")  # waits until it is ready: `run` starts one and does not
    file = rig.repo / ".watchkeeper.toml"
    for text in ("[queue\n", "[queue]\nlimit = 1000\n", "[run]\nnosuch = 1\n"):
        file.write_text(text, encoding="utf-8")
        refused(rig, "run", "hello", "--", "cat", code=Exit.SETTINGS, detail=str(file), hint=False)
        for command in (("ls",), ("status",), ("show", task_id), ("logs", task_id), ("daemon", "status")):
            assert rig.wk(*command).returncode == 0
    rig.wk("daemon", "stop")
    rig.wk("daemon", "start")
    rig.wk("stop", task_id)
    assert row(rig, task_id)["state"] == "stopped"
    second = rig.run("wait", str(rig.root / "never"), options=("--cwd", str(rig.root)))
    rig.wk("kill", second)
    file.unlink()
    healthy(rig)
    shutil.rmtree(rig.repo / ".git")
