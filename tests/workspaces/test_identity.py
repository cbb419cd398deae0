"""Which directory a path leads to and what is checked out there, found without git: as git itself reports it, and distinguished from what took its place."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from watchkeeper.domain.working_directory import WorkingDirectory, change
from watchkeeper.workspaces.git import GitWorkspace

PLACES = ("plain", "checkout", "below", "worktree")


def git(top: Path, *arguments: str) -> str:
    who = ["-c", "user.name=T", "-c", "user.email=t@localhost"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(top.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", *who, *arguments], cwd=top, check=True, capture_output=True, env=environment)
    return done.stdout.decode().strip()


def look(path: Path) -> WorkingDirectory:
    found = GitWorkspace({"PATH": "/nonexistent"}).identify(str(path))
    assert found is not None
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with two branches, a directory below its top, and a worktree; and a plain directory."""
    root = Path(os.path.realpath(tmp_path))
    for name in ("plain", "checkout", "spare"):
        (root / name).mkdir()
    git(root / "checkout", "init", "-q", "-b", "main")
    (root / "checkout" / "below").mkdir()
    (root / "checkout" / "below" / "file").write_text("f")
    git(root / "checkout", "add", "-A")
    git(root / "checkout", "commit", "-q", "-m", "first")
    git(root / "checkout", "branch", "fix/search")
    git(root / "checkout", "worktree", "add", "-q", "-b", "side", "../worktree")
    return root


def place(root: Path, name: str) -> Path:
    return root / "checkout" / "below" if name == "below" else root / name


def anew(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()


def linked(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to(path.with_name("moved"))


def linked_elsewhere(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to("/")


def swapped(path: Path) -> None:
    copy = path.with_name("copy")
    shutil.copytree(path, copy, symlinks=True)
    path.rename(path.with_name("moved"))
    copy.rename(path)


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize(
    ("act", "words"),
    [
        (anew, "it was deleted and created again"),
        (swapped, "it was deleted and created again"),
        (linked, "a symbolic link leads there"),
        (linked_elsewhere, "a symbolic link leads to / now"),
    ],
)
def test_what_takes_its_place_is_told_apart(root: Path, name: str, act: Callable[[Path], None], words: str) -> None:
    """A directory that is made anew at once often gets the same inode number, so that alone says nothing."""
    path = place(root, name)
    before = look(path)
    assert change(before, look(path)) == ""
    act(path)
    assert words in change(before, look(path))


@pytest.mark.parametrize("name", ["checkout", "below", "worktree"])
@pytest.mark.parametrize("words", ["fix/search", "--detach HEAD", "-b other", "--orphan none"])
def test_another_branch_is_told_apart_and_a_commit_is_not(root: Path, name: str, words: str) -> None:
    path = place(root, name)
    before = look(path)
    (path / "file").write_text("changed")
    git(path, "add", "-A")
    git(path, "commit", "-q", "-m", "second")
    assert change(before, look(path)) == ""
    assert before.head != look(path).head
    git(path, "checkout", "-q", *words.split())
    path.mkdir(exist_ok=True)  # an orphan's checkout may lose it
    assert f"was on branch {before.branch}" in change(before, look(path))


def test_it_says_what_git_says(root: Path) -> None:
    """Of loose and packed branches, detached and unborn ones, worktrees and directories below the top."""
    top = root / "checkout"

    def agrees(path: Path) -> None:
        seen = look(path)
        assert seen.top == git(path, "rev-parse", "--show-toplevel")
        assert seen.head == git(path, "rev-parse", "HEAD")
        common = Path(git(path, "rev-parse", "--path-format=absolute", "--git-common-dir")).stat()
        assert seen.repository is not None and seen.repository[:2] == (common.st_dev, common.st_ino)
        assert seen.head_file is not None and seen.head_text == Path(seen.head_file).read_text().strip()

    for name in ("checkout", "below", "worktree"):
        agrees(place(root, name))
        assert look(place(root, name)).branch == git(place(root, name), "branch", "--show-current")
    git(top, "pack-refs", "--all")
    agrees(top)
    agrees(root / "worktree")
    git(top, "checkout", "-q", "--detach")
    agrees(top)
    assert look(top).branch is None
    assert look(root / "worktree").repository == look(top).repository
    git(root / "spare", "init", "-q", "-b", "first")
    assert (look(root / "spare").branch, look(root / "spare").head) == ("first", None)
    assert look(root / "plain").top is None


def test_names_that_are_no_utf8_are_compared_as_far_as_they_can_be(root: Path) -> None:
    """A branch like that is distinguished; the shim, which would read the file once more, is not asked to."""
    git(root / "checkout", "checkout", "-q", "-b", os.fsdecode(b"f\xfcr"))
    odd = look(root / "checkout")
    assert (odd.branch, odd.head_file) == ("f\ufffdr", None)
    assert change(odd, look(root / "checkout")) == ""
    git(root / "checkout", "checkout", "-q", "main")
    assert "is on branch main now" in change(odd, look(root / "checkout"))
    (root / "checkout" / ".git" / "HEAD").write_bytes(b"ref: refs/heads/a\0b")
    assert "names neither a branch nor a commit" in change(odd, look(root / "checkout"))


def test_branches_in_another_format_are_asked_of_git(root: Path) -> None:
    """`HEAD` says the same of all of them. Without git nothing is known then, and that is not a branch."""
    git(root / "spare", "init", "-q", "-b", "main")
    (root / "spare" / ".git" / "HEAD").write_text("ref: refs/heads/.invalid\n")
    program = root / "bin" / "git"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\ncase "$*" in *symbolic-ref*) cat "$PWD/branch" ;; *) exit 1 ;; esac\n')
    program.chmod(0o755)
    workspace = GitWorkspace({"PATH": f"{program.parent}:/usr/bin:/bin"})
    seen: list[WorkingDirectory] = []
    for name in ("one", "two"):
        (root / "spare" / "branch").write_text(f"refs/heads/{name}\n")
        found = workspace.identify(str(root / "spare"))
        assert found is not None
        seen.append(found)
    assert [each.branch for each in seen] == ["one", "two"]
    assert "is on branch two now" in change(*seen)
    assert "git is not installed" in look(root / "spare").unknown


def test_a_repository_made_anew_is_another_one(root: Path) -> None:
    before = look(root / "checkout")
    shutil.rmtree(root / "checkout" / ".git")
    git(root / "checkout", "init", "-q", "-b", "main")
    assert "belongs to another repository" in change(before, look(root / "checkout"))


def test_what_cannot_be_read_is_said_and_never_waited_for(root: Path) -> None:
    """A pipe in the place of HEAD, and a file that holds anything at all."""
    head = root / "checkout" / ".git" / "HEAD"
    before = look(root / "checkout")
    head.write_bytes(b"\xff\x00 what is this")
    assert "names neither a branch nor a commit" in change(before, look(root / "checkout"))
    head.unlink()
    os.mkfifo(head)
    assert "is not a regular file" in change(before, look(root / "checkout"))
    assert GitWorkspace().identify(str(root / "missing")) is None
    assert GitWorkspace().identify(str(root / "checkout" / "below" / "file")) is None
