"""Removing, renaming, pinning and pruning tasks, with real agents and a real daemon."""

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest
from support.flow_words import let_go, refused, sound, working
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.compose import Watchkeeper
from watchkeeper.domain.model import TaskState
from watchkeeper.errors import Exit

POINTS = (
    "tx.remove.before_commit",
    "tx.remove.after_commit",
    "executions.keep.before",
    "executions.keep.after",
    "executions.remove.rename.before",
    "executions.remove.rename.after",
    "executions.remove.delete.before",
    "executions.remove.delete.after",
    "tx.done_remove_execution.before_commit",
    "tx.done_remove_execution.after_commit",
)


def done(rig: Rig, *agent: str) -> str:
    """A task that has ended."""
    task_id = rig.run("lines", "20", *agent, "exit", "0")
    assert rig.wait_resting(task_id).state is TaskState.DONE
    return task_id


def directories(rig: Rig) -> list[str]:
    """Everything in the directory of executions, half-deleted ones included."""
    return sorted(path.name for path in (rig.state / "executions").iterdir())


def reasons(rig: Rig, *words: str) -> list[list[str]]:
    """Why each was not removed, by kind."""
    answer = json.loads(rig.wk("rm", *words, "--json", check=False).stdout)
    return [[each["kind"] for each in report["reasons"]] for report in answer]


def test_a_removed_task_leaves_only_its_history(rig: Rig) -> None:
    task_id, other = done(rig), done(rig)
    (run,) = rig.runs(task_id)
    rig.wk("rm", task_id)
    wait_until(lambda: not rig.pending(), within_s=20, what="its directory was deleted")
    assert run.execution_id not in directories(rig)
    assert not (rig.state / "kept-logs").exists()
    refused(rig, "show", task_id, code=Exit.NOT_FOUND, detail=task_id)
    assert f"{task_id}    removed by" in rig.wk("events").stdout.decode()
    assert rig.task(other).state is TaskState.DONE
    assert json.loads(rig.wk("doctor", "--json", check=False).stdout)
    sound(rig)


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_any_step_a_removal_is_finished(rig: Rig, point: str) -> None:
    """Typed again if it was the command that died: no record, no directory, the log kept whole, and it is reported once."""
    rig.start_daemon()
    task_id = done(rig)
    (run,) = rig.runs(task_id)
    log = rig.log(run)
    rig.kill_daemon()
    rig.arm(point)
    rig.open_gate()
    rig.start_daemon()
    first = rig.wk("rm", task_id, "--keep-log", check=False)
    assert first.returncode in {0, -9}
    wait_until(lambda: rig.died, within_s=20, what=f"somebody died at {point}")
    rig.disarm()
    if first.returncode == -9:
        assert rig.wk("rm", task_id, "--keep-log", check=False).returncode in {0, Exit.NOT_FOUND}

    def over() -> bool:
        rig.keep_daemon()
        return not rig.pending() and directories(rig) == []

    wait_until(over, within_s=30, what="everything is gone")
    assert rig.tasks() == []
    kept = rig.state / "kept-logs" / task_id
    assert [path.name for path in kept.iterdir()] == [f"{run.id}.stdout.log"]
    assert (kept / f"{run.id}.stdout.log").read_bytes() == log
    assert [entry.kind for entry in rig.journal()].count("task.removed") == 1
    sound(rig)


def test_kept_logs_are_where_it_says(rig: Rig) -> None:
    task_id = done(rig)
    (run,) = rig.runs(task_id)
    log = rig.log(run)
    said = rig.wk("rm", task_id, "--keep-log").stdout.decode()
    place = Path(said.partition("its logs: ")[2].strip())
    wait_until(lambda: place.is_dir() and directories(rig) == [], within_s=20, what="its directory was deleted")
    assert (place / f"{run.id}.stdout.log").read_bytes() == log


