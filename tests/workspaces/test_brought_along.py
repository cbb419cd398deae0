"""What a new worktree begins with beside its commit, with real git: the person's uncommitted changes, and ignored files that they name."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pytest
from support.worktrees import git_environ

from watchkeeper.domain.worktree import Worktree
from watchkeeper.errors import BadTask
from watchkeeper.safe_json import dumps
from watchkeeper.workspaces import copied
from watchkeeper.workspaces.git import GitWorkspace
from watchkeeper.workspaces.worktrees import GitWorktrees

OWNER = "t1"
ODD = "odd ü\nname"


@dataclass
class Repo:
    """A repository with something of every kind that is not committed."""

    top: Path
    root: Path
    environ: dict[str, str]

    def git(self, *arguments: str, at: Path | None = None) -> str:
        """What git prints."""
        command = ["git", "-C", str(at or self.top), *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=self.environ)
        return done.stdout.strip()

    def write(self, path: str, text: str) -> Path:
        """Write a file of the checkout."""
        file = self.top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        _ = file.write_text(text, encoding="utf-8")
        return file

    @property
    def worktrees(self) -> GitWorktrees:
        """What is tested."""
        return GitWorktrees(self.root, self.environ)

    def plan(self, *, changes: bool = False) -> Worktree:
        """A planned worktree, as a hand-over plans it."""
        start = self.worktrees.start(str(self.top), None, "wk/t1")
        return Worktree(
            path=self.worktrees.place_for("t1"),
            branch="wk/t1",
            base=start.base,
            base_name=start.base_name,
            source=start.source,
            repository=start.repository,
            identity=start.identity,
            begins_with=self.worktrees.capture(start.source, start.base) if changes else None,
            copies=start.copies,
        )

    def make(self, tree: Worktree) -> Path:
        """Make it; its top."""
        assert self.worktrees.make(tree, OWNER).problem == ""
        return Path(tree.path)

    def change_everything(self) -> None:
        """Change a file in every way that there is."""
        _ = self.write("changed", "changed\n")
        _ = self.write("staged", "staged\n")
        _ = self.git("add", "staged")
        _ = self.write("staged", "staged, then changed\n")
        _ = self.git("mv", "moved", "moved away")
        (self.top / "deleted").unlink()
        _ = self.write(f"new/{ODD}", "untracked\n")
        (self.top / "new" / "run").write_text("#!/bin/sh\n", encoding="utf-8")
        (self.top / "new" / "run").chmod(0o755)
        (self.top / "new" / "link").symlink_to("../changed")
        _ = self.write("ignored.log", "ignored\n")
        # A directory that was a file, and a file that was a directory.
        (self.top / "file").unlink()
        _ = self.write("file/inner", "inner\n")
        (self.top / "directory" / "inner").unlink()
        (self.top / "directory").rmdir()
        _ = self.write("directory", "file\n")

    def files(self, top: Path) -> dict[str, tuple[int, bytes]]:
        """Every file that is there, but for git's own and ignored ones: its kind and mode, and its content."""
        found: dict[str, tuple[int, bytes]] = {}
        for path in top.rglob("*"):
            name = str(path.relative_to(top))
            if (
                name.split("/", maxsplit=1)[0] == ".git"
                or name.endswith(".log")
                or (path.is_dir() and not path.is_symlink())
            ):
                continue
            content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
            found[name] = (path.lstat().st_mode, content)
        return found


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "a repo", tmp_path / "work trees", git_environ(tmp_path))
    made.top.mkdir()
    _ = made.git("init", "-q", "-b", "main")
    for name in ("changed", "staged", "moved", "deleted", "same", "file", "directory/inner"):
        _ = made.write(name, f"{name}\n")
    _ = made.write(".gitignore", "*.log\n.env*\nsecret/\nlink-*\n")
    _ = made.git("add", "-A")
    _ = made.git("commit", "-qm", "Begin")
    return made


def test_it_begins_with_every_uncommitted_change_and_nothing_else(repo: Repo) -> None:
    """Byte for byte and mode for mode; they stay uncommitted, and the checkout, its index and its branches stay as they are."""
    repo.change_everything()
    index, before = (repo.top / ".git" / "index").read_bytes(), repo.files(repo.top)
    refs = repo.git("for-each-ref", "refs/heads", "refs/tags", "refs/stash")
    tree = repo.plan(changes=True)
    assert (repo.top / ".git" / "index").read_bytes() == index
    _ = repo.write("changed", "changed later\n")
    _ = repo.write("later", "later\n")
    top = repo.make(tree)
    assert repo.files(top) == before, "what came later is not there"
    assert not (top / "ignored.log").exists()
    assert repo.git("rev-parse", "HEAD", at=top) == tree.base
    assert repo.git("diff", "--cached", "--name-only", at=top) == ""
    assert repo.git("for-each-ref", "refs/heads/main", "refs/tags", "refs/stash") == refs
    assert (repo.top / ".git" / "index").read_bytes() == index


