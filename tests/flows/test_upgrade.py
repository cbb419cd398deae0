"""Another version takes over while an agent works, and an old daemon meets a database that is too new for it."""

import hashlib
import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from support.flow_words import daemon_log, healthy, let_go, refused, sound, working
from support.rig import Rig
from support.source import PACKAGE

from watchkeeper.domain.model import RunState, TaskState
from watchkeeper.errors import Exit

NEXT = "99.1.0"


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """A source tree of another version, whose shim is another program."""
    tree = tmp_path / "newer"
    shutil.copytree(PACKAGE, tree / "watchkeeper", ignore=shutil.ignore_patterns("__pycache__"))
    init = tree / "watchkeeper" / "__init__.py"
    init.write_text(f'"""Another version."""\n\n__version__ = "{NEXT}"\n', encoding="utf-8")
    shim = tree / "watchkeeper" / "shim" / "__main__.py"
    shim.write_text(shim.read_text(encoding="utf-8") + "\n# Another shim.\n", encoding="utf-8")
    return tree


@pytest.mark.parametrize("crossing", ["restart", "kill"])
def test_an_agent_works_on_through_an_upgrade(rig: Rig, newer: Path, crossing: str) -> None:
    """It is adopted, ends right, and its log is whole; the next one runs under the new shim."""
    rig.start_daemon()
    task_id, run = working(rig)
    (old_shim,) = (rig.state / "shims").iterdir()
    rig.source = newer
    said = rig.wk("daemon", "status").stdout.decode()
    assert f"This program is version {NEXT}: wk daemon restart" in said
    if crossing == "restart":
        assert b"was restarted" in rig.wk("daemon", "restart").stdout
    else:
        rig.kill_daemon()
        rig.start_daemon()
    status = json.loads(rig.wk("daemon", "status", "--json").stdout)
    assert (status["version"], status["program"]) == (NEXT, NEXT)
    assert b"wk daemon restart" not in rig.wk("daemon", "status").stdout
    (adopted,) = rig.runs(task_id)
    assert (adopted.id, adopted.state) == (run.id, RunState.RUNNING)
    let_go(rig)
    assert rig.wait_resting(task_id, keep=False).state is TaskState.DONE
    text = rig.log(run).decode().splitlines()
    assert (len(text), text[-2:]) == (52, ["waiting", "released"])
    healthy(rig)
    shims = {path.name for path in (rig.state / "shims").iterdir()}
    assert old_shim.name in shims
    assert len(shims) == 2
    assert len({hashlib.sha256((rig.state / "shims" / name).read_bytes()).hexdigest() for name in shims}) == 2
    assert rig.started_runs().count(run.id) == 1
    sound(rig)


def test_an_old_daemon_ends_when_the_database_is_too_new_for_it(rig: Rig) -> None:
    """It says so once, leaves its agent at work, and ends instead of failing again and again; commands of its version say what to do."""
    daemon = rig.start_daemon()
    _, run = working(rig)
    with sqlite3.connect(rig.state / "wk.db") as db:
        db.execute("PRAGMA user_version=4000")
    db.close()
    let_go(rig)
    assert daemon.wait(timeout=30) == Exit.STATE
    log = daemon_log(rig)
    assert log.count("outgrown") == 1
    assert "tick failed" not in log
    assert "Traceback" not in log
    refused(rig, "ls", code=Exit.STATE, detail="newer version")
    assert rig.start_daemon().wait(timeout=30) == Exit.STATE
    assert rig.log(run).decode().splitlines()[0].startswith("line 0")
