"""Worktrees of tasks, with real git: made whole or completed, removed only if nothing is lost, and nothing of the repository's is run."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from support.worktrees import OWNER, Repo, new_repo

from watchkeeper.domain.worktree import Worktree, WorktreeSeen, advice, obstacles
from watchkeeper.errors import BadTask
from watchkeeper.safe_json import dumps
from watchkeeper.workspaces.apart import ApartWorktrees
from watchkeeper.workspaces.git import GitWorkspace
from watchkeeper.workspaces.worktrees import MARKER

MAKING = [f"worktree.{step}.{when}" for step in ("branch", "add", "files", "mark") for when in ("before", "after")]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return new_repo(tmp_path)


def test_it_is_made_whole_and_removed_without_a_trace(repo: Repo) -> None:
    before = repo.names()
    tree, top = repo.made()
    assert repo.git("rev-parse", "HEAD", at=top) == tree.base == repo.git("rev-parse", "main")
    assert repo.git("symbolic-ref", "--short", "HEAD", at=top) == tree.branch
    assert (top / "sub" / "odd ü\nname").read_text(encoding="utf-8") == "x\n"
    seen = repo.worktrees.look(tree, OWNER, sized=True)
    assert (seen.present, seen.branch, obstacles(tree, seen)) == (True, tree.branch, ())
    assert seen.size_bytes
    assert [kept.task_id for kept in repo.worktrees.kept()] == [OWNER]
    assert repo.worktrees.make(tree, OWNER).place == GitWorkspace().identify(tree.path), "made already"
    assert repo.remove(tree) == ""
    assert repo.names() == before
    assert not list(repo.root.iterdir())
    assert repo.remove(tree) == "", "and again"


def test_it_is_made_in_a_process_apart_just_the_same(repo: Repo) -> None:
    apart = ApartWorktrees(repo.root, 60)
    tree = repo.plan()
    try:
        made = apart.make(tree, OWNER)
    finally:
        apart.close()
    assert made.place == GitWorkspace().identify(tree.path)
    assert made.problem == ""


def _bare(repo: Repo) -> str:
    _ = repo.git("clone", "-q", "--bare", ".", "../bare.git")
    return str(repo.top.parent / "bare.git")


def _empty(repo: Repo) -> str:
    _ = repo.git("init", "-q", "../empty")
    return str(repo.top.parent / "empty")


def _new_directory(repo: Repo) -> str:
    (repo.top / "new").mkdir()
    return str(repo.top / "new")


@pytest.mark.parametrize(
    ("where", "base", "branch", "detail"),
    [
        (lambda repo: str(repo.top.parent), None, "b", "is not in a git repository"),
        (lambda repo: str(repo.top / "gone"), None, "b", "does not exist"),
        (_bare, None, "b", "is a bare repository"),
        (_empty, None, "b", "has no commit yet"),
        (_new_directory, None, "b", "The directory 'new' is not in"),
        (lambda repo: str(repo.top), "nowhere", "b", "There is no commit 'nowhere'"),
        (lambda repo: str(repo.top), "--all", "b", "There is no commit '--all'"),
        (lambda repo: str(repo.top), None, "main", "The branch 'main' exists already"),
        (lambda repo: str(repo.top), None, "main/x", "cannot be made beside the branch 'main'"),
        (lambda repo: str(repo.top), None, "a..b", "cannot be the name of a branch"),
        (lambda repo: str(repo.top), None, "-x", "cannot be the name of a branch"),
        (lambda repo: str(repo.top), None, "@{-1}", "cannot be the name of a branch"),
    ],
)
def test_what_stands_against_it_is_said_at_hand_over(
    repo: Repo, where: Callable[[Repo], str], base: str | None, branch: str, detail: str
) -> None:
    """In one sentence, with what to do; and nothing was made."""
    with pytest.raises(BadTask, match=detail) as refused:
        _ = repo.worktrees.start(where(repo), base, branch)
    assert refused.value.hint
    assert not repo.root.exists()


def test_it_starts_where_the_person_stands_or_says(repo: Repo) -> None:
    """A detached HEAD is a commit like any other; a subdirectory is kept; submodules are named."""
    first = repo.git("rev-parse", "HEAD")
    (repo.top / ".gitmodules").write_text("", encoding="utf-8")
    second = repo.commit()
    _ = repo.git("checkout", "-q", "--detach", first)
    start = repo.worktrees.start(str(repo.top / "sub"), None, "b")
    assert (start.base, start.base_name, start.below, start.notes) == (first, first[:10], "sub", ())
    start = repo.worktrees.start(str(repo.top), "main", "b")
    assert (start.base, start.base_name, start.below) == (second, "main", "")
    assert "Submodules" in start.notes[0]


def _write(name: str, text: str = "new\n") -> Callable[[Repo, Path], None]:
    def do(repo: Repo, top: Path) -> None:
        del repo
        _ = (top / name).write_text(text, encoding="utf-8")

    return do


def _staged(repo: Repo, top: Path) -> None:
    (top / "a").write_text("staged\n", encoding="utf-8")
    _ = repo.git("add", "a", at=top)
    (top / "a").write_text("a\n", encoding="utf-8")


def _hidden(repo: Repo, top: Path) -> None:
    _ = repo.git("update-index", "--assume-unchanged", "a", at=top)
    (top / "a").write_text("unseen\n", encoding="utf-8")


def _committed(repo: Repo, top: Path) -> None:
    (top / "a").write_text("committed\n", encoding="utf-8")
    _ = repo.commit(at=top)


def _reset(repo: Repo, top: Path) -> None:
    _committed(repo, top)
    _ = repo.git("reset", "-q", "--hard", "HEAD^", at=top)


def _detached(repo: Repo, top: Path) -> None:
    _ = repo.git("checkout", "-q", "--detach", at=top)
    _committed(repo, top)


def _deleted(repo: Repo, top: Path) -> None:
    _committed(repo, top)
    shutil.rmtree(top)


def _link(repo: Repo, top: Path) -> None:
    _ = top.rename(top.parent / "elsewhere")
    top.symlink_to(repo.top)


def _replaced(_: Repo, top: Path) -> None:
    shutil.rmtree(top)
    top.mkdir()
    (top / "mine").write_text("mine", encoding="utf-8")


def _other_repository(repo: Repo, top: Path) -> None:
    del top
    shutil.move(repo.top, repo.top.parent / "away")
    _ = repo.git("init", "-q", str(repo.top), at=repo.top.parent)


@pytest.mark.parametrize(
    "do",
    [
        _write("a", "changed\n"), _write("untracked"), _write("x.log"), _staged, _hidden, _committed, _reset, _detached,
        _deleted, _link, _replaced, _other_repository,
    ],
    ids=[
        "changed", "untracked", "ignored", "staged", "hidden", "committed", "reset", "detached", "deleted", "link",
        "replaced", "other repository",
    ],
)  # fmt: skip
def test_what_would_be_lost_keeps_it(repo: Repo, do: Callable[[Repo, Path], None]) -> None:
    """Each is named, with what to do. A look changes nothing."""
    tree, top = repo.made()
    do(repo, top)
    there = sorted(str(path) for path in repo.top.parent.rglob("*") if ".git" not in path.parts)
    seen = repo.worktrees.look(tree, OWNER)
    assert obstacles(tree, seen)
    assert advice(tree, seen)
    assert sorted(str(path) for path in repo.top.parent.rglob("*") if ".git" not in path.parts) == there


@pytest.mark.parametrize("do", [_link, _replaced, _other_repository], ids=["link", "replaced", "other repository"])
def test_what_is_not_the_worktree_is_not_removed(repo: Repo, do: Callable[[Repo, Path], None]) -> None:
    tree, top = repo.made()
    do(repo, top)
    there = sorted(str(path) for path in repo.top.parent.rglob("*") if "salvage" not in path.parts)
    assert repo.remove(tree)
    assert sorted(str(path) for path in repo.top.parent.rglob("*") if "salvage" not in path.parts) == there
    assert repo.worktrees.look(tree, "another") != WorktreeSeen(), "nor for another task"


def test_what_was_merged_can_go_with_its_branch(repo: Repo) -> None:
    tree, top = repo.made()
    _committed(repo, top)
    assert repo.worktrees.look(tree, OWNER).commits == 1
    _ = repo.git("merge", "-q", "--ff-only", tree.branch)
    assert obstacles(tree, repo.worktrees.look(tree, OWNER)) == ()
    assert repo.remove(tree) == ""
    assert repo.names()[1] == ["main"]


def test_a_place_or_a_branch_that_is_taken_is_left_alone(repo: Repo) -> None:
    """Whatever came there between the hand-over and the making."""
    tree = repo.plan()
    _ = repo.git("branch", tree.branch)
    assert "not for it" in repo.worktrees.make(tree, OWNER).problem
    _ = repo.git("worktree", "add", "-q", "../mine", tree.branch)
    assert "is checked out in" in repo.worktrees.make(tree, OWNER).problem
    other = repo.plan("b", "t3")
    Path(other.path).mkdir(parents=True)
    (Path(other.path) / "mine").write_text("mine", encoding="utf-8")
    assert "holds 'mine'" in repo.worktrees.make(other, "t3").problem
    assert (Path(other.path) / "mine").read_text(encoding="utf-8") == "mine"
    shutil.rmtree(other.path)
    Path(other.path).symlink_to(repo.top)
    assert "is not a directory" in repo.worktrees.make(other, "t3").problem


_SCRIPT = """
import json, sys
from pathlib import Path
from watchkeeper.workspaces.worktrees import GitWorktrees, tree_of
tree = tree_of(json.loads(sys.argv[1]))
worktrees = GitWorktrees(Path(tree.path).parent)
print(worktrees.make(tree, "t1").problem)
"""


def _elsewhere(repo: Repo, tree: Worktree, point: str) -> int:
    """Make it in another process, which dies at a point."""
    environ = {**repo.environ, "WATCHKEEPER_CRASH_AT": point}
    command = [sys.executable, "-c", _SCRIPT, dumps(asdict(tree))]
    return subprocess.run(command, check=False, env=environ, capture_output=True).returncode


@pytest.mark.parametrize("point", MAKING)
def test_a_making_that_was_cut_off_is_completed(repo: Repo, point: str) -> None:
    """At every step: one branch, one directory, every file."""
    tree = repo.plan()
    assert _elsewhere(repo, tree, point) == -signal.SIGKILL
    assert repo.worktrees.make(tree, OWNER).problem == ""
    assert repo.git("status", "--porcelain", at=Path(tree.path)) == ""
    assert repo.names() == ([f"worktree {repo.top}", f"worktree {tree.path}".split("\n")[0]], ["main", tree.branch])
    assert repo.remove(tree) == ""
    assert repo.names()[1] == ["main"]


def test_a_git_that_was_ended_while_it_made_the_directory_is_made_up_for(repo: Repo) -> None:
    """Git leaves a lock, a directory that names the repository, and a lock of its index."""
    tree, top = repo.made()
    own = repo.top / ".git" / "worktrees" / "t1-fix"
    (own / MARKER).unlink()
    for name in ("locked", "index.lock"):
        (own / name).write_text("initializing", encoding="utf-8")
    for name in (".gitignore", "a"):
        (top / name).unlink()
    shutil.rmtree(top / "sub")
    assert repo.worktrees.make(tree, OWNER).problem == ""
    assert repo.git("status", "--porcelain", at=top) == ""


def test_nothing_of_the_repository_is_run(repo: Repo, tmp_path: Path) -> None:
    """Hooks, a file system monitor and an alias leave no trace."""
    ran = tmp_path / "ran"
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        hook = repo.top / ".git" / "hooks" / name
        hook.write_text(f'#!/bin/sh\necho {name} >> "{ran}"\n', encoding="utf-8")
        hook.chmod(0o755)
    monitor = tmp_path / "monitor"
    monitor.write_text(f'#!/bin/sh\necho monitor >> "{ran}"\n', encoding="utf-8")
    monitor.chmod(0o755)
    _ = repo.git("config", "core.fsmonitor", str(monitor))
    _ = repo.git("config", "alias.reset", f"!echo alias >> '{ran}'")
    ran.unlink(missing_ok=True)
    tree, _ = repo.made()
    _ = repo.worktrees.look(tree, OWNER)
    assert repo.remove(tree) == ""
    assert not ran.exists()


def test_a_filter_of_the_repository_is_refused_by_name_and_one_of_the_user_is_run(repo: Repo, tmp_path: Path) -> None:
    """Files that were put out without it would look changed to every git that has it."""
    ran = tmp_path / "ran"
    (repo.top / ".gitattributes").write_text("a filter=upper\n", encoding="utf-8")
    _ = repo.commit()
    _ = repo.git("config", "filter.upper.smudge", f"echo >> '{ran}'; tr a-z A-Z")
    _ = repo.git("config", "filter.upper.clean", "tr A-Z a-z")
    tree = repo.plan()
    assert "need the filter 'upper'" in repo.worktrees.make(tree, OWNER).problem
    assert not ran.exists()
    for name in ("smudge", "clean"):
        value = repo.git("config", f"filter.upper.{name}")
        _ = repo.git("config", "--unset", f"filter.upper.{name}")
        _ = repo.git("config", "--global", f"filter.upper.{name}", value)
    assert repo.worktrees.make(tree, OWNER).problem == ""
    assert (Path(tree.path) / "a").read_text(encoding="utf-8") == "A\n"


def test_a_sparse_checkout_stays_sparse(repo: Repo) -> None:
    (repo.top / "big").mkdir()
    (repo.top / "big" / "b").write_text("b", encoding="utf-8")
    _ = repo.commit()
    _ = repo.git("sparse-checkout", "set", "sub")
    tree, top = repo.made()
    assert not (top / "big").exists()
    assert obstacles(tree, repo.worktrees.look(tree, OWNER)) == ()


def test_a_full_disk_is_said_and_the_next_try_completes_it(repo: Repo) -> None:
    """A directory that cannot be written stands for it here: the making ends half way."""
    tree = repo.plan()
    repo.root.mkdir()
    blocked = repo.top / ".git" / "worktrees"
    blocked.write_text("in the way", encoding="utf-8")
    made = repo.worktrees.make(tree, OWNER)
    assert "could not be made" in made.problem
    assert made.passing
    blocked.unlink()
    assert repo.worktrees.make(tree, OWNER).problem == ""
