"""What a run changed, against real git, in directories as agents leave them."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from watchkeeper.domain.model import Changes
from watchkeeper.workspaces import committed, plain, states
from watchkeeper.workspaces import git as module
from watchkeeper.workspaces.git import GitWorkspace


class Repository:
    """A real repository."""

    def __init__(self, top: Path, *, commit: bool = True) -> None:
        self.top = top
        top.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main")
        if commit:
            self.write("kept.txt", "kept\n")
            self.write("deep/er.txt", "deep\n")
            self.commit("first")

    def git(self, *arguments: str) -> str:
        """Run git as a person would."""
        who = ["-c", "user.name=T", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false"]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.top.parent), "GIT_CONFIG_NOSYSTEM": "1"}
        return subprocess.run(
            ["git", *who, *arguments], cwd=self.top, check=True, capture_output=True, text=True, env=environment
        ).stdout.strip()

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        file = self.top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def commit(self, message: str) -> str:
        """Commit everything; returns the commit."""
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


workspace = GitWorkspace()


def _before(cwd: Path) -> Mapping[str, object]:
    """A snapshot as it comes back from its file."""
    return json.loads(json.dumps(workspace.snapshot(str(cwd))))


def _changed(changes: Changes) -> dict[str, str]:
    assert changes.known, changes.why_unknown
    return {file.path: file.change for file in changes.files}


def test_nothing_changed(repository: Repository) -> None:
    """An untouched checkout has no changes and no commits."""
    repository.write("mess.txt", "before")
    before = _before(repository.top)
    changes = workspace.changes(str(repository.top), before)
    assert replace(changes, left=None) == Changes(known=True)
    assert (before["branch"], before["head"]) == ("main", repository.git("rev-parse", "HEAD"))


def test_added_modified_deleted(repository: Repository) -> None:
    """Each kind of change is named, also from a subdirectory, relative to the top."""
    repository.write("old-mess.txt", "x")
    before = _before(repository.top / "deep")
    repository.write("new ü\n.txt", "new")
    repository.write("deep/er.txt", "deeper")
    (repository.top / "kept.txt").unlink()
    repository.write("old-mess.txt", "y")
    assert _changed(workspace.changes(str(repository.top / "deep"), before)) == {
        "new ü\n.txt": "added",
        "deep/er.txt": "modified",
        "kept.txt": "deleted",
        "old-mess.txt": "modified",
    }


def test_what_was_dirty_before_does_not_count(repository: Repository) -> None:
    """Only what differs from the dirty state counts: put back, deleted, or committed as it was."""
    repository.write("kept.txt", "dirty\n")
    repository.write("draft.txt", "draft")
    repository.write("gone.txt", "gone")
    before = _before(repository.top)
    (repository.top / "gone.txt").unlink()
    repository.git("checkout", "-q", "kept.txt")
    repository.commit("the draft as it was")
    changes = workspace.changes(str(repository.top), before)
    assert _changed(changes) == {"gone.txt": "deleted", "kept.txt": "modified"}
    assert len(changes.commits) == 1


def test_commits_and_what_they_changed(repository: Repository) -> None:
    """Commits are listed newest first, with the files that they changed, and what was changed again since."""
    before = _before(repository.top)
    repository.write("a.txt", "a")
    repository.write("kept.txt", "changed\n")
    repository.write("deep/er.txt", "changed\n")
    one = repository.commit("one")
    (repository.top / "a.txt").unlink()
    repository.write("b.txt", "b")
    two = repository.commit("two")
    repository.write("kept.txt", "kept\n")
    repository.write("b.txt", "b again")
    changes = workspace.changes(str(repository.top), before)
    assert changes.commits == (two, one)
    assert _changed(changes) == {"b.txt": "added", "deep/er.txt": "modified"}


def test_a_repository_without_commits(tmp_path: Path) -> None:
    """The first commit of a repository is a change like any other."""
    repository = Repository(tmp_path / "empty", commit=False)
    repository.write("mine.txt", "mine")
    before = _before(repository.top)
    repository.write("theirs.txt", "theirs")
    assert _changed(workspace.changes(str(repository.top), before)) == {"theirs.txt": "added"}
    first = repository.commit("first")
    changes = workspace.changes(str(repository.top), before)
    assert (_changed(changes), changes.commits) == ({"theirs.txt": "added"}, (first,))


def test_detached_and_on_another_branch(repository: Repository) -> None:
    """Where HEAD stands does not matter; a switch to an older commit is a change without commits."""
    first = repository.git("rev-parse", "HEAD")
    repository.write("second.txt", "2")
    repository.commit("second")
    before = _before(repository.top)
    repository.git("checkout", "-q", first)
    changes = workspace.changes(str(repository.top), before)
    assert (_changed(changes), changes.commits) == ({"second.txt": "deleted"}, ())
    assert _before(repository.top)["branch"] is None


def test_the_index_and_modes_and_links(repository: Repository) -> None:
    """Staged files, files that became executable, and links count as what they are."""
    before = _before(repository.top)
    repository.write("staged.txt", "staged")
    repository.git("add", "staged.txt")
    (repository.top / "kept.txt").chmod(0o755)
    (repository.top / "link").symlink_to("/nowhere")
    repository.git("rm", "-q", "--cached", "deep/er.txt")
    assert _changed(workspace.changes(str(repository.top), before)) == {
        "staged.txt": "added",
        "kept.txt": "modified",
        "link": "added",
        "deep/er.txt": "modified",
    }


def test_nothing_of_the_repository_runs(repository: Repository, tmp_path: Path) -> None:
    """Hooks, file system monitors and filters that an agent planted are not run."""
    trap = tmp_path / "sprung"
    program = tmp_path / "trap.sh"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {trap}\ncat\n', encoding="utf-8")
    program.chmod(0o755)
    before = _before(repository.top)
    repository.write(".gitattributes", "*.txt filter=evil\n*.md filter=e=vil\n")
    repository.write("x.md", "x")
    repository.git("add", "x.md", ".gitattributes")
    hooks = repository.top / ".git" / "hooks"
    for hook in ("post-index-change", "reference-transaction", "fsmonitor-watchman"):
        (hooks / hook).symlink_to(program)
    filters = "".join(f'[filter "{name}"]\nclean = {program} {name}\nrequired\n' for name in ("evil", "e=vil"))
    config = f"[core]\nfsmonitor = {program}\n{filters}"
    with (repository.top / ".git" / "config").open("a", encoding="utf-8") as out:
        out.write(config)
    repository.write("kept.txt", "kepT\n")
    repository.write("x.md", "y")
    index = (repository.top / ".git" / "index").stat()
    assert _changed(workspace.changes(str(repository.top), before))["kept.txt"] == "modified"
    assert not trap.exists(), trap.read_text(encoding="utf-8")
    after = (repository.top / ".git" / "index").stat()
    assert (after.st_ino, after.st_mtime_ns) == (index.st_ino, index.st_mtime_ns)
    repository.git("status")
    assert trap.exists(), "the traps themselves must work"


def test_the_environment_of_the_caller_misleads_nobody(repository: Repository, tmp_path: Path) -> None:
    """GIT_DIR and its like are not passed on."""
    other = Repository(tmp_path / "other")
    misled = GitWorkspace({**os.environ, "GIT_DIR": str(other.top / ".git"), "GIT_WORK_TREE": str(other.top)})
    assert misled.snapshot(str(repository.top))["top"] == str(repository.top)


def test_other_checkouts_inside_are_left_alone(repository: Repository) -> None:
    """A repository inside the repository is one entry."""
    inner = Repository(repository.top / "inner")
    before = _before(repository.top)
    inner.write("more.txt", "more")
    assert _changed(workspace.changes(str(repository.top), before)) == {}


@pytest.mark.parametrize(
    ("spoil", "detail"),
    [
        ("bare", "bare repository"),
        ("inside", "git could not be asked"),
        ("broken", "git could not be asked"),
        ("gone", "gone"),
        ("no git", "git is not installed"),
        ("slow", "took longer"),
    ],
)
def test_what_cannot_be_known_is_said(repository: Repository, tmp_path: Path, spoil: str, detail: str) -> None:
    """Nothing raises, and the reason is a sentence."""
    cwd, looker = repository.top, workspace
    before = _before(cwd)
    if spoil == "bare":
        cwd = tmp_path / "bare"
        cwd.mkdir()
        subprocess.run(["git", "init", "-q", "--bare", str(cwd)], check=True)
    elif spoil == "inside":
        cwd = repository.top / ".git"
    elif spoil == "broken":
        (cwd / ".git" / "HEAD").unlink()
    elif spoil == "gone":
        cwd = tmp_path / "gone"
    elif spoil == "no git":
        looker = GitWorkspace({"PATH": str(tmp_path)})
    elif spoil == "slow":
        (tmp_path / "git").write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
        (tmp_path / "git").chmod(0o755)
        looker = GitWorkspace({"PATH": f"{tmp_path}:{os.environ['PATH']}"}, timeout_s=0.2)
    changes = looker.changes(str(cwd), before)
    assert not changes.known
    assert detail in changes.why_unknown
    assert "why_unknown" in looker.snapshot(str(cwd))


@pytest.mark.parametrize(
    "before",
    [
        None,
        {},
        {"kind": "git"},
        {"kind": "git", "top": "T", "head": "--evil", "dirty": {}, "truncated": False},
        {"kind": 7},
    ],
)
def test_a_spoilt_snapshot_is_unknown(repository: Repository, before: dict[str, object] | None) -> None:
    """What was recorded before may be gone or damaged; that is unknown, not a crash and not an option for git."""
    if before is not None and before.get("top") == "T":
        before = {**before, "top": str(repository.top)}
    changes = workspace.changes(str(repository.top), before)
    assert not changes.known
    assert changes.why_unknown


def test_becoming_a_repository_is_unknown(tmp_path: Path) -> None:
    """`git init` by an agent cannot be compared, and that is said."""
    directory = tmp_path / "directory"
    directory.mkdir()
    before = _before(directory)
    Repository(directory)
    assert "was not under git" in workspace.changes(str(directory), before).why_unknown


def test_too_many_files_are_said(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound the list is marked, and nothing is invented at the bound."""
    monkeypatch.setattr(module, "MAX_DIRTY", 3)
    for name in "bcd":
        repository.write(name, name)
    before = _before(repository.top)
    repository.write("a", "a")
    changes = workspace.changes(str(repository.top), before)
    assert changes.truncated
    assert _changed(changes) == {"a": "added"}


