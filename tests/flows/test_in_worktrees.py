"""Tasks in worktrees of their own, with a real daemon: side by side, each change where it belongs, and nothing anywhere else."""

import json
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from support.flow_words import let_go, refused, working
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import Proof, Task, TaskState
from watchkeeper.domain.worktree import Worktree, WorktreeState
from watchkeeper.errors import Exit
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.boot import boot_id

TEN = 10


def _git(at: Path, *arguments: str) -> str:
    command = ["git", "-C", str(at), "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _hand_over(rig: Rig, script: str, *options: str) -> str:
    done = rig.wk("run", "--json", "--harness", "demo", "--worktree", *options, script)
    return str(json.loads(done.stdout)["id"])


def _tree(task: Task) -> Worktree:
    assert task.spec.worktree is not None
    return task.spec.worktree


def _done(rig: Rig, script: str = "write new hello\nsay done", *options: str) -> tuple[str, Worktree]:
    """A task that is done, and its worktree."""
    task_id = _hand_over(rig, script, *options)
    assert rig.wait_resting(task_id).state is TaskState.DONE, rig.task(task_id).reason
    return task_id, _tree(rig.task(task_id))


@pytest.mark.timeout(240)
def test_ten_tasks_on_ten_worktrees_of_one_repository_at_once(rig: Rig) -> None:
    """All ten work at the same time, also across the death of the daemon, and each has its own change and its own commit."""
    rig.settings = {"WATCHKEEPER_QUEUE_LIMIT": str(TEN)}
    rig.start_daemon()
    before = _git(rig.repo, "rev-parse", "HEAD")
    here, go = rig.root / "here", rig.root / "go"
    here.mkdir()
    ids = [
        _hand_over(
            rig, f"write file-{number} text {number}\ncommit Change {number}\nwrite {here}/{number}\nwait-for {go}"
        )
        for number in range(TEN)
    ]
    rig.kill_daemon()
    rig.start_daemon()
    wait_until(lambda: len(list(here.iterdir())) == TEN, within_s=90, what="all ten work at once")
    assert {rig.task(task_id).state for task_id in ids} == {TaskState.RUNNING}
    go.touch()
    for number, task_id in enumerate(ids):
        task = rig.wait_resting(task_id, within_s=60)
        assert task.state is TaskState.DONE, task.reason
        tree, outcome = _tree(task), rig.outcome(f"{task_id}.1")
        assert outcome is not None
        assert outcome.changes is not None
        assert [file.path for file in outcome.changes.files] == [f"file-{number}"]
        assert len(outcome.changes.commits) == 1
        assert outcome.changes.beside == ()
        assert _git(Path(tree.path), "log", "--format=%s", f"{before}..{tree.branch}") == f"Change {number}"
    assert (_git(rig.repo, "rev-parse", "HEAD"), _git(rig.repo, "status", "--porcelain")) == (before, "")
    assert not rig.survivors()
    assert not rig.faults()
    listed = json.loads(rig.wk("worktree", "ls", "--json").stdout)
    assert {each["id"]: each["commits"] for each in listed} == dict.fromkeys(ids, 1)
    for task_id in ids:
        _ = _git(rig.repo, "merge", "-q", "--no-edit", _tree(rig.task(task_id)).branch)
        rig.wk("rm", task_id, "--yes")
    assert _git(rig.repo, "branch", "--format=%(refname:short)") == _git(rig.repo, "symbolic-ref", "--short", "HEAD")
    assert not list((rig.state / "worktrees").iterdir())


def test_an_agent_learns_where_it_works(rig: Rig) -> None:
    names = ("WORKTREE", "BRANCH", "BASE", "CHECKOUT", "BESIDE")
    script = "\n".join(["run pwd", *(f"run echo {name}=$WATCHKEEPER_{name}" for name in names)])
    task_id, tree = _done(rig, script)
    said = rig.log(rig.runs(task_id)[-1]).decode()
    assert tree.path in said
    assert f"BRANCH={tree.branch}" in said
    assert f"BASE={tree.base}" in said
    assert f"CHECKOUT={rig.repo}" in said


def test_a_worktree_begins_with_what_the_person_has_not_committed(rig: Rig) -> None:
    """As it was at hand-over; `wk diff` shows what the agent made of it; the name goes with the task, whether it ran or not."""
    (rig.repo / "mine").write_text("one\ntwo\n", encoding="utf-8")
    said = rig.wk("run", "--json", "--harness", "demo", "--worktree", "say hi").stderr.decode()
    assert "1 uncommitted change stays in your checkout; --include-changes takes them along." in said
    rig.wk("queue", "pause")
    script = "run cat mine && echo three >> mine\nsay done"
    task_id = _hand_over(rig, script, "--include-changes")
    never = _hand_over(rig, "say hi", "--include-changes")
    assert len(_git(rig.repo, "for-each-ref", "refs/watchkeeper/tasks").splitlines()) == 2
    (rig.repo / "mine").write_text("later\n", encoding="utf-8")
    rig.wk("cancel", never)
    rig.wk("rm", never)
    rig.wk("queue", "resume")
    task = rig.wait_resting(task_id)
    assert task.state is TaskState.DONE, task.reason
    tree, outcome = _tree(task), rig.outcome(f"{task_id}.1")
    assert Path(tree.path, "mine").read_text(encoding="utf-8") == "one\ntwo\nthree\n"
    assert outcome is not None
    assert outcome.changes is not None
    assert [(file.path, file.insertions, file.deletions) for file in outcome.changes.files] == [("mine", 1, 0)]
    diff = rig.wk("diff", task_id).stdout.decode()
    assert "+three" in diff
    assert "+one" not in diff
    assert "with your uncommitted changes" in rig.wk("show", task_id).stdout.decode()
    Path(tree.path, "mine").unlink()
    rig.wk("rm", task_id)
    assert _git(rig.repo, "for-each-ref", "refs/watchkeeper/tasks") == ""


def test_a_change_that_is_nowhere_else_is_not_removed(rig: Rig) -> None:
    """Neither by `rm` nor by `clean`; what to do is said, and once it is done, both do."""
    rig.start_daemon()
    task_id, tree = _done(rig)
    refused(rig, "rm", task_id, code=Exit.REFUSED, detail="1 uncommitted change")
    refused(rig, "worktree", "clean", task_id, code=Exit.REFUSED, detail="1 uncommitted change")
    assert b"stays" in rig.wk("worktree", "clean", "--all").stdout
    assert Path(tree.path, "new").read_text(encoding="utf-8").strip() == "hello"
    _ = _git(Path(tree.path), "add", ".")
    _ = _git(Path(tree.path), "commit", "-qm", "New")
    refused(rig, "rm", task_id, code=Exit.REFUSED, detail="1 commit of")
    _ = _git(rig.repo, "merge", "-q", "--ff-only", tree.branch)
    rig.wk("worktree", "clean", task_id)
    assert not Path(tree.path).exists()
    assert _tree(rig.task(task_id)).state is WorktreeState.REMOVED
    refused(rig, "retry", task_id, code=Exit.REFUSED, detail="was removed, and it works nowhere else")
    rig.wk("rm", task_id)


def test_a_kept_worktree_is_listed_without_its_task_and_can_be_cleaned(rig: Rig) -> None:
    rig.start_daemon()
    task_id, tree = _done(rig)
    rig.wk("rm", "--keep-worktree", task_id)
    (row,) = json.loads(rig.wk("worktree", "ls", "--json").stdout)
    assert (row["id"], row["task_state"], row["changed"]) == (task_id, None, ["new"])
    refused(rig, "worktree", "clean", task_id, code=Exit.REFUSED, detail="1 uncommitted change")
    Path(tree.path, "new").unlink()
    rig.wk("worktree", "clean", task_id)
    assert json.loads(rig.wk("worktree", "ls", "--json").stdout) == []
    assert tree.branch not in _git(rig.repo, "branch")


@pytest.mark.parametrize("how", ["deleted", "link", "branch"])
def test_a_worktree_that_is_not_what_was_made_is_noticed(rig: Rig, how: str) -> None:
    """Between a try and the next one: nothing is started, least of all in the checkout."""
    rig.start_daemon()
    task_id, tree = _done(rig)
    top = Path(tree.path)
    if how == "branch":
        _ = _git(top, "checkout", "-q", "-b", "other")
    else:
        shutil.move(top, rig.root / "away")
        if how == "link":
            top.symlink_to(rig.repo)
    detail = {
        "deleted": "is missing, and the task works nowhere else",
        "link": f"is a link to {rig.repo}, and the task works nowhere else",
        "branch": f"is not on the task's branch {tree.branch}",
    }
    refused(rig, "retry", task_id, code=Exit.BAD_TASK, detail=detail[how])
    assert _git(rig.repo, "status", "--porcelain") == ""
    if how == "link":
        top.unlink()
    if how == "branch":
        _ = _git(top, "switch", "-q", tree.branch)
    else:
        _ = _git(rig.repo, "worktree", "prune")
        _ = _git(rig.repo, "worktree", "add", str(top), tree.branch)
    rig.wk("retry", task_id)
    assert rig.wait_resting(task_id).state is TaskState.DONE, "one that was brought back is right"


def test_a_worktree_that_cannot_be_made_needs_a_person(rig: Rig) -> None:
    """A branch of that name was made before its turn came; once it is gone, the task goes on."""
    rig.wk("queue", "pause")
    task_id = _hand_over(rig, "write new hello\nsay done", "--branch", "mine")
    _ = _git(rig.repo, "branch", "mine")
    rig.wk("queue", "resume")
    task = rig.wait_resting(task_id)
    assert (task.state, task.kind) == (TaskState.NEEDS_INPUT, FailureKind.DIRECTORY_MISSING)
    assert "branch 'mine'" in task.reason
    _ = _git(rig.repo, "branch", "-D", "mine")
    rig.wk("retry", task_id)
    assert rig.wait_resting(task_id).state is TaskState.DONE


def test_a_lost_run_continues_in_a_new_worktree(rig: Rig) -> None:
    """Its shim was killed, and a search found nothing alive: the next run never enters the worktree in which something may live."""
    rig.start_daemon()
    task_id, run = working(rig, options=("--worktree", "--on-lost", "retry", "--expect", "any"))
    first = _tree(rig.task(task_id))
    Path(first.path, "half").write_text("half done", encoding="utf-8")
    record = json.loads((rig.state / "executions" / run.execution_id / "proc.json").read_bytes())
    killed = proc.signal_checked(record["shim_pid"], record["shim_start_ticks"], boot_id(), signal.SIGKILL)
    assert killed is proc.SignalResult.REACHED
    let_go(rig)
    task = rig.wait_resting(task_id, within_s=60)
    assert task.state is TaskState.DONE, task.reason
    lost, tree = rig.outcome(run.id), _tree(task)
    assert lost is not None
    assert lost.proof is Proof.SWEPT
    assert "the task continues in a new one" in lost.reason
    assert (tree.path, tree.branch, tree.state) == (f"{first.path}-2", f"{first.branch}-2", WorktreeState.MADE)
    assert (task.spec.cwd, task.spec.checkout, tree.base) == (tree.path, tree.path, first.base)
    assert Path(first.path, "half").read_text(encoding="utf-8") == "half done", "what was there stays"
    assert not Path(tree.path, "half").exists()
    listed = json.loads(rig.wk("worktree", "ls", "--json").stdout)
    assert sorted(each["path"] for each in listed) == [first.path, tree.path]
    refused(rig, "rm", task_id, code=Exit.REFUSED, detail="not proven")


def test_a_task_without_a_checkout_has_an_empty_directory_of_its_own(rig: Rig) -> None:
    """Whatever else works in the checkout; it goes with the task if it is empty, and what it holds keeps it."""
    rig.wk("queue", "pause")
    rig.settings = {"WATCHKEEPER_RUN_WORKTREE": "always"}
    run = ("run", "--harness", "demo", "--json")
    busy = json.loads(rig.wk(*run, "--here", "--expect", "any", "say hi").stdout)["id"]
    script = "run ls -A && pwd && echo SCRATCH=$WATCHKEEPER_SCRATCH\nwrite found text\nsay done"
    handed = json.loads(rig.wk(*run, "--scratch", script).stdout)
    place = Path(str(handed["cwd"]))
    assert (handed["scratch"], handed["checkout"], handed["worktree"]) == (True, None, None)
    assert place.parent == rig.state / "scratch"
    assert not place.exists(), "nothing is made before its turn"
    rig.wk("queue", "resume")
    task_id = str(handed["id"])
    assert rig.wait_resting(task_id).state is TaskState.DONE, rig.task(task_id).reason
    assert f"SCRATCH={place}" in rig.log(rig.runs(task_id)[-1]).decode()
    outcome = rig.outcome(f"{task_id}.1")
    assert outcome is not None
    assert outcome.changes is not None
    assert [file.path for file in outcome.changes.files] == ["found"]
    assert "scratch directory" in rig.wk("show", task_id).stdout.decode()
    refused(rig, "rm", task_id, code=Exit.REFUSED, detail="its scratch directory holds 1 thing (found)")
    assert (place / "found").read_text(encoding="utf-8").strip() == "text"
    (place / "found").unlink()
    place.rmdir()
    rig.wk("retry", task_id)
    assert rig.wait_resting(task_id).state is TaskState.DONE, "it is made anew"
    (place / "found").unlink()
    rig.wk("rm", task_id)
    assert not place.exists()
    assert rig.wait_resting(busy).state is TaskState.DONE


def test_a_scratch_directory_whose_place_is_taken_needs_a_person(rig: Rig) -> None:
    rig.wk("queue", "pause")
    handed = json.loads(rig.wk("run", "--harness", "demo", "--json", "--scratch", "write new x\nsay hi").stdout)
    place, task_id = Path(str(handed["cwd"])), str(handed["id"])
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(rig.repo)
    rig.wk("queue", "resume")
    task = rig.wait_resting(task_id)
    assert (task.state, task.kind) == (TaskState.NEEDS_INPUT, FailureKind.DIRECTORY_MISSING)
    assert "is not a directory" in task.reason
    assert _git(rig.repo, "status", "--porcelain") == ""
    place.unlink()
    rig.wk("retry", task_id)
    assert rig.wait_resting(task_id).state is TaskState.DONE
    refused(rig, "run", "--harness", "demo", "--scratch", "--worktree", "x", code=Exit.BAD_TASK, detail="contradicts")


def test_the_setting_decides_where_no_option_does(rig: Rig) -> None:
    """`auto`: a worktree if the checkout is busy; `--here` wins over `always`; outside of git the setting means nothing."""
    rig.wk("queue", "pause")
    rig.settings = {"WATCHKEEPER_RUN_WORKTREE": "auto"}
    run = ("run", "--json", "--harness", "demo")
    free = json.loads(rig.wk(*run, "say hi").stdout)
    busy = json.loads(rig.wk(*run, "say hi").stdout)
    assert (free["worktree"], free["checkout"]) == (None, str(rig.repo))
    assert busy["worktree"]["source"] == str(rig.repo)
    rig.settings = {"WATCHKEEPER_RUN_WORKTREE": "always"}
    assert json.loads(rig.wk(*run, "--here", "say hi").stdout)["worktree"] is None
    assert json.loads(rig.wk(*run, "--cwd", str(rig.root / "home"), "say hi").stdout)["worktree"] is None
    assert json.loads(rig.wk(*run, "say hi").stdout)["worktree"]["state"] == "planned"
    refused(
        rig,
        "run",
        "--harness",
        "demo",
        "--worktree",
        "--cwd",
        str(rig.root / "home"),
        "x",
        code=Exit.BAD_TASK,
        detail="not in a git",
    )
    refused(rig, "run", "--harness", "demo", "--worktree", "--shared", "x", code=Exit.BAD_TASK, detail="contradict")
