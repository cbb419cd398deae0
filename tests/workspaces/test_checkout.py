"""Which checkout a directory is in, and what its repository is called: against real git."""

import os
import subprocess
from pathlib import Path

import pytest

from watchkeeper.ports.workspace import Checkout
from watchkeeper.workspaces.git import GitWorkspace

NO_GIT = GitWorkspace({"PATH": "/nonexistent"})


def git(top: Path, *arguments: str) -> None:
    who = ["-c", "user.name=T", "-c", "user.email=t@localhost"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(top.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *who, *arguments], cwd=top, check=True, capture_output=True, env=environment)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A repository with one commit."""
    top = Path(os.path.realpath(tmp_path)) / "shop"
    (top / "deep" / "er").mkdir(parents=True)
    git(top, "init", "-q")
    git(top, "commit", "-q", "--allow-empty", "-m", "first")
    return top


@pytest.mark.parametrize("workspace", [GitWorkspace(), NO_GIT], ids=["git", "without git"])
def test_every_directory_of_a_checkout_has_its_top(shop: Path, workspace: GitWorkspace) -> None:
    for where in (shop, shop / "deep" / "er"):
        assert workspace.checkout(str(where)) == Checkout(top=str(shop), project="shop")


@pytest.mark.parametrize("workspace", [GitWorkspace(), NO_GIT], ids=["git", "without git"])
def test_a_symlink_is_the_same_checkout(shop: Path, workspace: GitWorkspace) -> None:
    link = shop.parent / "link"
    link.symlink_to(shop / "deep")
    assert workspace.checkout(str(link)) == Checkout(top=str(shop), project="shop")


def test_a_worktree_is_another_checkout_of_the_same_project(shop: Path) -> None:
    git(shop, "worktree", "add", "-q", "../fix-search")
    found = GitWorkspace().checkout(str(shop.parent / "fix-search"))
    assert found == Checkout(top=str(shop.parent / "fix-search"), project="shop")


def test_worktrees_of_a_bare_repository_have_its_name(shop: Path) -> None:
    git(shop.parent, "clone", "-q", "--bare", "shop", "store.git")
    git(shop.parent / "store.git", "worktree", "add", "-q", "../work")
    found = GitWorkspace().checkout(str(shop.parent / "work"))
    assert found is not None and found.project == "store"


@pytest.mark.parametrize("workspace", [GitWorkspace(), NO_GIT], ids=["git", "without git"])
def test_outside_git_there_is_none(tmp_path: Path, workspace: GitWorkspace) -> None:
    (tmp_path / ".git").mkdir()  # not a repository yet
    assert workspace.checkout(str(tmp_path)) is None
    assert workspace.checkout(str(tmp_path / "gone")) is None


def test_a_repository_that_git_refuses_to_read_is_a_checkout_all_the_same(shop: Path) -> None:
    (shop / ".git" / "config").write_text("[core\n", encoding="utf-8")
    assert GitWorkspace().checkout(str(shop / "deep")) == Checkout(top=str(shop), project="shop")


def test_names_that_no_database_takes_are_made_storable(tmp_path: Path) -> None:
    top = Path(os.path.realpath(tmp_path)) / os.fsdecode(b"sh\xffop\n" + b"x" * 90)
    top.mkdir()
    git(top, "init", "-q")
    found = GitWorkspace().checkout(str(top))
    assert found is not None
    assert "\n" in found.top and found.top.encode()
    assert found.project.startswith("sh\ufffdopxxx") and len(found.project) == 64


def test_variables_of_the_caller_do_not_lead_elsewhere(shop: Path, tmp_path: Path) -> None:
    """`GIT_DIR` is set inside hooks."""
    outside = tmp_path / "outside"
    outside.mkdir()
    environ = {"PATH": os.environ["PATH"], "GIT_DIR": str(shop / ".git"), "GIT_WORK_TREE": str(shop)}
    assert GitWorkspace(environ).checkout(str(outside)) is None
