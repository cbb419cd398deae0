"""A working directory is more than a path: what takes its place is noticed before anything is started in it. With real processes and real git."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import RunState, TaskState

KINDS = ("plain", "checkout", "shared", "worktree")


def git(path: Path, *arguments: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "-C", str(path), *who, *arguments], check=True, capture_output=True)


def make(root: Path, kind: str, name: str) -> Path:
    """A directory of that kind."""
    path = root / name
    main = root / f"{name}-main" if kind == "worktree" else path
    main.mkdir(parents=True)
    if kind != "plain":
        git(main, "init", "-q", "-b", "main")
        git(main, "commit", "-q", "--allow-empty", "-m", "first")
    if kind == "worktree":
        git(main, "worktree", "add", "-q", "-b", "side", str(path))
    return path


def add(rig: Rig, path: Path, kind: str, *argv: str) -> str:
    shared = ("--shared",) if kind == "shared" else ()
    done = rig.wk("add", "--json", *shared, "--cwd", str(path), "--", *argv)
    return str(json.loads(done.stdout)["id"])


def anew(path: Path) -> None:
    copy = path.with_name(f"{path.name}-copy")
    shutil.copytree(path, copy, symlinks=True)
    shutil.rmtree(path)
    path.mkdir()
    shutil.copytree(copy, path, symlinks=True, dirs_exist_ok=True)


def linked(path: Path) -> None:
    path.rename(path.with_name(f"{path.name}-moved"))
    path.symlink_to(f"{path}-moved")


def elsewhere(path: Path) -> None:
    path.rename(path.with_name(f"{path.name}-moved"))
    other = path.with_name(f"{path.name}-other")
    other.mkdir()
    path.symlink_to(other)


def branch(path: Path) -> None:
    git(path, "checkout", "-q", "-b", "other")


def detached(path: Path) -> None:
    git(path, "checkout", "-q", "--detach")


def repository(path: Path) -> None:
    if (path / ".git").is_dir():
        shutil.rmtree(path / ".git")
    else:
        (path / ".git").unlink(missing_ok=True)
    git(path, "init", "-q", "-b", "main")


ACTS: list[tuple[Callable[[Path], None], str, tuple[str, ...]]] = [
    (anew, "it was deleted and created again", KINDS),
    (linked, "it was moved to", KINDS),
    (elsewhere, "a symbolic link leads to", KINDS),
    (branch, "is on branch other now, and was on branch", KINDS[1:]),
    (detached, "on no branch now, and was on branch", KINDS[1:]),
    (repository, "belongs to another repository", KINDS[1:]),
    (repository, "now, and was in none when it was approved", KINDS[:1]),
]


def test_nothing_is_started_where_something_else_stands_now(rig: Rig) -> None:
    """Every kind of change of every kind of directory, between hand-over and launch. Each needs a person, whose retry approves it as it is."""
    rig.keep_daemon()
    _ = rig.wk("queue", "pause")
    planned = [(act, words, kind) for act, words, kinds in ACTS for kind in kinds]
    places = [make(rig.root / "places", kind, f"{number}-{kind}") for number, (_, _, kind) in enumerate(planned)]
    lines = [
        {"argv": ["touch", "began"], "cwd": str(path), "shared": kind == "shared"}
        for (_, _, kind), path in zip(planned, places, strict=True)
    ]
    added = rig.wk("add", "--json-lines", "--json", "-f", "-", given="\n".join(map(json.dumps, lines)).encode()).stdout
    ids = [str(json.loads(line)["id"]) for line in added.splitlines()]
    cases = [(task_id, path, words) for task_id, path, (_, words, _) in zip(ids, places, planned, strict=True)]
    for path, (act, _, _) in zip(places, planned, strict=True):
        act(path)
    same = make(rig.root / "places", "checkout", "same")
    goes_on = add(rig, same, "checkout", "touch", "began")
    git(same, "commit", "-q", "--allow-empty", "-m", "second")
    _ = rig.wk("queue", "resume")

    assert rig.wk("wait", goes_on, check=False).returncode == 0
    assert (same / "began").exists()
    said = [entry.data["detail"] for entry in rig.journal() if entry.kind == "run.new_commits"]
    assert len(said) == 1 and str(said[0]).startswith("main is at ")
    assert f"there are new commits in its checkout: {said[0]}" in rig.wk("events").stdout.decode()
    _ = rig.wk("wait", *(each[0] for each in cases), check=False)
    for task_id, path, words in cases:
        task = rig.task(task_id)
        assert (task.state, task.kind) == (TaskState.NEEDS_INPUT, FailureKind.DIRECTORY_CHANGED), (path, task.reason)
        assert task.reason.startswith(f"'{path}' ") and words in task.reason
        assert (task.attempts, f"`wk retry {task_id}`" in task.reason) == (0, True)
    assert not [
        each for _, path, _ in cases for each in (path / "began", Path(f"{path}-moved") / "began") if each.exists()
    ]

    said = rig.wk("retry", *ids).stderr.decode()
    for _, path, words in cases:
        line = next(line for line in said.splitlines() if line.startswith(f"'{path}' "))
        assert words in line and line.endswith("With this it is approved as it is now.")
    assert rig.wk("wait", *ids, check=False).returncode == 0
    assert all((path / "began").exists() for _, path, _ in cases)


def test_a_second_run_does_not_commit_on_a_branch_that_was_not_approved(rig: Rig) -> None:
    """The first task's work was put aside on a branch and the checkout was switched back: the second one waits for a person, and `main` stays as it is."""
    git(rig.repo, "checkout", "-q", "-b", "fix")
    rig.keep_daemon()
    _ = rig.wk("queue", "pause")
    commit = "git -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m mine"
    second = add(rig, rig.repo, "checkout", "sh", "-c", commit)
    git(rig.repo, "checkout", "-q", "-")
    _ = rig.wk("queue", "resume")
    assert rig.wk("wait", second, check=False).returncode == 10
    assert "and was on branch fix when it was approved" in rig.task(second).reason
    shown = json.loads(rig.wk("show", "--json", second).stdout)
    assert (shown["authorisation"]["place"]["branch"], shown["kind"]) == ("fix", "directory_changed")
    assert "(branch fix when approved)" in " ".join(rig.wk("show", second).stdout.decode().split())
    log = subprocess.run(["git", "-C", str(rig.repo), "log", "--all", "--format=%s"], check=True, capture_output=True)
    assert b"mine" not in log.stdout


