"""Directories: listing, reading, removing."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from runtimes.stage import Script, Stage

from watchkeeper.errors import Refused
from watchkeeper.runtimes.executions import ExecutionDirectories


def test_only_whole_directories_have_names(stage: Stage) -> None:
    """Neither half-written ones nor half-deleted ones, files or symlinks."""
    assert stage.runtime.executions().names() == []
    stage.prepared("b")
    stage.prepared("a")
    root = stage.state / "executions"
    (root / ".c.new").mkdir()
    (root / ".d.gone").mkdir()
    (root / "file").touch()
    (root / "link").symlink_to(root / "a")
    assert stage.runtime.executions().names() == ["a", "b"]


def test_what_the_daemon_kept_is_read_back(stage: Stage) -> None:
    """The snapshot, the proof and the dropped ranges; nothing from a directory that is not ours."""
    executions = stage.runtime.executions()
    run = stage.prepared()
    assert executions.before(run) == {"head": "abc"}
    assert executions.gone(run) is None
    assert executions.dropped(run, "stdout") == []
    stage.gone(run)
    stage.write(run, "dropped.json", {"stdout.log": [[5, 9]]})
    gone = executions.gone(run)
    assert gone is not None
    assert gone.proven
    assert executions.dropped(run, "stdout") == [(5, 9)]
    assert executions.dropped(run, "stderr") == []
    assert executions.log(run, "stdout") == stage.directory(run) / "stdout.log"
    with pytest.raises(ValueError, match="stream"):
        executions.log(run, "../token")
    for name in ("gone.json", "before.json", "dropped.json"):
        stage.write(run, name, b"{")
    assert (executions.gone(run), executions.before(run), executions.dropped(run, "stdout")) == (None, None, [])
    stage.gone(run)
    stage.directory(run).rename(stage.state / "aside")
    stage.directory(run).mkdir()
    stage.gone(run)
    assert executions.gone(run) is None


def test_removing_leaves_nothing(stage: Stage) -> None:
    """Nor what an earlier crash left beside it; twice is fine."""
    run = stage.prepared()
    root = stage.state / "executions"
    (root / ".exec1.gone").mkdir()
    (root / ".exec1.gone" / "x").touch()
    (root / ".exec1.new").mkdir()
    stage.runtime.executions().remove(run)
    assert list(root.iterdir()) == []
    stage.runtime.executions().remove(run)


@pytest.mark.parametrize("name", ["", ".", "..", "../state", "/tmp", "a/b", ".x.new", "x" * 65])
def test_a_name_that_points_elsewhere_is_refused(stage: Stage, name: str) -> None:
    """Nothing outside is ever deleted."""
    with pytest.raises(Refused):
        stage.runtime.executions().remove(stage.run(name))


def test_a_symlink_is_not_followed(stage: Stage) -> None:
    """What it points to stays."""
    elsewhere = stage.state / "precious"
    elsewhere.mkdir()
    (elsewhere / "file").touch()
    root = stage.state / "executions"
    root.mkdir()
    (root / "link").symlink_to(elsewhere)
    with pytest.raises(Refused):
        stage.runtime.executions().remove(stage.run("link"))
    run = stage.prepared()
    (stage.directory(run) / "inside").symlink_to(elsewhere)
    stage.runtime.executions().remove(run)
    assert (elsewhere / "file").exists()


def test_the_directory_of_a_living_shim_stays(stage: Stage) -> None:
    """A command for its removal is mistaken."""
    run = stage.prepared()
    lock = stage.hold(run)
    with pytest.raises(Refused, match="living shim"):
        stage.runtime.executions().remove(run)
    lock.close()
    stage.runtime.executions().remove(run)
    assert not stage.directory(run).exists()


def test_killed_while_removing_it_can_be_finished(script: Script, stage: Stage, tmp_path: Path) -> None:
    """At each crash point the name is whole or gone, and `tidy` clears up."""
    code = """
import os, sys
from datetime import UTC, datetime
import shutil
from dataclasses import replace
from pathlib import Path
from watchkeeper.domain.model import Cause, DirectoryIdentity, Run, RunState
from watchkeeper.runtimes.executions import ExecutionDirectories
root = Path(sys.argv[1])
found = os.stat(root / "exec1")
run = Run(id="r", task_id="t", number=1, fence=1, execution_id="exec1", cause=Cause.INITIAL, state=RunState.SETTLED, machine="m",
          incarnation=1, claimed_at=datetime.now(UTC), directory=DirectoryIdentity(device=found.st_dev, inode=found.st_ino))
ExecutionDirectories(root).remove(run)
"""
    for step in ("rename.before", "rename.after", "delete.before", "delete.after"):
        root = tmp_path / step
        (root / "exec1").mkdir(parents=True)
        for name in ("spec.json", "token"):
            (root / "exec1" / name).touch()
        assert script(code, str(root), WATCHKEEPER_CRASH_AT=f"executions.remove.{step}").returncode == -9
        directories = ExecutionDirectories(root)
        if step == "rename.before":
            assert len(list((root / "exec1").iterdir())) == 2
        else:
            assert directories.names() == []
        directories.tidy()
        assert [path.name for path in root.iterdir()] == directories.names()


def test_another_directory_under_the_name_stays(stage: Stage) -> None:
    """A copy, however alike, is not what was prepared: it is not known who put it there and why."""
    run = stage.prepared()
    shutil.copytree(stage.directory(run), stage.state / "copy")
    stage.directory(run).rename(stage.state / "aside")
    (stage.state / "copy").rename(stage.directory(run))
    with pytest.raises(Refused, match="not the directory that was prepared for run run-exec1"):
        stage.runtime.executions().remove(run)
    assert (stage.directory(run) / "spec.json").exists()


def test_of_a_directory_that_was_never_recorded_the_spec_tells_whose_it_is(stage: Stage) -> None:
    """Written, then refused: it goes. Another owner's under the same name stays."""
    run = replace(stage.prepared(), directory=None)
    other = replace(run, fence=8)
    with pytest.raises(Refused):
        stage.runtime.executions().remove(other)
    stage.runtime.executions().remove(run)
    assert not stage.directory(run).exists()
    stage.directory(run).mkdir()
    (stage.directory(run) / "mine").touch()
    with pytest.raises(Refused):
        stage.runtime.executions().remove(run)
    assert (stage.directory(run) / "mine").exists()
