"""Choosing, checking and moving the database by commands, with agents at work meanwhile."""

import json
import shutil
import stat
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.flow_words import let_go, working
from support.postgres import Databases, Server, ask, open_store, shared_databases
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.compose import Watchkeeper
from watchkeeper.domain.model import TaskState
from watchkeeper.errors import Exit, SettingsError


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """An installation on SQLite."""
    made = Rig(tmp_path / "rig")
    yield made
    made.close()


@pytest.fixture
def url() -> Iterator[str]:
    """An empty PostgreSQL database."""
    databases: Databases = shared_databases()
    made = databases.empty()
    yield made
    databases.drop(made)


def _file(rig: Rig) -> Path:
    return rig.root / "home" / ".config" / "watchkeeper" / "config.toml"


def _refused(rig: Rig, *command: str, code: Exit, detail: str) -> None:
    done = rig.wk(*command, check=False)
    err = done.stderr.decode()
    assert done.returncode == code, err
    assert detail in err and "Traceback" not in err


def test_a_move_with_an_agent_at_work(rig: Rig, url: str) -> None:
    """The daemon is stopped, everything moves, the next daemon adopts the agent; the old database is used no more."""
    daemon = rig.start_daemon()
    task_id, run = working(rig)
    queued = [rig.run("lines", "1", "exit", "0") for _ in range(6)]
    _refused(rig, "store", "copy", "--to", url, code=Exit.DAEMON, detail="The daemon runs")
    _refused(rig, "config", "set", "store", url, code=Exit.REFUSED, detail="A daemon works on the present database")
    rig.wk("daemon", "stop")
    assert daemon.wait(20) == 0
    _refused(
        rig,
        "config",
        "set",
        "store",
        url,
        code=Exit.REFUSED,
        detail="is on record in the present database, and would lose its daemon",
    )
    moved = json.loads(rig.wk("store", "copy", "--to", url, "--json").stdout)
    assert moved["tasks"] == 7 and moved["bound"] >= 1 and not moved["finished_earlier"]
    _refused(rig, "ls", code=Exit.STATE, detail="was moved to")
    _refused(rig, "run", "--", "true", code=Exit.STATE, detail="was moved to")
    assert b"can be reached" in rig.wk("config", "set", "store", url).stderr
    assert rig.survivors(), "the agent works on"
    rig.start_daemon()
    let_go(rig)
    assert rig.wait_resting(task_id).state is TaskState.DONE
    for each in queued:
        assert rig.wait_resting(each).state is TaskState.DONE
    assert sorted(rig.started_runs()) == sorted([run.id, *(f"{each}.1" for each in queued)])
    found = [entry.data["found"] for entry in rig.journal() if entry.kind == "daemon.started"]
    assert found[-1] == {run.id: "adopted"}
    # And back: the file that was left must be moved away first.
    rig.wk("daemon", "stop")
    _refused(rig, "store", "copy", "--to", "sqlite", code=Exit.REFUSED, detail="was itself moved away")
    for part in rig.state.glob("wk.db*"):
        part.rename(part.with_name(f"old-{part.name}"))
    back = json.loads(rig.wk("store", "copy", "--to", "sqlite", "--json").stdout)
    assert back["tasks"] == 7
    rig.wk("config", "unset", "store.url")
    assert len(json.loads(rig.wk("ls", "--all", "--json").stdout)) == 7


def test_what_a_check_says(rig: Rig, url: str) -> None:
    """Of both databases; a long transaction of another program is named."""
    assert b"No tasks yet" in rig.wk("store", "check").stdout
    rig.run("lines", "1", "exit", "0")
    said = rig.wk("store", "check", "--thorough").stdout.decode()
    assert "SQLite" in said and "sound" in said
    found = json.loads(rig.wk("store", "check", "--json").stdout)
    assert found["kind"] == "sqlite" and found["faults"] == [] and found["skew_s"] is None
    rig.settings = {"WATCHKEEPER_STORE_URL": url}
    _refused(rig, "run", "--", "true", code=Exit.DAEMON, detail="works on another database (sqlite)")
    rig.wk("daemon", "stop")
    task_id = rig.run("lines", "1", "exit", "0")
    assert rig.wait_resting(task_id).state is TaskState.DONE
    found = json.loads(rig.wk("store", "check", "--thorough", "--json").stdout)
    assert found["kind"] == "postgresql" and abs(found["skew_s"]) < 5 and found["long_transactions"] == []
    ask(url, "UPDATE watchkeeper.task SET unmet = 1 WHERE state = 'done'")
    done = rig.wk("store", "check", check=False)
    assert done.returncode == Exit.STATE and b"Wrong: Task" in done.stdout
    assert b"the newest" in rig.wk("store", "upgrade").stdout
    ask(url, "ALTER TABLE watchkeeper.launch RENAME TO lost")
    _refused(rig, "store", "check", code=Exit.STATE, detail="not laid out as it should be")
    ask(url, "ALTER TABLE watchkeeper.lost RENAME TO launch")