def test_another_directory_is_chosen_by_an_edit(rig: Rig) -> None:
    """It is looked at as at a hand-over: what happens to it afterwards is noticed, what happens to the old one is not."""
    rig.keep_daemon()
    _ = rig.wk("queue", "pause")
    old, new = make(rig.root, "checkout", "old"), make(rig.root, "checkout", "new")
    task_id = add(rig, old, "checkout", "touch", "began")
    assert "its directory" in rig.wk("edit", task_id, "--cwd", str(new)).stdout.decode()
    spec = rig.task(task_id).spec
    assert (spec.cwd, spec.checkout, spec.project) == (str(new), str(new), "new")
    shutil.rmtree(old)
    branch(new)
    _ = rig.wk("queue", "resume")
    assert rig.wk("wait", task_id, check=False).returncode == 10
    assert f"'{new}' is on branch other now, and was on branch main" in rig.task(task_id).reason
    _ = rig.wk("retry", task_id)
    assert rig.wk("wait", task_id, check=False).returncode == 0
    assert (new / "began").exists()


def test_nothing_is_tried_again_where_no_directory_is(rig: Rig) -> None:
    """The person learns it at once."""
    path = make(rig.root, "plain", "place")
    rig.keep_daemon()
    task_id = add(rig, path, "plain", "false")
    assert rig.wk("wait", task_id, check=False).returncode != 0
    path.rmdir()
    refused = rig.wk("retry", task_id, check=False)
    assert refused.returncode != 0
    assert f"The directory '{path}' is missing." in refused.stderr.decode()
    assert rig.task(task_id).state is TaskState.FAILED