def test_large_files_are_told_by_size_and_time(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file above the bound is not read, and its change is seen all the same."""
    monkeypatch.setattr(states, "HASHED_UP_TO", 10)
    repository.write("large", "x" * 11)
    before = _before(repository.top)
    assert _changed(workspace.changes(str(repository.top), before)) == {}
    repository.write("large", "y" * 12)
    assert _changed(workspace.changes(str(repository.top), before)) == {"large": "modified"}


def test_a_plain_directory(tmp_path: Path) -> None:
    """Without git, size and time of change tell what happened, without what programs fill by themselves."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "stays").write_text("s", encoding="utf-8")
    (tmp_path / "sub" / "changes").write_text("c", encoding="utf-8")
    (tmp_path / "goes").write_text("g", encoding="utf-8")
    before = _before(tmp_path)
    changes = workspace.changes(str(tmp_path), before)
    assert replace(changes, left=None) == Changes(known=True, in_checkout=False)
    (tmp_path / "goes").unlink()
    (tmp_path / "sub" / "changes").write_text("changed", encoding="utf-8")
    (tmp_path / "comes").symlink_to("/nowhere")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "x").write_text("x", encoding="utf-8")
    assert _changed(workspace.changes(str(tmp_path), before)) == {
        "comes": "added",
        "goes": "deleted",
        "sub/changes": "modified",
    }


