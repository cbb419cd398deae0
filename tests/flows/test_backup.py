"""A backup is made while agents work, the world moves on, the backup is restored: what is said is true, and nothing runs twice."""

import contextlib
import json
import signal
import sqlite3
from pathlib import Path

import pytest
from support.flow_words import healthy, let_go, refused, sound, working
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.compose import Watchkeeper
from watchkeeper.domain.model import RunState, TaskState
from watchkeeper.errors import Exit


@pytest.fixture
def file(rig: Rig) -> Path:
    """Where the backup goes."""
    return rig.root / "b.db"


def restore(rig: Rig, file: Path, *more: str) -> dict[str, object]:
    """Stop the daemon and restore."""
    rig.wk("daemon", "stop")
    return json.loads(rig.wk("restore", str(file), "--json", *more).stdout)


def resume(rig: Rig) -> None:
    """Let the queue continue."""
    parts = Watchkeeper.open(rig.repo, rig.environment, writes=True, repository=False)
    with contextlib.closing(parts.store) as store:
        assert [(rule.scope, rule.paused) for rule in store.read(lambda tx: tx.rules.all())] == [("all", True)]
    rig.wk("queue", "resume")


def test_an_agent_that_ended_after_the_backup(rig: Rig, file: Path) -> None:
    """In the backup it runs. Its directory tells how it ended; the outcome is the true one and nothing starts again."""
    rig.start_daemon()
    task_id, run = working(rig)
    rig.wk("backup", str(file))
    let_go(rig)
    assert rig.wait_resting(task_id).state is TaskState.DONE
    restored = restore(rig, file)
    assert restored["may_have_run"] == []
    assert rig.runs(task_id)[0].state is RunState.RUNNING
    assert rig.wait_resting(task_id).state is TaskState.DONE
    (again,) = rig.runs(task_id)
    assert (again.id, again.execution_id, again.fence) == (run.id, run.execution_id, run.fence)
    assert rig.started_runs() == [run.id]
    sound(rig)


def test_what_waited_in_the_backup_waits_for_a_person(rig: Rig, file: Path) -> None:
    """Nothing tells whether it ran since: the queue is paused until a person has looked."""
    rig.settings = {"WATCHKEEPER_QUEUE_LIMIT": "1"}
    rig.start_daemon()
    blocker, _ = working(rig)
    waiting = rig.run("lines", "3", "exit", "0")
    rig.wk("backup", str(file))
    let_go(rig)
    rig.wait_resting(waiting)
    rig.wk("daemon", "stop")
    for run in rig.runs(waiting):
        (rig.state / "executions" / run.execution_id).rename(rig.root / "moved")
    assert restore(rig, file)["may_have_run"] == []
    assert rig.wait_resting(blocker).state is TaskState.DONE
    assert rig.task(waiting).state is TaskState.QUEUED
    assert rig.started_runs().count(f"{waiting}.1") == 1
    resume(rig)
    rig.wk("daemon", "stop")
    # Its environment went with its end and is in no backup: it says so, and a person who types `wk retry` gives it another one.
    assert "environment" in rig.wait_resting(waiting).reason
    rig.wk("retry", waiting)
    assert rig.wait_resting(waiting).state is TaskState.DONE


def test_an_agent_that_works_on_is_adopted(rig: Rig, file: Path) -> None:
    rig.start_daemon()
    task_id, run = working(rig)
    rig.wk("backup", str(file))
    restore(rig, file)
    rig.start_daemon()
    assert rig.runs(task_id)[0].state is RunState.RUNNING
    let_go(rig)
    assert rig.wait_resting(task_id).state is TaskState.DONE
    assert rig.started_runs() == [run.id]


@pytest.mark.parametrize("by", ["wk restore", "a copy of the file"])
def test_a_run_that_was_only_reserved_in_the_backup_is_taken_over(rig: Rig, file: Path, by: str) -> None:
    """It ran since, and its environment went with its end: its directory tells what it did, and it is not said to be never launched."""
    rig.arm("prepare.mkdir.before", how="STOP")
    rig.open_gate()
    daemon = rig.start_daemon()
    task_id = rig.run("lines", "3", "exit", "0")
    wait_until(lambda: rig.died, what="its run is reserved")
    rig.disarm()
    rig.wk("backup", str(file))
    assert [run.state for run in rig.runs(task_id)] == [RunState.RESERVED]
    daemon.send_signal(signal.SIGCONT)
    assert rig.wait_resting(task_id).state is TaskState.DONE
    if by == "wk restore":
        assert restore(rig, file)["may_have_run"] == []
        assert [run.state for run in rig.runs(task_id)] == [RunState.PREPARED], (
            "a stop now would not take it for one that never began"
        )
    else:
        rig.wk("daemon", "stop")
        for old in rig.state.glob("wk.db*"):
            old.unlink()
        (rig.state / "wk.db").write_bytes(file.read_bytes())
    task = rig.wait_resting(task_id)
    assert task.state is TaskState.DONE, task.reason
    assert rig.started_runs() == [f"{task_id}.1"]
    assert "run.never_launched" not in [entry.kind for entry in rig.journal()]
    sound(rig)


