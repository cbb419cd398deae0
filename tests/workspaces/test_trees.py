"""What a run changed is kept by git as trees, shown from there, and nothing that an agent planted runs meanwhile."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.waiting import wait_until

from watchkeeper.domain.model import Changes
from watchkeeper.ports.diffs import Kept
from watchkeeper.workspaces import trees
from watchkeeper.workspaces.apart import ApartWorkspace
from watchkeeper.workspaces.git import GitWorkspace
from watchkeeper.workspaces.viewing import GitDiffs

WHO = {
    "GIT_AUTHOR_NAME": "T",
    "GIT_AUTHOR_EMAIL": "t@localhost",
    "GIT_COMMITTER_NAME": "T",
    "GIT_COMMITTER_EMAIL": "t@localhost",
}


class Repository:
    """A real repository with one commit."""

    def __init__(self, top: Path, *options: str) -> None:
        self.top = top
        top.mkdir(parents=True)
        self.git("init", "-q", "-b", "main", *options)
        self.write("kept.txt", "one\ntwo\nthree\n")
        self.write("moved.txt", "".join(f"line {number}\n" for number in range(20)))
        self.write(".gitignore", "*.log\nbuild/\n")
        self.commit()

    def git(self, *arguments: str) -> str:
        """Run git as a person would."""
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.top.parent), "GIT_CONFIG_NOSYSTEM": "1", **WHO}
        done = subprocess.run(
            ["git", *arguments], cwd=self.top, check=True, capture_output=True, text=True, env=environ
        )
        return done.stdout.strip()

    def write(self, path: str, text: str) -> None:
        """Write a file."""
        (self.top / path).parent.mkdir(parents=True, exist_ok=True)
        (self.top / path).write_text(text, encoding="utf-8")

    def commit(self) -> str:
        """Commit everything; returns the commit."""
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "a change")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


@pytest.fixture
def diffs(tmp_path: Path) -> GitDiffs:
    return GitDiffs({"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"})


workspace = GitWorkspace()


def _launched(repository: Repository, name: str = "x1") -> Mapping[str, object]:
    """The snapshot of a launch, as it comes back from its file."""
    return json.loads(json.dumps(workspace.survey(str(repository.top), name).before))


def _left(repository: Repository, before: Mapping[str, object], name: str = "x1") -> Changes:
    changes = workspace.changes(str(repository.top), before, name)
    assert changes.known, changes.why_unknown
    return changes


def _kept(changes: Changes) -> Kept:
    assert changes.repository is not None, changes.not_kept
    assert changes.base is not None
    assert changes.tip is not None
    return Kept(changes.repository, changes.base, changes.tip)


def _patch(diffs: GitDiffs, changes: Changes) -> str:
    return diffs.patch(_kept(changes)).decode()


def test_lines_renames_and_binary_files_are_told(repository: Repository, diffs: GitDiffs) -> None:
    """With what is committed apart from what is not, and ignored files by name, a whole directory as one."""
    before = _launched(repository)
    repository.git("mv", "moved.txt", "there.txt")
    repository.commit()
    repository.write("kept.txt", "one\n2\nthree\nfour\n")
    repository.write("odd\nname ü.txt", "new\n")
    (repository.top / "bin.dat").write_bytes(bytes(range(256)))
    repository.write("build/one.o", "x")
    repository.write("build/two.o", "x")
    repository.write("a.log", "x")
    changes = _left(repository, before)
    told = [(f.path, f.change, f.old, f.insertions, f.deletions, f.is_binary, f.is_committed) for f in changes.files]
    assert told == [
        ("bin.dat", "added", None, None, None, True, False),
        ("kept.txt", "modified", None, 2, 1, False, False),
        ("odd\nname ü.txt", "added", None, 1, 0, False, False),
        ("there.txt", "renamed", "moved.txt", 0, 0, False, True),
    ]
    assert (changes.lines, changes.uncommitted, len(changes.commits)) == ((3, 1), 3, 1)
    assert (changes.ignored, changes.ignored_in_all) == (("a.log", "build/"), 2)
    patch = _patch(diffs, changes)
    assert "rename from moved.txt" in patch
    assert "GIT binary patch" in patch


def test_the_patch_turns_the_state_before_into_the_state_after(repository: Repository, diffs: GitDiffs) -> None:
    """Both were dirty, and neither is a commit. Nothing of the user's is touched: index, HEAD, branches, files."""
    repository.write("kept.txt", "one\ntwo\nthree\nmine\n")
    repository.write("draft.txt", "draft\n")
    repository.git("add", "draft.txt")
    index = (repository.top / ".git" / "index").read_bytes()
    status, heads = repository.git("status", "--porcelain"), repository.git("for-each-ref", "refs/heads")
    before = _launched(repository)
    repository.write("kept.txt", "one\ntwo\nthree\nmine\nits\n")
    (repository.top / "draft.txt").unlink()
    changes = _left(repository, before)
    assert [(file.path, file.change) for file in changes.files] == [("draft.txt", "deleted"), ("kept.txt", "modified")]
    assert (repository.top / ".git" / "index").read_bytes() == index
    assert repository.git("for-each-ref", "refs/heads") == heads
    assert repository.git("status", "--porcelain") == status.replace("A  draft", "AD draft")
    repository.write("kept.txt", "one\ntwo\nthree\nmine\n")
    repository.write("draft.txt", "draft\n")
    patch = repository.top.parent / "patch"
    patch.write_bytes(diffs.patch(_kept(changes)))
    repository.git("apply", str(patch))
    assert (repository.top / "kept.txt").read_text() == "one\ntwo\nthree\nmine\nits\n"
    assert not (repository.top / "draft.txt").exists()


