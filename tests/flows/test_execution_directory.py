"""Execution directories that are torn, missing or another owner's while the agent works: the run is held with a reason, and all others continue."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.flow_words import healthy, let_go, row, shown, sound, working
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.model import Run, RunState, TaskState


def _held(rig: Rig, task_id: str, detail: str) -> None:
    """The task becomes held and says why, everywhere; its agent is left alone; another task is done meanwhile."""
    wait_until(lambda: rig.task(task_id).state is TaskState.HELD, within_s=20, what="it is held")
    assert detail in rig.task(task_id).reason
    assert detail in shown(rig, task_id)
    assert task_id.encode() in rig.wk("status").stdout
    healthy(rig)


def _directory(rig: Rig, run: Run) -> Path:
    return rig.state / "executions" / run.execution_id


def _is_regained(rig: Rig, task_id: str) -> None:
    """The run is followed again, and ends as it would have."""
    wait_until(lambda: rig.task(task_id).state is TaskState.RUNNING, within_s=20, what="it is regained")
    let_go(rig)
    assert rig.wait_resting(task_id).state is TaskState.DONE
    (run,) = rig.runs(task_id)
    assert run.exit is not None and run.exit.exit_code == 0
    sound(rig)


def _other_decision(path: Path) -> None:
    _rewrite(path, by="recovery")


def _other_run(path: Path) -> None:
    _rewrite(path, database="another")


def _rewrite(path: Path, **changes: str) -> None:
    """A record that is whole, and says something else; without the checksum, as an earlier version wrote it."""
    record = json.loads(path.read_bytes())
    _ = record.pop("crc32")
    path.write_text(json.dumps({**record, **changes}), encoding="utf-8")


def _half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _garbage(path: Path) -> None:
    path.write_bytes(b"\xff\0{" * 100)


def _directory_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("name", "tear"),
    [
        ("spec.json", _half),
        ("spec.json", Path.unlink),
        ("proc.json", _half),
        ("proc.json", _empty),
        ("decide", _garbage),
        ("decide", _directory_instead),
        ("decide", Path.unlink),
    ],
)
def test_a_torn_record_holds_the_run_until_it_is_whole_again(rig: Rig, name: str, tear: Callable[[Path], None]) -> None:
    """Found by the next look; the agent works on, and the run is regained when the record is as it was."""
    rig.start_daemon()
    task_id, run = working(rig)
    record = _directory(rig, run) / name
    whole = record.read_bytes()
    tear(record)
    _held(rig, task_id, name)
    if record.is_dir():
        record.rmdir()
    record.write_bytes(whole)
    _is_regained(rig, task_id)


def test_an_agents_record_that_is_deleted_holds_the_run_at_its_end(rig: Rig) -> None:
    """While the shim's lock says that it lives, nothing is concluded; an end without the record before it is not believed."""
    rig.start_daemon()
    task_id, run = working(rig)
    record = _directory(rig, run) / "proc.json"
    whole = record.read_bytes()
    record.unlink()
    healthy(rig)
    assert rig.task(task_id).state is TaskState.RUNNING
    let_go(rig)
    _held(rig, task_id, "proc.json")
    record.write_bytes(whole)
    wait_until(lambda: rig.task(task_id).state is TaskState.DONE, within_s=20, what="it is done")


@pytest.mark.parametrize(
    ("name", "change", "detail"),
    [("decide", _other_decision, "proc.json"), ("spec.json", _other_run, "not the one that was prepared")],
)
def test_a_record_that_contradicts_holds_the_run(
    rig: Rig, name: str, change: Callable[[Path], None], detail: str
) -> None:
    """A whole record that cannot be true is believed as little as a torn one."""
    rig.start_daemon()
    task_id, run = working(rig)
    record = _directory(rig, run) / name
    whole = record.read_bytes()
    change(record)
    _held(rig, task_id, detail)
    record.write_bytes(whole)
    _is_regained(rig, task_id)


@pytest.mark.parametrize("tear", [_half, _empty])
def test_a_torn_exit_record_is_no_exit(rig: Rig, tear: Callable[[Path], None]) -> None:
    """Torn before any daemon read it, the run is held; it ends with the true status when the record is whole."""
    daemon = rig.start_daemon()
    task_id, run = working(rig)
    rig.kill_daemon()
    let_go(rig)
    record = _directory(rig, run) / "exit.json"
    wait_until((_directory(rig, run) / "gone.json").exists, within_s=20, what="the shim has ended")
    whole = record.read_bytes()
    tear(record)
    assert daemon.poll() is not None
    rig.start_daemon()
    _held(rig, task_id, "exit.json")
    record.write_bytes(whole)
    assert wait_until(lambda: rig.task(task_id).state is TaskState.DONE, within_s=20, what="it is done")
    (run,) = rig.runs(task_id)
    assert run.exit is not None and run.exit.exit_code == 0