def test_each_that_is_not_removed_is_told_with_every_reason(rig: Rig) -> None:
    """One that works, one that waits for it and is pinned, one that is not there; the one that may go goes all the same."""
    over = done(rig)
    works, _ = working(rig)
    waits = json.loads(rig.wk("run", "--json", "--after", works, "--", "true").stdout)["id"]
    rig.wk("pin", waits)
    refused_all = rig.wk("rm", works, waits, "nosuch", over, check=False)
    assert refused_all.returncode == Exit.REFUSED
    err = refused_all.stderr.decode()
    assert f"'{works}' was not removed: it is running; {waits} is to run after it." in err
    assert f"'{waits}' was not removed: it is in the queue; it is pinned." in err
    assert "There is no task 'nosuch'" in err
    assert f"{over}  was removed" in refused_all.stdout.decode()
    assert reasons(rig, works, waits) == [["running", "awaited"], ["queued", "pinned"]]
    assert {task.id for task in rig.tasks()} == {works, waits}
    let_go(rig)
    assert rig.wait_resting(works).state is TaskState.DONE


def test_what_may_be_alive_stays_without_a_persons_word(rig: Rig) -> None:
    """The proof of its end is weaker than it could be."""
    rig.start_daemon()
    task_id, run = working(rig)
    rig.wk("stop", task_id, "--no-wait")
    assert rig.wait_resting(task_id).state is TaskState.STOPPED
    with contextlib.closing(sqlite3.connect(rig.state / "wk.db")) as db:
        db.execute("DROP TRIGGER execution_facts_stay")
        db.execute("UPDATE execution SET proof = 'swept' WHERE id = ?", (run.execution_id,))
        db.commit()
    assert reasons(rig, task_id) == [["unproven"]]
    assert rig.task(task_id)
    assert reasons(rig, task_id, "--dry-run", "--force") == [[]]
    rig.wk("rm", task_id, "--force")
    wait_until(lambda: directories(rig) == [], within_s=20, what="its directory was deleted")


def test_a_directory_that_is_not_the_prepared_one_is_left_and_that_is_told(rig: Rig) -> None:
    task_id = done(rig)
    (run,) = rig.runs(task_id)
    place = rig.state / "executions" / run.execution_id
    place.rename(rig.root / "moved")
    place.mkdir()
    (place / "mine").touch()
    rig.wk("rm", task_id)
    wait_until(lambda: not rig.pending(), within_s=60, what="it gave up")
    assert (place / "mine").exists()
    assert [entry.data["execution"] for entry in rig.journal() if entry.kind == "execution.left"] == [run.execution_id]


def test_an_agent_may_not_remove(rig: Rig) -> None:
    task_id = done(rig)
    rig.settings = {"WATCHKEEPER_RUN": "x.1"}
    for command in (("rm", task_id), ("prune",), ("pin", task_id), ("rename", task_id, "x")):
        refused(rig, *command, code=Exit.REFUSED, detail="An agent may not")
    assert rig.task(task_id)


def test_a_task_has_another_title_whatever_it_is_at(rig: Rig) -> None:
    rig.start_daemon()
    works, _ = working(rig)
    rig.wk("rename", works, "  Another \n title ")
    assert rig.task(works).spec.title == "Another title"
    refused(rig, "rename", works, "   ", code=Exit.BAD_TASK, detail="empty")
    refused(rig, "rename", works, "x" * 201, code=Exit.BAD_TASK, detail="longer than 200")
    let_go(rig)
    assert rig.wait_resting(works).state is TaskState.DONE
    rig.wk("rename", works, "Once more")
    assert rig.task(works).spec.title == "Once more"


def _listed(rig: Rig, *options: str) -> list[str]:
    """The ids in the list for people, from the top."""
    lines = rig.wk("ls", *options).stdout.decode().splitlines()[1:]
    return [line.split()[0] for line in lines if not line.startswith(("1 more", " "))]