def test_a_server_that_is_not_there(rig: Rig) -> None:
    """One sentence, and nothing is chosen."""
    url = "postgresql://ada:hunter2@127.0.0.1:1/wk"
    done = rig.wk("config", "set", "store", url, check=False)
    assert done.returncode == Exit.STATE and b"cannot be reached" in done.stderr and not _file(rig).exists()
    assert b"hunter2" not in done.stderr + done.stdout
    said = rig.wk("config", "set", "store.url", url, "--no-check")
    shown = rig.wk("config", "show")
    listed = rig.wk("config", "show", "--json")
    failed = rig.wk("ls", check=False)
    assert failed.returncode == Exit.STATE
    for each in (said, shown, listed, failed):
        assert b"hunter2" not in each.stdout + each.stderr
    assert b"ada:***@" in shown.stdout
    assert stat.S_IMODE(_file(rig).stat().st_mode) == 0o600
    _refused(rig, "config", "set", "store", "sqlite", code=Exit.STATE, detail="--no-check leaves it")
    rig.wk("config", "set", "store", "sqlite", "--no-check")
    assert b"No tasks yet" in rig.wk("ls").stdout
    wrong = rig.wk("config", "set", "store.url", "mysql://ada:hunter2@h/d", check=False)
    assert wrong.returncode == Exit.SETTINGS and b"hunter2" not in wrong.stderr


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:hunt/er2@127.0.0.1:1/wk",
        "postgresql://ada:hunt@er2@127.0.0.1:1/wk",
        "postgresql://ada:hunt#er2@127.0.0.1:1/wk",
        "postgresql://ada:hunt?er2@127.0.0.1:1/wk",
        "postgresql://ada:hunt%er2@127.0.0.1:1/wk",
        "postgresql://127.0.0.1:1/wk?user=ada&pass%77ord=hunter2",
        "postgresql:ada:hunter2@127.0.0.1:1/wk",
    ],
)
def test_a_password_that_is_not_written_as_it_must_be(rig: Rig, url: str) -> None:
    """A driver would take a part of it for a host or a database, and name that."""
    commands = [
        ("config", "set", "store", url),
        ("config", "set", "store", url, "--no-check"),
        ("store", "copy", "--to", url),
    ]
    rig.wk("config", "show")
    done = [rig.wk(*command, check=False) for command in commands]
    assert not _file(rig).exists()
    rig.settings = {"WATCHKEEPER_STORE_URL": url}
    done += [rig.wk(*command, check=False) for command in (("config", "show"), ("ls", "--debug"), ("doctor",))]
    rig.settings = {}
    for each in done:
        said = each.stdout + each.stderr
        assert each.returncode != 0 and b"hunt" not in said and b"er2" not in said, said.decode()


def test_back_from_a_database_that_cannot_even_be_tried(rig: Rig) -> None:
    """A URL that the driver does not understand, as well as a missing driver, does not prevent the way back."""
    rig.wk("config", "set", "store.url", "postgresql://127.0.0.1:1/wk?bogus=1", "--no-check")
    _refused(rig, "ls", code=Exit.SETTINGS, detail="not one of PostgreSQL")
    _refused(rig, "config", "set", "store", "sqlite", code=Exit.SETTINGS, detail="--no-check leaves it")
    rig.wk("config", "set", "store", "sqlite", "--no-check")
    assert b"No tasks yet" in rig.wk("ls").stdout


def test_settings_are_changed_and_nothing_else_is(rig: Rig) -> None:
    """Comments, order and rights stay; what cannot be is not written."""
    file = _file(rig)
    file.parent.mkdir(parents=True)
    text = '# mine\n[queue] # here\nlimit = 3 # few\n\n[harness.claude]\nprogram = "/c" # that one\n'
    file.write_text(text, encoding="utf-8")
    file.chmod(0o644)
    rig.settings = {}
    for command in (
        ("queue.limit", "5"),
        ("harness.claude.max_turns", "9"),
        ("environment.names", "A, B"),
        ("logs.limit", "1G"),
    ):
        rig.wk("config", "set", *command)
    changed = file.read_text(encoding="utf-8")
    assert (
        "# mine\n[queue] # here\nlimit = 5 # few\n" in changed
        and 'program = "/c" # that one\nmax_turns = "9"' in changed
    )
    assert 'names = ["A", "B"]' in changed and 'limit = "1G"' in changed
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert b"queue.limit" in rig.wk("config", "show").stdout
    for command in (("queue.limit", "0"), ("queue.limt", "4"), ("store", "here")):
        done = rig.wk("config", "set", *command, check=False)
        assert done.returncode == Exit.SETTINGS and b"Traceback" not in done.stderr
    assert file.read_text(encoding="utf-8") == changed
    for key in ("harness.claude.max_turns", "environment.names", "logs.limit"):
        rig.wk("config", "unset", key)
    rig.wk("config", "set", "queue.limit", "3")
    left = file.read_text(encoding="utf-8")
    assert left.startswith(text) and "max_turns" not in left
    assert b"was not set" in rig.wk("config", "unset", "run.model").stdout
    rig.wk("config", "set", "run.model", "-", given=b"opus\n")
    assert 'model = "opus"' in file.read_text(encoding="utf-8")