def test_what_others_change_later_is_not_part_of_it(repository: Repository, diffs: GitDiffs) -> None:
    """Even if every commit is thrown away; and a second try to settle the run keeps the first state."""
    before = _launched(repository)
    repository.write("kept.txt", "the run's\n")
    first = _left(repository, before)
    repository.write("kept.txt", "another's\n")
    repository.write("other.txt", "another's\n")
    again = _left(repository, before)
    assert (again.base, again.tip, again.files) == (first.base, first.tip, first.files)
    repository.commit()
    repository.git("reset", "-q", "--hard", "HEAD~1")
    repository.git("reflog", "expire", "--expire=now", "--all")
    repository.git("gc", "-q", "--prune=now")
    assert "+the run's" in _patch(diffs, first)


def test_a_run_that_changes_nothing_leaves_no_reference(repository: Repository) -> None:
    before = _launched(repository)
    changes = _left(repository, before)
    assert (changes.files, changes.tip, changes.not_kept) == ((), None, "")
    assert repository.git("for-each-ref", "refs/watchkeeper") == ""


def test_many_runs_of_one_look_each_have_their_own(repository: Repository) -> None:
    befores = [_launched(repository, "x1")]
    repository.write("a.txt", "a\n")
    befores.append(_launched(repository, "x2"))
    repository.write("b.txt", "b\n")
    one, two, unnamed = workspace.changes_of_many(str(repository.top), [*befores, befores[0]], ["x1", "x2", ""])
    assert [file.path for file in one.files] == ["a.txt", "b.txt"]
    assert [file.path for file in two.files] == ["b.txt"]
    assert one.tip == two.tip
    assert (unnamed.tip, [file.path for file in unnamed.files]) == (None, ["a.txt", "b.txt"])
    names = repository.git("for-each-ref", "--format=%(refname)", "refs/watchkeeper").split()
    assert names == [f"refs/watchkeeper/runs/{name}/{which}" for name in ("x1", "x2") for which in ("after", "before")]


def test_what_is_forgotten_leaves_others(repository: Repository) -> None:
    """Forgetting twice, or where nothing is, is harmless; a repository that cannot do it says so."""
    for name in ("x1", "x11"):
        before = _launched(repository, name)
        repository.write("kept.txt", f"{name}\n")
        _ = _left(repository, before, name)
    common = str(repository.top / ".git")
    assert workspace.forget(common, ["x1"]) == ""
    assert workspace.forget(common, ["x1", "x3"]) == ""
    assert {
        ref.split("/")[3] for ref in repository.git("for-each-ref", "--format=%(refname)", "refs/watchkeeper").split()
    } == {"x11"}
    repository.git("pack-refs", "--all")
    (repository.top / ".git" / "packed-refs.lock").touch()
    assert "packed-refs.lock" in workspace.forget(common, ["x11"])
    assert workspace.forget(str(repository.top / "gone"), ["x11"]) == ""


def test_an_ordinary_push_and_clone_leave_the_references_out(repository: Repository) -> None:
    before = _launched(repository)
    repository.write("kept.txt", "x\n")
    _ = _left(repository, before)
    there = repository.top.parent / "there.git"
    repository.git("init", "-q", "--bare", str(there))
    repository.git("push", "-q", str(there), "main")
    repository.git("push", "-q", "--all", str(there))
    assert repository.git("--git-dir", str(there), "for-each-ref", "refs/watchkeeper") == ""
    assert repository.git("log", "--all", "--format=%s") == "a change"