def test_its_own_run_may_switch_the_branch(rig: Rig) -> None:
    """The next try continues where the last one left it; what another process switches then is noticed, after an edit too."""
    rig.settings = {"WATCHKEEPER_QUEUE_PROBE_BASE": "0.3s", "WATCHKEEPER_QUEUE_PROBE_CAP": "1s"}
    rig.keep_daemon()
    script = "run git checkout -q -b mine\nfail overloaded"
    done = rig.wk("run", "--harness", "demo", "--json", "--", script)
    task_id = json.loads(done.stdout)["id"]

    def settled(count: int) -> bool:
        return len([run for run in rig.runs(task_id) if run.state is RunState.SETTLED]) >= count

    wait_until(lambda: settled(2), within_s=30, what="it was tried again on its own branch")
    first, second = (rig.outcome(f"{task_id}.{number}") for number in (1, 2))
    assert first is not None and first.changes is not None and first.changes.left is not None
    assert first.changes.left.branch == "mine"
    assert second is not None and second.kind is FailureKind.OVERLOADED
    _ = rig.wk("queue", "pause")
    wait_until(lambda: rig.task(task_id).state is TaskState.QUEUED, within_s=30, what="it waits for its turn")
    _ = rig.wk("edit", task_id, "--prompt", f"{script}\n")
    git(rig.repo, "checkout", "-q", "-b", "theirs")
    _ = rig.wk("queue", "resume")
    task = rig.wait_resting(task_id)
    assert task.kind is FailureKind.DIRECTORY_CHANGED
    assert "is on branch theirs now, and was on branch mine" in task.reason


def test_a_task_of_an_older_version_is_launched_as_before(rig: Rig) -> None:
    """Its approval says nothing of the directory, and its launch profile nothing of the caller."""
    from watchkeeper.compose import Watchkeeper

    rig.keep_daemon()
    _ = rig.wk("queue", "pause")
    task_id = add(rig, rig.repo, "checkout", "true")
    parts = Watchkeeper.open(rig.repo, rig.environment, writes=True, repository=False)
    with_old: Any = parts.store

    def forget(tx: Any) -> None:
        from dataclasses import replace

        allowed = tx.outcomes.authorisation(task_id)
        assert allowed.profile.inherits is not None and allowed.place is not None
        tx.outcomes.authorise(replace(allowed, id="older", place=None, profile=replace(allowed.profile, inherits=None)))

    with_old.transact("older", forget)
    with_old.close()
    git(rig.repo, "checkout", "-q", "-b", "other")
    _ = rig.wk("queue", "resume")
    assert rig.wk("wait", task_id, check=False).returncode == 0


def test_many_tasks_in_one_directory_ask_git_once(rig: Rig) -> None:
    """However many are handed over at once."""
    tools, calls = rig.root / "tools", rig.root / "calls"
    tools.mkdir()
    program = tools / "git"
    program.write_text(f'#!/bin/sh\necho call >> {calls}\nexec {shutil.which("git")} "$@"\n')
    program.chmod(0o755)
    rig.settings = {"PATH": f"{tools}:{os.environ['PATH']}"}
    lines = "".join(json.dumps({"argv": ["true"], "title": f"task {number}"}) + "\n" for number in range(60))
    _ = rig.wk("queue", "pause")
    calls.unlink(missing_ok=True)
    done = rig.wk("add", "--json-lines", "-f", "-", given=lines.encode())
    assert len(done.stdout.splitlines()) == 60
    assert len(calls.read_text().splitlines()) <= 4
