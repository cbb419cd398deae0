"""Pushing a task's branch to a remote, which is a bare repository here, and opening a request by a stand-in for gh."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from support.flow_words import refused
from support.rig import Rig

from watchkeeper.domain.model import TaskState
from watchkeeper.errors import Exit

URL = "https://github.com/ada/shop.git"


def _git(at: Path, *arguments: str) -> str:
    command = ["git", "-C", str(at), "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def pushing(rig: Rig) -> Rig:
    """A rig whose user's git takes a bare repository for the address on the forge."""
    _ = _git(rig.root, "init", "-q", "--bare", str(rig.root / "remote.git"))
    text = f'[user]\n\tname = Ada\n\temail = ada@example.org\n[url "{rig.root}/remote.git"]\n\tinsteadOf = {URL}\n'
    (rig.root / "home" / ".gitconfig").write_text(text, encoding="utf-8")
    _ = _git(rig.repo, "remote", "add", "origin", URL)
    rig.start_daemon()
    return rig


def _done(rig: Rig, script: str) -> tuple[str, str]:
    """A task in a worktree that is done, and its branch."""
    task_id = str(json.loads(rig.wk("run", "--json", "--harness", "demo", "--worktree", script).stdout)["id"])
    task = rig.wait_resting(task_id)
    assert task.state is TaskState.DONE, task.reason
    assert task.spec.worktree is not None
    return task_id, task.spec.worktree.branch


def _stand_in(rig: Rig, name: str) -> Path:
    """A program of that name that writes down what it is given, and where."""
    tools = rig.root / "tools"
    tools.mkdir()
    said = rig.root / "said"
    (tools / name).write_text(
        f'#!/bin/sh\npwd > {said}\nprintf "%s\\n" "$@" >> {said}\necho https://github.com/ada/shop/pull/7\n',
        encoding="utf-8",
    )
    (tools / name).chmod(0o755)
    rig.settings = {"PATH": f"{tools}:{os.environ['PATH']}"}
    return said


def test_the_branch_is_pushed_and_the_request_opened(pushing: Rig) -> None:
    rig = pushing
    said = _stand_in(rig, "gh")
    task_id, branch = _done(rig, "write new hello\ncommit Say hello")
    spy = rig.root / "spy"
    spy.write_text(f"#!/bin/sh\ntouch {rig.root}/ran\n", encoding="utf-8")
    spy.chmod(0o755)
    hooks = rig.repo / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "pre-push").symlink_to(spy)
    for key in ("core.sshCommand", "credential.helper", "core.fsmonitor", "gpg.program", "core.askPass"):
        _ = _git(rig.repo, "config", key, str(spy))
    done = rig.wk("pr", task_id, "--title", "Say hello")
    assert "pull/7" in done.stdout.decode()
    tip = _git(rig.repo, "rev-parse", branch)
    assert _git(rig.root / "remote.git", "rev-parse", branch) == tip
    assert _git(rig.repo, "rev-parse", f"refs/remotes/origin/{branch}") == tip
    where, *given = said.read_text(encoding="utf-8").splitlines()
    assert not where.startswith(str(rig.repo))
    assert given[:4] == ["pr", "create", "--repo", "ada/shop"]
    assert given[given.index("--head") + 1] == branch
    assert given[given.index("--title") + 1] == "Say hello"
    assert not (rig.root / "ran").exists(), "a program that the repository names was run"
    words = rig.wk("events", "--task", task_id).stdout.decode()
    assert "was pushed to" in words and "pull/7" in words
    rig.wk("worktree", "clean", task_id)


def test_without_the_forges_program_the_command_is_printed(pushing: Rig) -> None:
    rig = pushing
    task_id, branch = _done(rig, "write new hello\ncommit Say hello")
    printed = rig.wk("pr", task_id, "--print").stdout.decode()
    assert f"git push origin {branch}" in printed
    assert "gh pr create" in printed
    assert _git(rig.root / "remote.git", "branch") == ""
    done = json.loads(rig.wk("pr", task_id, "--json").stdout)
    assert (done["pushed"], done["answer"], done["command"][0]) == (True, None, "gh")
    assert _git(rig.root / "remote.git", "rev-parse", branch) == done["commit"]


def test_a_remote_branch_that_has_other_commits_is_not_overwritten(pushing: Rig) -> None:
    rig = pushing
    task_id, branch = _done(rig, "write new hello\ncommit Say hello")
    theirs = _git(rig.repo, "commit-tree", "HEAD^{tree}", "-m", "Theirs")
    _ = _git(rig.repo, "push", "-q", str(rig.root / "remote.git"), f"{theirs}:refs/heads/{branch}")
    refused(rig, "pr", task_id, code=Exit.REFUSED, detail="rejected")
    assert _git(rig.root / "remote.git", "rev-parse", branch) == theirs


def test_what_cannot_be_pushed_is_said(pushing: Rig) -> None:
    rig = pushing
    task_id, _ = _done(rig, "write new hello\ncommit Say hello")
    left, _ = _done(rig, "write new hello")
    refused(rig, "pr", left, code=Exit.REFUSED, detail="not committed")
    refused(rig, "pr", task_id, "--remote", "nope", code=Exit.REFUSED, detail="no remote 'nope'")
    _ = _git(rig.repo, "remote", "set-url", "origin", f"ext::sh -c 'touch {rig.root}/ran'")
    refused(rig, "pr", task_id, code=Exit.REFUSED, detail="runs a program")
    _ = _git(rig.repo, "remote", "set-url", "origin", str(rig.root / "gone.git"))
    refused(rig, "pr", task_id, code=Exit.REFUSED, detail="could not be pushed")
    _ = _git(rig.repo, "remote", "remove", "origin")
    refused(rig, "pr", task_id, code=Exit.REFUSED, detail="no remote")
    assert not (rig.root / "ran").exists()