def test_an_agent_whose_directory_is_gone_is_held(rig: Rig, file: Path) -> None:
    """Restored where the directories are not, as on another machine: what happened is not known, so nothing starts by itself."""
    rig.start_daemon()
    task_id, run = working(rig)
    rig.wk("backup", str(file))
    let_go(rig)
    rig.wait_resting(task_id)
    rig.wk("daemon", "stop")
    (rig.state / "executions" / run.execution_id).rename(rig.root / "moved")
    restore(rig, file)
    rig.start_daemon()
    wait_until(lambda: rig.task(task_id).state is TaskState.HELD, within_s=30, what="it is held")
    assert rig.started_runs() == [run.id]


def test_a_task_that_ran_after_the_backup_does_not_run_again(rig: Rig, file: Path) -> None:
    """In the backup it waits. Its directory proves that it ran since, so it is stopped, and a person may start it again."""
    rig.settings = {"WATCHKEEPER_QUEUE_LIMIT": "1"}
    rig.start_daemon()
    blocker, _ = working(rig)
    waiting = rig.run("lines", "3", "exit", "0")
    assert rig.task(waiting).state is TaskState.QUEUED
    rig.wk("backup", str(file))
    let_go(rig)
    assert rig.wait_resting(blocker).state is TaskState.DONE
    assert rig.wait_resting(waiting).state is TaskState.DONE
    fences = {run.fence for task in (blocker, waiting) for run in rig.runs(task)}
    restored = restore(rig, file)
    assert (restored["may_have_run"], restored["queue_paused"]) == ([waiting], True)
    assert rig.wait_resting(blocker).state is TaskState.DONE
    assert rig.task(waiting).state is TaskState.STOPPED
    assert rig.started_runs().count(f"{waiting}.1") == 1
    resume(rig)
    rig.wk("retry", waiting)
    assert rig.wait_resting(waiting).state is TaskState.DONE
    assert rig.runs(waiting)[0].fence > max(fences)
    assert rig.started_runs().count(f"{waiting}.1") == 2
    sound(rig)


def test_an_agent_that_the_backup_knows_nothing_of(rig: Rig, file: Path) -> None:
    """It works: the restore is refused, because no daemon would watch it; with --force it is said."""
    rig.start_daemon()
    healthy(rig)
    rig.wk("backup", str(file))
    task_id, run = working(rig)
    rig.wk("daemon", "stop")
    refused(rig, "restore", str(file), code=Exit.REFUSED, detail=run.id)
    assert rig.task(task_id).state is TaskState.RUNNING
    restored = restore(rig, file, "--force")
    assert restored["unwatched_executions"] == [run.execution_id]
    assert run.execution_id in {path.name for path in (rig.state / "executions").iterdir()}
    healthy(rig)
    assert rig.survivors(), "it was left alone"
    let_go(rig)


def test_a_restore_wants_the_daemon_gone(rig: Rig, file: Path) -> None:
    rig.start_daemon()
    healthy(rig)
    rig.wk("backup", str(file))
    refused(rig, "restore", str(file), code=Exit.DAEMON, detail="The daemon runs")
    assert [path.name for path in rig.state.glob("wk.db.*")] == ["wk.db.newest"]


def test_no_daemon_starts_while_a_restore_is_under_way(rig: Rig, file: Path) -> None:
    """It is stopped in the middle; a daemon that would start says so, and a task that is handed over meanwhile waits for its end."""
    healthy(rig)
    rig.wk("backup", str(file))
    rig.wk("daemon", "stop")
    rig.arm("restore.sync.before", how="STOP")
    rig.open_gate()
    restoring = rig.popen("restore", str(file))
    wait_until(lambda: rig.died, what="it is in the middle")
    rig.disarm()
    daemon = rig.start_daemon()
    assert daemon.wait(timeout=20) == Exit.DAEMON
    restoring.send_signal(signal.SIGCONT)
    assert restoring.wait(timeout=20) == 0
    healthy(rig)


def test_an_agent_may_not_restore(rig: Rig, file: Path) -> None:
    healthy(rig)
    rig.wk("backup", str(file))
    rig.settings = {"WATCHKEEPER_RUN": "x.1"}
    refused(rig, "restore", str(file), code=Exit.REFUSED, detail="An agent may not")


def test_a_dry_run_changes_nothing(rig: Rig, file: Path) -> None:
    healthy(rig)
    rig.wk("backup", str(file))
    rig.wk("daemon", "stop")
    before = {path: path.read_bytes() for path in rig.state.glob("wk.db*")}
    assert b"Nothing was changed" in rig.wk("restore", str(file), "--dry-run").stdout
    assert {path: path.read_bytes() for path in rig.state.glob("wk.db*")} == before


def test_a_backup_in_a_directory_is_named_for_its_time_and_says_what_it_lacks(rig: Rig) -> None:
    refused(rig, "backup", str(rig.root), code=Exit.STATE, detail="nothing to back up")
    healthy(rig)
    done = rig.wk("backup", str(rig.root)).stdout.decode()
    (made,) = rig.root.glob("watchkeeper-*.db")
    assert made.name in done
    for word in ("logs", "environments", "secrets", "accounts", "settings"):
        assert word in done
    with sqlite3.connect(made) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()


def test_a_database_on_postgresql_is_for_its_own_programs(rig: Rig, file: Path) -> None:
    """And the refusal does not say the password."""
    rig.settings = {"WATCHKEEPER_STORE_URL": "postgresql://me:s3cret@nowhere.invalid/db"}
    for command in ("backup", "restore"):
        refused(rig, command, str(file), code=Exit.REFUSED, detail="PostgreSQL")
    done = rig.wk("backup", str(file), check=False)
    assert b"pg_dump" in done.stderr
    assert b"s3cret" not in done.stderr
