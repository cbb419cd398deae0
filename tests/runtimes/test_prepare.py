"""A directory that has its name is whole, whatever happened on the way."""

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from runtimes.stage import Script, Stage

from watchkeeper.errors import Refused
from watchkeeper.runtimes.records import load

SCRIPT = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from watchkeeper.domain.model import Cause, Run, RunState
from watchkeeper.ports.runtime import ExecutionRequest
from watchkeeper.runtimes.process import ProcessRuntime
from watchkeeper.runtimes.system import SystemClock
state = Path(sys.argv[1])
run = Run(id="run-exec1", task_id="task1", number=1, fence=7, execution_id="exec1", cause=Cause.INITIAL, state=RunState.RESERVED, machine="m",
          incarnation=1, claimed_at=datetime.now(UTC))
order = ExecutionRequest(database_id="db1", run=run, argv=("agent", None), cwd="/", environment={}, prompt=b"do it", prompt_by="argument", before={"a": 1})
identity = ProcessRuntime(state, Path("/tmp/s"), None, lambda: Path("/image"), SystemClock()).prepare(order)
print(identity.device, identity.inode)
"""

FILES = {"spec.json", "prompt", "token", "before.json"}


def test_what_is_written_is_what_the_page_says(stage: Stage) -> None:
    """Every key of the spec, the marker in the agent's environment, nothing for other users."""
    run = stage.run()
    identity = stage.runtime.prepare(
        stage.request(run, environment={"HOME": "/h", "ODD": "a\udcff", "WATCHKEEPER_EXECUTION": "another"})
    )
    directory = stage.directory(run)
    found = directory.stat()
    assert (found.st_dev, found.st_ino) == (identity.device, identity.inode)
    assert stat.S_IMODE(found.st_mode) == 0o700
    assert {path.name for path in directory.iterdir()} == FILES
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}
    assert (directory / "prompt").read_bytes() == b"do it \xff"
    assert len((directory / "token").read_text()) == 32
    assert dict(load((directory / "spec.json").read_bytes())) == {
        "format": 1,
        "database": "db1",
        "task": "task1",
        "run": "run-exec1",
        "fence": 7,
        "execution": "exec1",
        "argv": ["agent", None],
        "cwd": "/",
        "environment": {
            "HOME": "/h",
            "ODD": "a\udcff",
            "WATCHKEEPER_RUN": "run-exec1",
            "WATCHKEEPER_EXECUTION": "exec1",
            "WATCHKEEPER_HOME": str(directory.parent.parent),
        },
        "asked": [],
        "prompt_by": "argument",
        "input": False,
        "deadline_s": None,
        "silence_s": None,
        "grace_s": 10.0,
        "leftovers": "kill",
        "leftovers_grace_s": 5.0,
        "log_limit_bytes": 256 * 1024 * 1024,
        "socket": str(stage.sockets / "exec1.sock"),
        "wake": str(stage.sockets / "wake.sock"),
        "nofile": 1024,
    }


def test_done_twice_it_finds_its_own_work(stage: Stage) -> None:
    """Same directory, same token."""
    run = stage.run()
    first = stage.runtime.prepare(stage.request(run))
    token = (stage.directory(run) / "token").read_text()
    assert stage.runtime.prepare(stage.request(run)) == first
    assert (stage.directory(run) / "token").read_text() == token


@pytest.mark.parametrize("other", [{"fence": 8}, {"id": "other"}, {"task_id": "other"}])
def test_somebody_elses_directory_is_left_alone(stage: Stage, other: dict[str, object]) -> None:
    """It differs in run, fence or task: refused, and nothing in it changes."""
    theirs = replace(stage.run(), **other)
    stage.runtime.prepare(stage.request(theirs))
    before = {path.name: path.read_bytes() for path in stage.directory(theirs).iterdir()}
    with pytest.raises(Refused, match="left alone"):
        stage.runtime.prepare(stage.request(stage.run()))
    assert {path.name: path.read_bytes() for path in stage.directory(theirs).iterdir()} == before


@pytest.mark.parametrize("what", ["empty", "torn", "file", "symlink", "dangling", "database"])
def test_whatever_else_has_the_name_is_left_alone(stage: Stage, what: str) -> None:
    """An empty directory, a torn spec, a file, a symlink, another database's directory."""
    run = stage.run()
    path = stage.directory(run)
    path.parent.mkdir()
    match what:
        case "empty":
            path.mkdir()
        case "torn":
            path.mkdir()
            (path / "spec.json").write_text('{"format": 1')
        case "file":
            path.write_text("mine")
        case "symlink":
            path.symlink_to(stage.state)
        case "dangling":
            path.symlink_to(stage.state / "nowhere")
        case _:
            stage.runtime.prepare(stage.request(run, database_id="db2"))
    inode = path.lstat().st_ino
    with pytest.raises(Refused, match="left alone"):
        stage.runtime.prepare(stage.request(run))
    assert path.lstat().st_ino == inode


def test_a_disk_that_does_not_take_it_leaves_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither under the final name nor beside it."""

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        stage.runtime.prepare(stage.request(stage.run()))
    assert list((stage.state / "executions").iterdir()) == []


def test_killed_at_any_point_it_can_be_done_again(script: Script, tmp_path: Path) -> None:
    """At each crash point the name is absent or whole, and doing it again completes it and clears up."""
    log = tmp_path / "points"
    (tmp_path / "first").mkdir()
    done = script(SCRIPT, str(tmp_path / "first"), WATCHKEEPER_CRASH_LOG=str(log))
    assert done.returncode == 0, done.stderr
    points = log.read_text().split()
    assert len(points) >= 14
    assert len(set(points)) == len(points)
    for number, point in enumerate(points):
        state = tmp_path / f"state{number}"
        state.mkdir()
        final = state / "executions" / "exec1"
        assert script(SCRIPT, str(state), WATCHKEEPER_CRASH_AT=point).returncode == -9, point
        inode = final.stat().st_ino if final.exists() else None
        if inode is not None:
            assert {path.name for path in final.iterdir()} == FILES, point
        again = script(SCRIPT, str(state))
        assert again.returncode == 0, (point, again.stderr)
        assert {path.name for path in final.iterdir()} == FILES, point
        assert [path.name for path in final.parent.iterdir()] == ["exec1"], point
        assert int(again.stdout.split()[1]) == final.stat().st_ino
        assert inode in {None, final.stat().st_ino}