def test_what_is_no_file_is_left_out_and_named(
    repository: Repository, diffs: GitDiffs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too large, a pipe in the place of a file, a repository of its own; a link that leads out is kept as a link."""
    monkeypatch.setattr(trees, "KEPT_UP_TO", 1000)
    before = _launched(repository)
    repository.write("large.txt", "x" * 2000)
    (repository.top / "kept.txt").unlink()
    os.mkfifo(repository.top / "kept.txt")
    (repository.top / "link").symlink_to("/etc/passwd")
    _ = Repository(repository.top / "inner")
    changes = _left(repository, before)
    assert {(file.path, file.change) for file in changes.files} >= {
        ("large.txt", "added"), ("kept.txt", "modified"), ("link", "added"),
    }  # fmt: skip
    assert {"large.txt", "kept.txt"} <= set(changes.left_out)
    patch = _patch(diffs, changes)
    assert "+/etc/passwd" in patch
    assert "root:" not in patch
    assert "large.txt" not in patch
    assert "inner" not in patch


def test_directories_files_and_links_that_change_places(repository: Repository, diffs: GitDiffs) -> None:
    repository.write("dir/file.txt", "x\n")
    repository.commit()
    before = _launched(repository)
    (repository.top / "dir" / "file.txt").unlink()
    (repository.top / "dir").rmdir()
    (repository.top / "dir").symlink_to("kept.txt")
    (repository.top / "moved.txt").unlink()
    repository.write("moved.txt/inside", "y\n")
    changes = _left(repository, before)
    assert {(file.path, file.change) for file in changes.files} == {
        ("dir", "added"), ("dir/file.txt", "deleted"), ("moved.txt", "deleted"), ("moved.txt/inside", "added"),
    }  # fmt: skip
    assert "+kept.txt" in _patch(diffs, changes)


@pytest.mark.parametrize("options", [(), ("--object-format=sha256",)], ids=["sha1", "sha256"])
def test_a_repository_without_commits(tmp_path: Path, diffs: GitDiffs, options: tuple[str, ...]) -> None:
    top = tmp_path / 'an "odd"\nplace'
    top.mkdir()
    subprocess.run(["git", "init", "-q", *options, str(top)], check=True)
    before = json.loads(json.dumps(workspace.survey(str(top), "x1").before))
    (top / "new.txt").write_text("new\n", encoding="utf-8")
    changes = workspace.changes(str(top), before, "x1")
    assert changes.not_kept == ""
    assert "+new" in _patch(diffs, changes)


def test_what_could_not_be_kept_is_said(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the run, after it, or because there was no time; what changed is known all the same."""
    repository.write("draft.txt", "draft\n")
    before = dict(_launched(repository))
    repository.write("kept.txt", "x\n")
    late = GitWorkspace(keep_within_s=0).changes(str(repository.top), before, "late")
    assert [file.path for file in late.files] == ["kept.txt"]
    assert late.not_kept == "No time was left for git cat-file."
    assert late.lines is None
    unkept = {**before, "tree": None, "not_kept": "The disk was full."}
    assert _left(repository, unkept, "x2").not_kept == "The disk was full."
    older = {name: value for name, value in before.items() if name not in {"tree", "not_kept", "ignored"}}
    assert "were not kept" in _left(repository, older, "x3").not_kept


def test_a_lock_that_was_left_behind_is_in_nobodys_way(repository: Repository) -> None:
    before = _launched(repository)
    (repository.top / ".git" / "index.lock").touch()
    repository.write("kept.txt", "x\n")
    assert _left(repository, before).not_kept == ""


def test_files_that_are_gone_from_the_repository_are_noticed(repository: Repository, diffs: GitDiffs) -> None:
    before = _launched(repository)
    repository.write("kept.txt", "x\n")
    kept = _kept(_left(repository, before))
    assert diffs.is_there(kept)
    assert workspace.forget(kept.repository, ["x1"]) == ""
    repository.git("gc", "-q", "--prune=now")
    assert not diffs.is_there(kept)
    assert not diffs.is_there(kept._replace(repository=str(repository.top / "gone")))


def _plant(repository: Repository, trap: Path) -> None:
    """Whatever git can be made to run by a repository's own files: each leaves a line in the trap."""
    program = trap.with_suffix(".sh")
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> "{trap}"\n', encoding="utf-8")
    program.chmod(0o755)
    hooks = repository.top / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-index-change", "reference-transaction", "fsmonitor-watchman", "pre-auto-gc", "post-checkout"):
        (hooks / hook).symlink_to(program)
    aliases = "".join(
        f"{name} = !{program} {name}\n" for name in ("diff", "status", "update-index", "write-tree", "difftool")
    )
    config = repository.top / ".git" / "config"
    config.write_text(
        config.read_text(encoding="utf-8")
        + f"""[core]
fsmonitor = {program}
pager = {program}
attributesFile = {repository.top}/planted
[pager]
diff = {program}
[diff]
external = {program}
tool = evil
[difftool "evil"]
cmd = {program}
[diff "evil"]
command = {program}
textconv = {program}
[filter "evil"]
clean = {program}
smudge = {program}
process = {program}
required
[hook "evil"]
event = reference-transaction
command = {program}
[alias]
{aliases}""",
        encoding="utf-8",
    )
    for name in (".gitattributes", "planted", ".git/info/attributes"):
        repository.write(name, "* diff=evil filter=evil\n")


def test_nothing_that_was_planted_runs(
    repository: Repository, diffs: GitDiffs, capfd: pytest.CaptureFixture[str]
) -> None:
    """Not at a launch, a settlement, a removal, a diff in any form, nor in the user's own diff tool."""
    trap = repository.top.parent / "sprung"
    repository.write("draft.txt", "draft\n")
    _plant(repository, trap)
    before = _launched(repository)
    repository.write("kept.txt", "changed\n")
    changes = _left(repository, before)
    kept = _kept(changes)
    assert "changed" in _patch(diffs, changes)
    for form in ("patch", "stat", "names"):
        assert diffs.show(kept, form, on_terminal=False) == 0
        assert diffs.show(kept, form, on_terminal=True) == 0
    assert diffs.review(kept, "diff -r") in {0, 1}
    assert workspace.forget(kept.repository, ["x1"]) == ""
    assert not trap.exists(), trap.read_text(encoding="utf-8")
    assert "+changed" in capfd.readouterr().out
    for command in (("status",), ("diff",), ("update-ref", "refs/x", "HEAD")):
        trap.unlink(missing_ok=True)
        subprocess.run(
            ["git", *command], cwd=repository.top, check=False, stdin=subprocess.DEVNULL, capture_output=True
        )
        assert trap.exists(), f"the traps themselves must work: {command}"


def test_the_users_own_tools_are_used(
    repository: Repository, diffs: GitDiffs, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The tool that is configured for `git difftool`, and one that is named; both get the files as two directories."""
    before = _launched(repository)
    repository.write("kept.txt", "changed\n")
    kept = _kept(_left(repository, before))
    assert diffs.review(kept, "diff -r") in {0, 1}
    assert "> changed" in capfd.readouterr().out
    (tmp_path / ".gitconfig").write_text(
        '[diff]\ntool = mine\n[difftool "mine"]\ncmd = cat "$REMOTE/kept.txt"\n', encoding="utf-8"
    )
    assert diffs.review(kept, None) == 0
    assert capfd.readouterr().out == "changed\n"


@pytest.fixture
def armed(tmp_path: Path) -> Iterator[Any]:
    """Makes workspaces apart that die once at a named point."""
    made: list[ApartWorkspace] = []

    def make(point: str, **more: str) -> ApartWorkspace:
        once = tmp_path / f"{point}.once"
        environ = {**os.environ, "WATCHKEEPER_CRASH_AT": point, "WATCHKEEPER_CRASH_ONCE": str(once), **more}
        made.append(ApartWorkspace(30.0, environ))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("point", ["trees.name.before", "trees.name.after"])
def test_a_look_that_dies_while_it_names_a_tree_is_made_again(repository: Repository, armed: Any, point: str) -> None:
    """The next look finds a name or none, and comes to the same."""
    before = _launched(repository)
    repository.write("kept.txt", "x\n")
    apart = armed(point)
    assert not apart.changes(str(repository.top), before, "x1").known
    again = apart.changes(str(repository.top), before, "x1")
    assert (again.known, again.not_kept) == (True, "")
    assert repository.git("cat-file", "-p", f"{again.tip}:kept.txt") == "x"


@pytest.mark.parametrize("point", ["trees.forget.before", "trees.forget.after"])
def test_a_look_that_dies_while_it_forgets_is_made_again(repository: Repository, armed: Any, point: str) -> None:
    before = _launched(repository)
    repository.write("kept.txt", "x\n")
    _ = _left(repository, before)
    apart, common = armed(point), str(repository.top / ".git")
    assert apart.forget(common, ["x1"]) != ""
    assert apart.forget(common, ["x1"]) == ""
    assert repository.git("for-each-ref", "refs/watchkeeper") == ""


def test_a_look_that_is_ended_leaves_no_file_behind(repository: Repository, armed: Any, tmp_path: Path) -> None:
    """Its index is removed with it; and the next process removes what a killed one has left."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    repository.write("draft.txt", "draft\n")
    apart = armed("trees.name.before", TMPDIR=str(temporary))
    _ = apart.survey(str(repository.top), "x1")
    wait_until(lambda: [*temporary.rglob("*/*")] == [], within_s=10, what="the look's own files are gone")
    (owned,) = temporary.iterdir()
    (owned / "left").mkdir()
    looker = apart._looker
    assert looker is not None
    looker.send_signal(signal.SIGKILL)
    looker.wait()
    assert apart.survey(str(repository.top), "x2").before["tree"]
    assert not owned.exists()
    apart.close()
    wait_until(lambda: not [*temporary.iterdir()], within_s=10, what="the directory is gone")