def test_pinned_tasks_are_on_top(rig: Rig) -> None:
    """The last pinned one first, whatever it is at and however old; a list of other states does not show it. Lists for programs keep their order."""
    old, other, new = done(rig), done(rig), done(rig)
    rig.wk("pin", old, other)
    assert _listed(rig) == [other, old, new]
    assert rig.wk("ls").stdout.decode().splitlines()[1].endswith("(pinned) (nothing changed)")
    assert _listed(rig, "--limit", "2") == [other, old]
    listed = json.loads(rig.wk("ls", "--json").stdout)
    assert [row["id"] for row in listed] == [old, other, new]
    assert [row["pinned_at"] is not None for row in listed] == [True, True, False]
    assert json.loads(rig.wk("ls", "--state", "failed", "--json").stdout) == []
    rig.wk("unpin", old, other)
    assert _listed(rig) == [old, other, new]


def test_pinned_tasks_stay(rig: Rig) -> None:
    """Until they are unpinned; logs too."""
    kept, gone = done(rig), done(rig)
    rig.settings = {"WATCHKEEPER_PRUNE_KEEP_DAYS": "0"}
    rig.wk("pin", kept)
    answer = json.loads(rig.wk("prune", "--older-than", "1ms", "--json").stdout)
    assert (answer["tasks"], answer["executions"]) == ([gone], [])
    assert rig.task(kept).pinned_at is not None
    rig.wk("unpin", kept)
    answer = json.loads(rig.wk("prune", "--older-than", "1ms", "--json").stdout)
    assert answer["tasks"] == [kept]
    assert rig.tasks() == []


def test_pruning_keeps_the_newest_and_what_is_refused_with_its_reasons(rig: Rig) -> None:
    tasks = [done(rig) for _ in range(3)]
    waits = json.loads(rig.wk("run", "--json", "--after", tasks[0], "--not-before", "+1h", "--", "true").stdout)["id"]
    before = {path: path.read_bytes() for path in rig.state.rglob("*.log") if path.is_file()}
    dry = json.loads(rig.wk("prune", "--older-than", "1ms", "--keep", "1", "--dry-run", "--json").stdout)
    assert dry["tasks"] == [tasks[1]]
    assert {path: path.read_bytes() for path in before} == before
    answer = json.loads(rig.wk("prune", "--older-than", "1ms", "--keep", "1", "--json").stdout)
    assert answer["tasks"] == [tasks[1]]
    assert answer["left"] == [
        {"id": tasks[0], "reasons": [{"kind": "awaited", "detail": f"{waits} is to run after it"}]}
    ]
    assert {task.id for task in rig.tasks()} == {tasks[0], tasks[2], waits}


def test_the_daemon_prunes_tasks_by_the_rule(rig: Rig) -> None:
    done(rig)
    rig.wk("daemon", "stop")
    rig.settings = {"WATCHKEEPER_PRUNE_KEEP_TASKS_DAYS": "0"}
    rig.start_daemon()
    wait_until(lambda: not rig.tasks() and directories(rig) == [], within_s=30, what="it was pruned")
    assert [entry.data["by"] for entry in rig.journal() if entry.kind == "task.removed"] == ["prune"]


def test_a_cursor_before_a_gap_is_told(rig: Rig) -> None:
    """History of what was removed is forgotten; a reader that continues from before that learns that something is missing."""
    task_id = done(rig)
    rig.wk("rm", task_id)
    wait_until(lambda: not rig.pending(), within_s=20, what="its directory was deleted")
    last = rig.journal()[-1].seq
    assert b"is kept" not in rig.wk("events", "--after", "1").stderr
    parts = Watchkeeper.open(rig.repo, rig.environment, writes=True, repository=False)
    with contextlib.closing(parts.store) as store:
        later = parts.clock.now()
        gone, _ = store.transact("forget", lambda tx: tx.deletion.forget_history(later, 1000))
        assert gone > 5
    said = rig.wk("events", "--after", "1")
    assert f"everything up to {last} is kept" in said.stderr.decode()
    (line,) = [json.loads(line) for line in rig.wk("events", "--after", "1", "--json").stdout.splitlines()]
    assert (line["kind"], line["data"]) == ("history.forgotten", {"through": last})
    assert not rig.wk("events", "--after", str(last), "--json").stdout