def test_the_changes_are_not_those_of_the_agent(repo: Repo) -> None:
    """What was brought along is there before the run, so only what the run does is the run's."""
    repo.change_everything()
    top = repo.make(repo.plan(changes=True))
    workspace = GitWorkspace(repo.environ)
    before = workspace.survey(str(top), "e1").before
    (top / "changed").write_text("by the agent\n", encoding="utf-8")
    changes = workspace.changes(str(top), before, "e1")
    assert [(file.path, file.insertions, file.deletions) for file in changes.files] == [("changed", 1, 1)]


def test_its_name_keeps_the_changes_and_goes_with_the_worktree(repo: Repo) -> None:
    """Also if git tidies up before the worktree is made; and no push takes it along."""
    _ = repo.write("changed", "kept\n")
    tree = repo.plan(changes=True)
    assert repo.worktrees.keep(tree, OWNER) == ""
    _ = repo.git("gc", "-q", "--prune=now")
    _ = repo.git("init", "-q", "--bare", str(repo.top.parent / "forge.git"))
    _ = repo.git("push", "-q", "../forge.git", "--all")
    assert "watchkeeper" not in repo.git("ls-remote", "../forge.git")
    top = repo.make(tree)
    assert (top / "changed").read_text(encoding="utf-8") == "kept\n"
    _ = repo.git("checkout", "-q", ".", at=top)
    assert repo.worktrees.drop(tree, OWNER) == ""
    assert repo.git("for-each-ref", "refs/watchkeeper") == ""
    assert repo.worktrees.drop(tree, OWNER) == "", "and again"


def test_what_cannot_be_included_is_named_and_nothing_is_left(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    _ = repo.git("init", "-q", str(repo.top / "nested"))
    with pytest.raises(BadTask, match="These paths cannot be included: nested/") as refused:
        _ = repo.plan(changes=True)
    assert refused.value.hint
    _ = (repo.top / "nested").rename(repo.top.parent / "away")
    monkeypatch.setattr("watchkeeper.workspaces.trees.KEPT_UP_TO", 10)
    _ = repo.write("large\nfile", "more than ten bytes")
    with pytest.raises(BadTask, match=r"These paths cannot be included: large.file\."):
        _ = repo.plan(changes=True)
    assert repo.git("for-each-ref", "refs/watchkeeper") == ""


def test_changes_go_only_with_the_commit_that_they_are_to(repo: Repo) -> None:
    _ = repo.git("commit", "-q", "--allow-empty", "-m", "More")
    _ = repo.write("changed", "changed\n")
    with pytest.raises(BadTask, match="the worktree starts at another one"):
        _ = repo.worktrees.capture(str(repo.top), repo.git("rev-parse", "HEAD^"))


def test_a_lock_that_was_left_behind_stands_in_no_way(repo: Repo) -> None:
    """The index of the checkout is never written."""
    _ = repo.write("changed", "changed\n")
    lock = repo.top / ".git" / "index.lock"
    lock.touch()
    top = repo.make(repo.plan(changes=True))
    assert (top / "changed").read_text(encoding="utf-8") == "changed\n"
    assert lock.exists()


def test_a_change_outside_of_a_sparse_checkout_comes_along(repo: Repo) -> None:
    _ = repo.git("sparse-checkout", "set", "--no-cone", "/same")
    _ = repo.write("changed", "here all the same\n")
    top = repo.make(repo.plan(changes=True))
    assert (top / "changed").read_text(encoding="utf-8") == "here all the same\n"


_SCRIPT = """
import json, sys
from pathlib import Path
from watchkeeper.workspaces.worktrees import GitWorktrees, tree_of
tree = tree_of(json.loads(sys.argv[1]))
print(GitWorktrees(Path(tree.path).parent).make(tree, "t1").problem)
"""


@pytest.mark.parametrize("point", ["worktree.files.before", "worktree.files.after", "worktree.mark.before"])
def test_a_making_that_was_cut_off_is_completed_with_all_of_it(repo: Repo, point: str) -> None:
    repo.change_everything()
    _ = repo.write(".env", "KEY=1\n")
    _ = repo.write(copied.FILE, ".env\n")
    tree, before = repo.plan(changes=True), repo.files(repo.top)
    environ = {**repo.environ, "WATCHKEEPER_CRASH_AT": point}
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, dumps(asdict(tree))], check=False, env=environ, capture_output=True
    )
    assert done.returncode == -signal.SIGKILL
    assert repo.files(repo.make(tree)) == before


