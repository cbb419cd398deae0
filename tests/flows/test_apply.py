"""Putting a run's changes into another checkout: whole or not at all."""

import json
import subprocess
from pathlib import Path

import pytest
from support.flow_words import refused
from support.rig import Rig

from watchkeeper.domain.model import TaskState
from watchkeeper.errors import Exit


def _git(at: Path, *arguments: str) -> str:
    command = ["git", "-C", str(at), "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _state(at: Path) -> tuple[str, dict[str, bytes]]:
    """What git says of a checkout, and every file in it."""
    files = {
        str(path.relative_to(at)): path.read_bytes()
        for path in at.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }
    return _git(at, "status", "--porcelain"), files


def _done(rig: Rig, script: str) -> str:
    """A task in a worktree of its own that is done."""
    done = rig.wk("run", "--json", "--harness", "demo", "--worktree", script)
    task_id = str(json.loads(done.stdout)["id"])
    assert rig.wait_resting(task_id).state is TaskState.DONE, rig.task(task_id).reason
    return task_id


@pytest.fixture
def started(rig: Rig) -> Rig:
    """A rig with a daemon."""
    rig.start_daemon()
    return rig


ODD = r"""write new hello
run mv README 'READ ME'
run printf 'a\0b' > bin
run chmod +x new
run touch "$(printf 'a\nb')"
run ln -s new link
run git add -A
commit Odd
write later text"""
"""Of all kinds of changes one."""


def test_everything_of_a_run_is_applied_uncommitted_and_taken_out_again(started: Rig) -> None:
    """Commits and what is not committed; binary files, modes, renames, links and names with a newline."""
    rig = started
    task_id = _done(rig, ODD)
    before, head = _state(rig.repo), _git(rig.repo, "rev-parse", "HEAD")
    listed = rig.wk("apply", task_id, "--dry-run", "--json")
    assert _state(rig.repo) == before
    done = rig.wk("apply", task_id)
    assert "--reverse" in done.stdout.decode()
    tree = Path(rig.task(task_id).spec.cwd)
    assert _state(rig.repo)[1] == _state(tree)[1]
    assert (rig.repo / "new").stat().st_mode & 0o100
    assert (rig.repo / "link").is_symlink()
    assert _git(rig.repo, "rev-parse", "HEAD") == head
    assert {"new", "later", "README", "READ ME", "bin", "link"} < set(json.loads(listed.stdout)["files"])
    rig.wk("apply", task_id, "--reverse")
    assert _state(rig.repo) == before


def test_what_overlaps_or_does_not_fit_is_named_and_nothing_changes(started: Rig) -> None:
    rig = started
    task_id = _done(rig, "write README theirs\nwrite new hello\ncommit Theirs")
    (rig.repo / "new").write_text("mine\n", encoding="utf-8")
    before = _state(rig.repo)
    refused(rig, "apply", task_id, code=Exit.REFUSED, detail="uncommitted ones in new")
    assert _state(rig.repo) == before
    (rig.repo / "new").unlink()
    (rig.repo / "README").write_text("mine\n", encoding="utf-8")
    _ = _git(rig.repo, "commit", "-qam", "Mine")
    before = _state(rig.repo)
    refused(rig, "apply", task_id, code=Exit.REFUSED, detail="README")
    assert _state(rig.repo) == before
    refused(rig, "apply", task_id, "--reverse", code=Exit.REFUSED, detail="Nothing was taken out")
    done = rig.wk("apply", task_id, "--3way", check=False)
    assert done.returncode == Exit.NEEDS_YOU
    assert "README" in done.stdout.decode()
    text = (rig.repo / "README").read_text(encoding="utf-8")
    assert "mine" in text and "theirs" in text and "<<<<<<<" in text


def test_what_git_has_written_before_it_failed_is_put_back(started: Rig) -> None:
    """The check passes, and writing fails half way, as on a full disk."""
    rig = started
    task_id = _done(
        rig, "write aaa first\nwrite README theirs\nrun mkdir -p zzz\nwrite zzz/file last\nrun git add -A\ncommit Both"
    )
    (rig.repo / "zzz").write_text("mine\n", encoding="utf-8")
    _ = _git(rig.repo, "add", "zzz")
    _ = _git(rig.repo, "commit", "-qm", "A file where the run has a directory")
    before = _state(rig.repo)
    refused(rig, "apply", task_id, code=Exit.REFUSED, detail="were not applied")
    assert _state(rig.repo) == before


def test_where_nothing_can_be_applied_it_is_said(started: Rig) -> None:
    rig = started
    task_id = _done(rig, "write new hello")
    here = json.loads(rig.wk("run", "--json", "--harness", "demo", "--here", "write here x").stdout)["id"]
    assert rig.wait_resting(here).state is TaskState.DONE
    refused(rig, "apply", here, code=Exit.REFUSED, detail="this very checkout")
    refused(rig, "apply", task_id, "--run", "9", code=Exit.NOT_FOUND, detail="no run 9")