def test_a_plain_directory_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More files than are looked at: unknown, with the number."""
    monkeypatch.setattr(plain, "MAX_FILES", 1)
    for name in "ab":
        (tmp_path / name).touch()
    before = _before(tmp_path)
    assert "more than 1 files" in workspace.changes(str(tmp_path), before).why_unknown


def test_names_that_are_no_utf8(tmp_path: Path) -> None:
    """Two such names are two, and can be turned into their bytes again."""
    repository = Repository(tmp_path / "repository")
    before = _before(repository.top)
    for name in (b"\xff.txt", b"\xfe.txt"):
        (repository.top / os.fsdecode(name)).write_text("x", encoding="utf-8")
    changed = _changed(workspace.changes(str(repository.top), before))
    assert sorted(map(os.fsencode, changed)) == [b"\xfe.txt", b"\xff.txt"]


@pytest.fixture
def counted(tmp_path: Path) -> tuple[GitWorkspace, Path]:
    """A workspace, and the file to which its git adds a line each time."""
    log, program = tmp_path / "asked", tmp_path / "programs" / "git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> {log}\nPATH={os.environ["PATH"]} exec git "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return GitWorkspace({**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}), log


def test_a_settlement_costs_nine_questions_to_git(repository: Repository, counted: tuple[GitWorkspace, Path]) -> None:
    """Three where nothing changed."""
    asking, log = counted
    before = _before(repository.top)
    for questions, number in ((3, 1), (9, 2)):
        log.unlink(missing_ok=True)
        assert len(asking.changes(str(repository.top), before, f"run{number}").files) == number - 1
        asked = log.read_text(encoding="utf-8").splitlines()
        assert len(asked) == questions, asked
        repository.write("new.txt", "new")


def test_files_that_were_committed_and_changed_again_cost_no_question_each(
    repository: Repository, counted: tuple[GitWorkspace, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is back to what it was is not listed. Contents are read in parts, and a file that is too large for that counts as changed."""
    asking, log = counted
    for number in range(40):
        repository.write(f"file-{number}", f"begin {number}\n" * 20)
    repository.write("same as 0", "begin 0\n" * 20)
    repository.write("large", "large\n" * 1000)
    _ = repository.commit("second")
    before = _before(repository.top)
    for number in range(40):
        repository.write(f"file-{number}", f"committed {number}\n")
    repository.write("same as 0", "committed\n")
    repository.write("large", "committed\n")
    _ = repository.commit("third")
    for number in range(40):
        repository.write(f"file-{number}", f"begin {number}\n" * 20 if number % 2 == 0 else f"again {number}\n")
    repository.write("same as 0", "begin 0\n" * 20)
    repository.write("large", "large\n" * 1000)
    monkeypatch.setattr(committed, "_AT_ONCE", 2000)
    monkeypatch.setattr(committed, "_LARGEST", 5000)
    found = _changed(asking.changes(str(repository.top), before))
    assert found == {**{f"file-{number}": "modified" for number in range(1, 40, 2)}, "large": "modified"}
    parts = [line for line in log.read_text(encoding="utf-8").splitlines() if line.endswith("cat-file --batch")]
    assert 1 < len(parts) < 10, parts