def test_an_agent_changes_no_settings(rig: Rig) -> None:
    """What agents may do is a person's to say."""
    task_id = rig.run("exit", "0")
    rig.wait_resting(task_id)
    script = f"{sys.executable} -m watchkeeper config set queue.limit 9; echo code $?"
    done = rig.wk("run", "--json", "--wait", "--env", "WATCHKEEPER_HOME", "--", "sh", "-c", script, check=False)
    assert done.returncode in {Exit.OK, Exit.BAD_TASK}
    assert not _file(rig).exists()


def test_what_was_for_another_machine_comes_back(rig: Rig, url: str) -> None:
    """In a database of one machine's own no other machine will ever run it: a word binds it to the one there is."""
    rig.settings = {"WATCHKEEPER_STORE_URL": url}
    rig.start_daemon()
    store = open_store(url)
    store.transact("t", lambda tx: tx.machines.begin_incarnation("theirs", "b", datetime.now(UTC), name="m2"))
    store.close()
    task_id = json.loads(rig.wk("run", "--machine", "m2", "--json", "--", "true").stdout)["id"]
    rig.wk("daemon", "stop")
    rig.wk("store", "copy", "--to", "sqlite")
    rig.settings = {}
    assert b"only machine m2 may run it" in rig.wk("why", task_id).stdout
    rig.wk("edit", task_id, "--machine", "any")
    rig.start_daemon()
    assert rig.wait_resting(task_id).state is TaskState.DONE


def test_a_daemon_is_ended_while_the_server_is_away(rig: Rig) -> None:
    """A user who wants to end it, or to choose another database, need not wait for the server."""
    server = Server()
    try:
        rig.settings = {"WATCHKEEPER_STORE_URL": server.url(server.database())}
        daemon = rig.start_daemon()
        server.stop()
        assert b"The daemon runs" in rig.wk("daemon", "status").stdout
        done = rig.wk("daemon", "stop")
        assert daemon.wait(20) == 0
        assert b"has ended" in done.stdout and b"What is left is not known" in done.stderr
        again = rig.wk("daemon", "stop", "--json")
        assert json.loads(again.stdout) == {"stopped": False, "working": None, "waiting": None, "unsettled": None}
        assert rig.wk("daemon", "status", check=False).returncode == Exit.DAEMON
    finally:
        server.remove()


def test_without_the_driver(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence that says what to install."""
    for name in [name for name in sys.modules if name.startswith("watchkeeper.store.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    rig.settings = {"WATCHKEEPER_STORE_URL": "postgresql://h/d"}
    parts = Watchkeeper.open(rig.repo, rig.environment, writes=True)
    with pytest.raises(SettingsError, match="driver is not installed") as told:
        _ = parts.store
    assert "pip install 'watchkeeper[postgres]'" in told.value.hint


def test_a_daemon_of_another_machine_keeps_the_database_where_it_is(rig: Rig, url: str, tmp_path: Path) -> None:
    """Nothing is moved away from under it."""
    rig.settings = {"WATCHKEEPER_STORE_URL": url}
    rig.start_daemon()
    other = Rig(tmp_path / "other", settings={"WATCHKEEPER_STORE_URL": url})
    wait_until(lambda: rig.wk("status").returncode == 0, what="it is there")
    _refused(other, "store", "copy", "--from", url, "--to", "sqlite", code=Exit.REFUSED, detail="works on")
    other.close()


def test_a_new_machine_sees_what_is_there(rig: Rig, url: str, tmp_path: Path) -> None:
    """Before anything was kept in its own state directory."""
    shares = {"WATCHKEEPER_STORE_URL": url}
    rig.settings = shares
    task_id = rig.wk("add", "--harness", "demo", "hello").stdout.decode().strip()
    other = Rig(tmp_path / "other", settings=shares)
    home = Path(other.environment["WATCHKEEPER_HOME"])
    shutil.rmtree(home)
    assert task_id in other.wk("ls").stdout.decode()
    assert b"1 queued" in other.wk("status").stdout
    other.close()


def test_machines_of_one_name_are_told_apart(rig: Rig, url: str, tmp_path: Path) -> None:
    """By their ids, which the refusal tells."""
    shares = {"WATCHKEEPER_STORE_URL": url}
    rig.settings = shares
    other = Rig(tmp_path / "other", settings=shares)
    for each in (rig, other):
        each.start_daemon()
        wait_until(lambda each=each: each.wk("status", check=False).returncode == 0, what="it is there")
    parts = Watchkeeper.open(rig.repo, rig.environment, writes=True)
    name, node = parts.host_name, parts.state.node()
    command = ("add", "--harness", "demo", "hello", "--machine")
    wait_until(lambda: node[:6].encode() in other.wk("status").stdout, what="it was heard of")
    _refused(rig, *command, name, code=Exit.NOT_FOUND, detail=node[:12])
    _refused(rig, *command, "nowhere", code=Exit.NOT_FOUND, detail=f"{name} ({node[:6]})")
    rig.wk(*command, node[:12])
    other.close()