def test_ignored_files_that_match_are_copied_as_they_are(repo: Repo) -> None:
    """With their modes, whatever their names; no tracked file, none that does not match, and none that is not ignored."""
    _ = repo.write(".env", "KEY=1\n")
    (repo.top / ".env").chmod(0o600)
    _ = repo.write(f"secret/deep/{ODD}", "deep\n")
    (repo.top / "secret" / "deep" / "tool").write_text("#!/bin/sh\n", encoding="utf-8")
    (repo.top / "secret" / "deep" / "tool").chmod(0o755)
    _ = repo.write(".env.production", "not this one\n")
    _ = repo.write("untracked", "not ignored\n")
    _ = repo.write("changed", "not committed\n")
    _ = repo.write(
        copied.FILE, "# what a new worktree needs\n.env*\n!.env.production\nsecret/\nuntracked\nchanged\n../*\n"
    )
    tree = repo.plan()
    _ = repo.write(copied.FILE, "*.log\n")
    top = repo.make(tree)
    assert stat.S_IMODE((top / ".env").stat().st_mode) == 0o600
    assert (top / "secret" / "deep" / ODD).read_text(encoding="utf-8") == "deep\n"
    assert os.access(top / "secret" / "deep" / "tool", os.X_OK)
    assert (top / "changed").read_text(encoding="utf-8") == "changed\n"
    assert not [name for name in (".env.production", "untracked", copied.FILE) if (top / name).exists()]
    assert repo.git("status", "--porcelain", at=top) == "", "nothing of it can be committed by accident"


def test_a_person_is_told_what_is_copied_and_what_is_not(repo: Repo) -> None:
    _ = repo.write(".env", "KEY=1\n")
    (repo.top / "link-out").symlink_to("/etc/passwd")
    _ = repo.write(copied.FILE, ".env\nlink-*\n")
    notes = repo.worktrees.start(str(repo.top), None, "b").notes
    assert notes[0] == ".worktreeinclude brings 1 ignored file along: .env."
    assert "leads out of the checkout" in notes[1]
    assert "link-out" in notes[1]


def test_no_link_leads_a_copy_out_of_the_tree(repo: Repo) -> None:
    """Neither one that is copied, nor one that stands in the way in the worktree."""
    outside = repo.top.parent / "outside"
    outside.mkdir()
    _ = (outside / ".env").write_text("outside\n", encoding="utf-8")
    (repo.top / "link-out").symlink_to("../outside/.env")
    (repo.top / "link-absolute").symlink_to(outside / ".env")
    (repo.top / "link-over").symlink_to("link-hop/.env")
    (repo.top / "link-hop").symlink_to("../outside")
    (repo.top / "link-in").symlink_to("same")
    _ = repo.write(copied.FILE, "link-*\n.env\n")
    _ = repo.write("place/.env", "inside\n")
    tree = repo.plan()
    # In the commit, the directory of the copied file is a link that leads out.
    (repo.top / "place").rename(repo.top / "aside")
    (repo.top / "place").symlink_to("../outside")
    _ = repo.git("add", "place")
    _ = repo.git("commit", "-qm", "A link")
    tree = replace(tree, base=repo.git("rev-parse", "HEAD"))
    (repo.top / "place").unlink()
    (repo.top / "aside").rename(repo.top / "place")
    top = repo.make(tree)
    assert (top / "place").is_symlink()
    assert (outside / ".env").read_text(encoding="utf-8") == "outside\n"
    assert sorted(path.name for path in outside.iterdir()) == [".env"]
    assert [path.name for path in top.iterdir() if path.name.startswith("link-")] == ["link-in"]


def test_a_file_that_the_commit_has_is_never_overwritten(repo: Repo) -> None:
    _ = repo.write(".env", "committed\n")
    _ = repo.git("add", "-f", ".env")
    _ = repo.git("commit", "-qm", "With it")
    tree = repo.plan()
    _ = repo.git("rm", "-q", "--cached", ".env")
    _ = repo.write(".env", "mine\n")
    top = repo.make(replace(tree, copies=".env\n"))
    assert (top / ".env").read_text(encoding="utf-8") == "committed\n"


def _huge(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copied, "MOST_BYTES", 10)
    _ = repo.write(".env", "more than ten bytes\n")
    _ = repo.write(copied.FILE, ".env\n")


def _directory(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    del monkeypatch
    (repo.top / copied.FILE).mkdir()


def _link(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    del monkeypatch
    (repo.top / copied.FILE).symlink_to("/etc/hostname")


def _long(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    del monkeypatch
    _ = repo.write(copied.FILE, "x\n" * copied.MOST_PATTERNS)


def _odd(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    del monkeypatch
    _ = (repo.top / copied.FILE).write_bytes(b"\xff\n")


@pytest.mark.parametrize(
    ("do", "detail"),
    [
        (_huge, "matches 1 files? of"),
        (_directory, "is not a plain file"),
        (_link, "cannot be read"),
        (_long, "is larger than 16 KiB"),
        (_odd, "is not UTF-8"),
    ],
)
def test_a_list_of_copies_that_cannot_be_followed_is_refused_at_hand_over(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, do: Callable[[Repo, pytest.MonkeyPatch], None], detail: str
) -> None:
    do(repo, monkeypatch)
    with pytest.raises(BadTask, match=detail) as refused:
        _ = repo.plan()
    assert refused.value.hint
    assert not repo.root.exists()