def _missing(rig: Rig, path: Path) -> None:
    path.rename(rig.root / "away")


def _file(rig: Rig, path: Path) -> None:
    path.rename(rig.root / "away")
    path.write_text("no directory", encoding="utf-8")


def _copy(rig: Rig, path: Path) -> None:
    path.rename(rig.root / "away")
    shutil.copytree(rig.root / "away", path, ignore=shutil.ignore_patterns("*.pipe"))


def _empty_one(rig: Rig, path: Path) -> None:
    path.rename(rig.root / "away")
    path.mkdir()


def _symlink(rig: Rig, path: Path) -> None:
    path.rename(rig.root / "away")
    path.symlink_to(rig.root / "away")


@pytest.mark.parametrize(
    ("take", "detail"),
    [
        (_missing, "missing"),
        (_file, "not the one that was prepared"),
        (_copy, "not the one that was prepared"),
        (_empty_one, "not the one that was prepared"),
        (_symlink, "not the one that was prepared"),
    ],
)
def test_a_directory_that_is_gone_or_another_holds_the_run(
    rig: Rig, take: Callable[[Rig, Path], None], detail: str
) -> None:
    """A daemon that starts finds it, says `held`, and touches nothing there; moved back, the run is regained."""
    rig.start_daemon()
    task_id, run = working(rig)
    rig.kill_daemon()
    path = _directory(rig, run)
    take(rig, path)
    rig.start_daemon()
    started = [entry for entry in rig.journal() if entry.kind == "daemon.started"]
    assert started[-1].data["found"] == {run.id: "held"}
    _held(rig, task_id, detail)
    assert row(rig, task_id)["shown"] == "held"
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)
    (rig.root / "away").rename(path)
    _is_regained(rig, task_id)


def test_a_directory_of_another_database_is_nobodys(rig: Rig) -> None:
    """The database was put back from elsewhere: directories that it does not know are left alone, and named by `wk doctor`."""
    healthy(rig)
    rig.wk("daemon", "stop")
    (old,) = (rig.state / "executions").iterdir()
    before = sorted(path.name for path in old.iterdir())
    for file in rig.state.glob("wk.db*"):
        file.unlink()
    aside = old.rename(rig.root / old.name)
    healthy(rig)
    aside.rename(old)
    healthy(rig)
    assert sorted(path.name for path in old.iterdir()) == before
    assert len(rig.tasks()) == 2


def test_a_name_that_is_taken_costs_a_run_and_no_task(rig: Rig) -> None:
    """Something has the name of the execution that is about to be prepared: it is left alone, and another run does the work."""
    (rig.root / "gate").touch()
    rig.arm("prepare.rename.before")
    rig.start_daemon()
    task_id = rig.run("lines", "3", "exit", "0")
    wait_until(lambda: rig.daemons[-1].poll() is not None, within_s=20, what="the daemon died before the rename")
    rig.disarm()
    (run,) = rig.runs(task_id)
    assert run.state is RunState.RESERVED
    path = _directory(rig, run)
    path.mkdir()
    (path / "mine").write_text("do not touch", encoding="utf-8")
    rig.start_daemon()
    healthy(rig)
    assert rig.wait_resting(task_id).state is TaskState.DONE
    assert (path / "mine").read_text(encoding="utf-8") == "do not touch"
    assert [each.state for each in rig.runs(task_id)] == [RunState.SETTLED, RunState.SETTLED]


@pytest.mark.parametrize("damage", [Path.unlink, _half, _garbage])
def test_an_environment_that_is_gone_before_the_launch(rig: Rig, damage: Callable[[Path], None]) -> None:
    """The task cannot be started as it was handed over: it needs a person and says so, after one look; `wk retry` captures the environment anew."""
    rig.settings = {"WATCHKEEPER_QUEUE_LIMIT": "1"}
    first, _ = working(rig)
    second = rig.run("exit", "0", options=("--shared",))
    damage(rig.state / "environments" / f"{rig.task(second).environment_id}.json")
    let_go(rig)
    assert rig.wait_resting(first).state is TaskState.DONE
    assert rig.wait_resting(second).state is TaskState.NEEDS_INPUT and len(rig.runs(second)) == 1
    assert "environment" in rig.task(second).reason and "wk retry" in rig.task(second).reason
    healthy(rig)
    rig.wk("retry", second)
    assert rig.wait_resting(second).state is TaskState.DONE
