"""Every way a worktree can be, against every verb that removes one: what is refused stays as it is, what goes is kept, and `undo` makes it what it was."""

import errno
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from app.stage import Verbs
from support.records import NOON, add, make_spec, make_task
from support.worktrees import OWNER, Repo, fingerprint, new_repo

from watchkeeper.app.remove import NotRemovable, Remover
from watchkeeper.app.retention import Retention
from watchkeeper.app.undo import NotBroughtBack, NothingToUndo, Undoer
from watchkeeper.app.worktrees import Keeper, WorktreeNeeded
from watchkeeper.domain.model import Task, TaskState
from watchkeeper.domain.salvage import Salvage, SalvageState
from watchkeeper.domain.worktree import WorktreeState
from watchkeeper.errors import NoSuchTask
from watchkeeper.workspaces.git import GitWorkspace

ODD = os.fsdecode(b"odd \xff\n \xc3\xbc")
"""A name with a byte that is not UTF-8, a newline, a space and a letter beyond ASCII."""

Way = Callable[[Repo, Path], None]


def _clean(_repo: Repo, _top: Path) -> None:
    pass


def _dirty(repo: Repo, top: Path) -> None:
    """Staged, changed again after that, deleted, made executable, replaced by a link and by a directory."""
    for name in ("b", "c", "d", "e"):
        (top / name).write_text(f"{name}\n", encoding="utf-8")
    _ = repo.commit(at=top)
    _ = repo.git("update-ref", "refs/heads/elsewhere", "HEAD", at=top)
    (top / "a").write_text("staged\n", encoding="utf-8")
    _ = repo.git("add", "a", at=top)
    (top / "a").write_text("not staged\r\n", encoding="utf-8")
    (top / "b").unlink()
    (top / "c").chmod(0o755)
    (top / "d").unlink()
    (top / "d").symlink_to("/nowhere/at/all")
    (top / "e").unlink()
    (top / "e").mkdir()
    (top / "e" / "inner").write_text("inner\n", encoding="utf-8")
    _ = repo.git("rm", "-q", "--cached", "sub/odd ü\nname", at=top)


def _untracked(_repo: Repo, top: Path) -> None:
    (top / ODD).mkdir()
    (top / ODD / ODD).write_bytes(bytes(range(256)))
    (top / "empty").mkdir(mode=0o750)
    (top / "empty" / "more").mkdir()
    (top / "secret").write_text("s", encoding="utf-8")
    (top / "secret").chmod(0o600)
    (top / "a link").symlink_to(ODD)
    (top / 'quo"te\\').write_text("q", encoding="utf-8")


def _ignored(_repo: Repo, top: Path) -> None:
    (top / f"{ODD}.log").write_bytes(b"\0log")
    (top / "build.log").mkdir()
    (top / "build.log" / "deep").write_text("deep", encoding="utf-8")
    (top / "build.log" / "deep").chmod(0o400)
    os.mkfifo(top / "pipe.log")
    (top / "build.log").chmod(0o555)


def _committed(repo: Repo, top: Path) -> None:
    (top / "new").write_text("new\n", encoding="utf-8")
    _ = repo.commit(at=top)
    (top / "new").write_text("newer\n", encoding="utf-8")
    _ = repo.git("commit", "-qa", "--amend", "-m", "Amended", at=top)


def _pushed(repo: Repo, top: Path) -> None:
    _ = repo.git("init", "-q", "--bare", "../remote.git")
    _ = repo.git("remote", "add", "origin", str(repo.top.parent / "remote.git"))
    (top / "pushed").write_text("pushed\n", encoding="utf-8")
    _ = repo.commit(at=top)
    _ = repo.git("push", "-q", "origin", "HEAD", at=top)


def _unpushed(repo: Repo, top: Path) -> None:
    _pushed(repo, top)
    (top / "unpushed").write_text("unpushed\n", encoding="utf-8")
    _ = repo.commit(at=top)


def _merged(repo: Repo, top: Path) -> None:
    (top / "merged").write_text("merged\n", encoding="utf-8")
    _ = repo.commit(at=top)
    _ = repo.git("merge", "-q", "--ff-only", "wk/t1-fix")


def _detached(repo: Repo, top: Path) -> None:
    _ = repo.git("checkout", "-q", "--detach", at=top)
    (top / "alone").write_text("alone\n", encoding="utf-8")
    _ = repo.commit(at=top)


def _conflicted(repo: Repo, top: Path) -> None:
    """A merge that stopped half way: three stages of a file, and MERGE_HEAD."""
    (top / "a").write_text("ours\n", encoding="utf-8")
    _ = repo.commit(at=top)
    (repo.top / "a").write_text("theirs\n", encoding="utf-8")
    _ = repo.commit()
    _ = repo.git("merge", "-q", "main", at=top, fails=True)
    assert "UU a" in repo.git("status", "--porcelain", at=top)


def _stashed_index(repo: Repo, top: Path) -> None:
    """Files that the index excepts from comparisons, and one that is only intended."""
    _ = repo.git("update-index", "--assume-unchanged", "a", at=top)
    (top / "a").write_text("unseen\n", encoding="utf-8")
    (top / "intended").write_text("intended\n", encoding="utf-8")
    _ = repo.git("add", "-N", "intended", at=top)


def _missing(repo: Repo, top: Path) -> None:
    _committed(repo, top)
    shutil.rmtree(top)


def _nested(repo: Repo, top: Path) -> None:
    """A repository of its own, with a commit that is nowhere else."""
    (top / "nested").mkdir()
    _ = repo.git("init", "-q", at=top / "nested")
    (top / "nested" / "x").write_text("x", encoding="utf-8")
    _ = repo.commit(at=top / "nested")
    (top / "nested" / "y").write_text("y", encoding="utf-8")
    _ = repo.git("init", "-q", "--bare", "bare", at=top)


def _submodule(repo: Repo, top: Path) -> None:
    other = repo.top.parent / "library"
    other.mkdir()
    _ = repo.git("init", "-q", at=other)
    (other / "lib").write_text("lib", encoding="utf-8")
    _ = repo.commit(at=other)
    _ = repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "library", at=top)
    _ = repo.commit("Add a submodule", at=top)
    (top / "library" / "mine").write_text("mine", encoding="utf-8")
    _ = repo.commit("Only here", at=top / "library")


def _sparse(repo: Repo, top: Path) -> None:
    _ = repo.git("sparse-checkout", "set", "--no-cone", "/a", at=top)
    assert not (top / "sub").exists()


def _pointers(repo: Repo, top: Path) -> None:
    """A pointer of Git LFS in place of the file, and line ends that git would change."""
    (top / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n*.txt text eol=crlf\n", encoding="utf-8")  # fmt: skip
    (top / "x.bin").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", encoding="utf-8")
    (top / "y.txt").write_bytes(b"one\ntwo\r\n")
    _ = repo.git("add", "-A", at=top)


def _read_only(_repo: Repo, top: Path) -> None:
    (top / "kept").mkdir()
    (top / "kept" / "file").write_text("file", encoding="utf-8")
    (top / "kept" / "file").chmod(0o444)
    (top / "kept").chmod(0o555)
    (top / "sub").chmod(0o500)


CLEAN = "nothing"
WAYS: dict[str, tuple[Way, str]] = {
    "clean": (_clean, CLEAN),
    "dirty": (_dirty, "uncommitted changes"),
    "untracked": (_untracked, "uncommitted changes"),
    "ignored": (_ignored, "ignored paths"),
    "committed": (_committed, "2 commits of"),
    "pushed": (_pushed, CLEAN),
    "unpushed": (_unpushed, "1 commit of"),
    "merged": (_merged, CLEAN),
    "detached": (_detached, "1 commit of"),
    "conflicted": (_conflicted, "uncommitted change"),
    "not compared": (_stashed_index, "git does not compare"),
    "missing": (_missing, "2 commits of"),
    "nested repository": (_nested, "uncommitted change"),
    "submodule": (_submodule, "uncommitted change"),
    "sparse": (_sparse, CLEAN),
    "pointers": (_pointers, "uncommitted changes"),
    "read-only": (_read_only, "uncommitted change"),
}
"""How it is made so, and what a removal without `--discard` says that would be lost."""


def _locked(repo: Repo, top: Path) -> None:
    _ = repo.git("worktree", "lock", "--reason", "in use", str(top))


def _moved(repo: Repo, top: Path) -> None:
    _ = repo.git("worktree", "move", str(top), str(top.with_name("moved")))


def _linked(_repo: Repo, top: Path) -> None:
    top.rename(top.with_name("real"))
    top.symlink_to(top.with_name("real"))


def _replaced(_repo: Repo, top: Path) -> None:
    shutil.rmtree(top)
    top.mkdir()
    (top / "mine").write_text("mine", encoding="utf-8")


def _index_lock(repo: Repo, top: Path) -> None:
    (repo.top / ".git" / "worktrees" / top.name / "index.lock").touch()


def _foreign(repo: Repo, top: Path) -> None:
    """A worktree of another repository lies in it."""
    other = repo.top.parent / "other"
    _ = repo.git("clone", "-q", str(repo.top), str(other))
    _ = repo.git("worktree", "add", "-q", "--detach", str(top / "foreign"), at=other)


def _with_worktrees(repo: Repo, top: Path) -> None:
    _ = repo.git("clone", "-q", str(repo.top), str(top / "inner"))
    _ = repo.git("worktree", "add", "-q", "--detach", str(repo.top.parent / "outer"), at=top / "inner")


def _large(_repo: Repo, top: Path) -> None:
    (top / "large.log").write_bytes(b"x" * (2 * 1024 * 1024))
    (top / "small.log").write_bytes(b"x")


REFUSED: dict[str, tuple[Way, str]] = {
    "locked": (_locked, "It is locked (in use)"),
    "moved": (_moved, "is checked out in"),
    "linked": (_linked, "is a symbolic link"),
    "replaced": (_replaced, "is not the worktree that was made"),
    "index.lock": (_index_lock, "index.lock"),
    "worktree of another repository": (_foreign, "'foreign' is a worktree of another repository"),
    "repository with worktrees": (_with_worktrees, "'inner' has worktrees of its own elsewhere"),
    "too large": (_large, "large.log (2.0 MiB), small.log (1 B)"),
}
"""What is refused by name, `--discard` or not."""


class World:
    """A task that is done, with a worktree, in a real database and a real repository."""

    def __init__(self, verbs: Verbs, root: Path) -> None:
        self.verbs = verbs
        self.repo = new_repo(root)
        self.tree, self.top = self.repo.made()
        tree = replace(self.tree, state=WorktreeState.MADE, made=GitWorkspace().identify(self.tree.path))
        spec = make_spec(cwd=tree.path, checkout=tree.path, worktree=tree)
        task = make_task(OWNER, spec=spec, state=TaskState.DONE, ended_at=NOON - timedelta(days=9))
        _ = verbs.store.transact("test", lambda tx: add(tx, task))

    @property
    def keeper(self) -> Keeper:
        return Keeper(
            store=self.verbs.store,
            clock=self.verbs.clock,
            worktrees=self.repo.worktrees,
            salvages=self.repo.salvages,
        )

    @property
    def remover(self) -> Remover:
        return Remover(
            store=self.verbs.store,
            clock=self.verbs.clock,
            runtime=self.verbs.runtime,
            machine="m1",
            keeper=self.keeper,
        )

    @property
    def undoer(self) -> Undoer:
        return Undoer(
            store=self.verbs.store,
            clock=self.verbs.clock,
            salvages=self.repo.salvages,
            workspace=GitWorkspace(),
            keep_days=30,
        )

    def task(self) -> Task | None:
        try:
            return self.verbs.store.read(lambda tx: tx.tasks.get(OWNER))
        except NoSuchTask:
            return None

    def remove(self, verb: str, *, discard: bool) -> str:
        """Let a verb remove it; returns why it did not."""
        try:
            if verb == "rm":
                _ = self.remover.remove(OWNER, by="ada", discard=discard)
            elif verb == "clean":
                _ = self.keeper.remove(OWNER, by="ada", discard=discard)
            else:
                return self._prune()
        except (NotRemovable, WorktreeNeeded) as refusal:
            return str(refusal)
        return ""

    def _prune(self) -> str:
        retention = Retention(
            store=self.verbs.store, remover=self.remover, keep_tasks_days=1, keep_history_days=90, ago=lambda age: NOON - age
        )  # fmt: skip
        swept = retention.tasks(by="ada")
        return "; ".join(str(refusal) for _, refusal in swept.refused)

    def look(self) -> dict[str, object]:
        return fingerprint(self.repo, self.tree)


@pytest.fixture
def world(verbs: Verbs, tmp_path: Path) -> World:
    root = tmp_path / "git"
    root.mkdir()
    return World(verbs, root)


def _reachable(world: World, before: dict[str, object], salvage: Salvage) -> None:
    """Every byte of every file is in the salvage: under its reference, or in its archive."""
    repo = world.repo
    archive = (repo.root.parent / "salvage" / salvage.id / "files.tar").read_bytes()
    assert (repo.root.parent / "salvage" / salvage.id / "files.tar").stat().st_mode & 0o777 == 0o600
    _ = repo.git("reflog", "expire", "--expire=now", "--all")
    _ = repo.git("gc", "-q", "--prune=now")
    asked = ["git", "cat-file", "--batch-check", "--batch-all-objects"]
    listed = subprocess.run(asked, check=True, capture_output=True, cwd=repo.top, env=repo.environ).stdout.split(b"\n")
    objects = {line.split()[0].decode() for line in listed if line}
    for name, entry in before.items():
        if name.startswith("file ") and isinstance(entry, tuple) and isinstance(entry[1], bytes) and entry[0] != "link":
            asked = ["git", "hash-object", "--no-filters", "--stdin"]
            done = subprocess.run(
                asked, input=entry[1], check=True, capture_output=True, cwd=repo.top, env=repo.environ
            )
            assert done.stdout.decode().strip() in objects or entry[1] in archive, name


@pytest.mark.parametrize("verb", ["rm", "clean", "prune"])
@pytest.mark.parametrize("way", WAYS)
def test_every_byte_comes_back(world: World, way: str, verb: str) -> None:
    """Without `--discard` what is nowhere else stays, and is named. With it all goes, all is kept, and all comes back."""
    make, lost = WAYS[way]
    make(world.repo, world.top)
    before = world.look()
    problem = world.remove(verb, discard=False)
    if lost != CLEAN:
        assert lost in problem
        assert world.look() == before
        if verb == "prune":
            return  # it has no `--discard`
        assert world.remove(verb, discard=True) == ""
    else:
        assert problem == ""
    assert not os.path.lexists(world.top)
    assert world.repo.names()[1] == (["elsewhere", "main"] if way == "dirty" else ["main"])
    task = world.task()
    assert (task is None) == (verb != "clean")
    (salvage,) = world.repo.salvages.records()
    assert salvage.state is SalvageState.GONE
    _reachable(world, before, salvage)
    undone = world.undoer.undo(OWNER if verb == "clean" else None, by="ada")
    after = world.look()
    assert {name for name in before | after if before.get(name) != after.get(name)} == set()
    assert undone.left == ""
    assert (undone.task is None) == (verb != "clean")
    assert list(world.repo.salvages.records()) == []
    assert world.repo.git("for-each-ref", "refs/watchkeeper") == ""
    task = world.task()
    if task is not None and task.spec.worktree is not None and way != "missing":
        assert task.spec.worktree.state is WorktreeState.MADE
        assert task.spec.worktree.made is not None
        assert task.spec.worktree.made.inode == world.top.stat().st_ino
    with pytest.raises(NothingToUndo):
        _ = world.undoer.undo(None, by="ada")


@pytest.mark.parametrize("verb", ["rm", "clean", "prune"])
@pytest.mark.parametrize("way", REFUSED)
def test_what_cannot_be_kept_is_refused_by_name(world: World, way: str, verb: str) -> None:
    make, says = REFUSED[way]
    make(world.repo, world.top)
    before = world.look()
    problem = world.remove(verb, discard=verb != "prune")
    if verb == "prune" and way in {"too large", "worktree of another repository", "repository with worktrees"}:
        assert "its worktree holds" in problem, "that it holds what is nowhere else is said first"
    else:
        assert says.lower() in problem.lower()
    assert world.look() == before
    assert world.task() is not None
    assert list(world.repo.salvages.records()) == []
    assert world.repo.git("for-each-ref", "refs/watchkeeper") == ""


def _place(world: World) -> None:
    world.top.mkdir()
    (world.top / "mine").write_text("mine", encoding="utf-8")


def _branch(world: World) -> None:
    _ = world.repo.git("branch", world.tree.branch)


def _checked_out(world: World) -> None:
    _ = world.repo.git("worktree", "add", "-q", "-b", world.tree.branch, "../mine")


@pytest.mark.parametrize(
    ("take", "says"),
    [
        (_place, "Something else is in its place now"),
        (_branch, "was made since"),
        (_checked_out, "is checked out in"),
    ],
    ids=["place", "branch", "checked out"],
)
def test_what_is_taken_is_not_replaced(world: World, take: Callable[[World], None], says: str) -> None:
    """And what was kept is still kept: once the way is free it comes back."""
    _untracked(world.repo, world.top)
    before = world.look()
    assert world.remove("clean", discard=True) == ""
    take(world)
    taken = world.look()
    with pytest.raises(NotBroughtBack, match=says):
        _ = world.undoer.undo(OWNER, by="ada")
    assert world.look() == taken
    shutil.rmtree(world.top, ignore_errors=True)
    _ = world.repo.git("worktree", "prune")
    _ = world.repo.git("worktree", "remove", "../mine", fails=True)
    _ = world.repo.git("branch", "-D", world.tree.branch, fails=True)
    _ = world.undoer.undo(OWNER, by="ada")
    assert world.look() == before


def test_what_something_still_writes_is_not_removed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is written after it was kept is found by the second look."""
    from watchkeeper.workspaces import salvage

    def late(*given: object, **named: object) -> None:
        (world.top / "a").write_text("late\n", encoding="utf-8")
        real(*given, **named)  # pyright: ignore[reportArgumentType] - passed through

    real = salvage.archive.write
    monkeypatch.setattr(salvage.archive, "write", late)
    assert "Something changed while it was kept" in world.remove("clean", discard=True)
    assert (world.top / "a").read_text(encoding="utf-8") == "late\n"
    assert list(world.repo.salvages.records()) == []
    assert world.repo.git("for-each-ref", "refs/watchkeeper") == ""


def test_retention_lets_go_of_what_is_old(world: World) -> None:
    """And of nothing that is not."""
    _untracked(world.repo, world.top)
    assert world.remove("clean", discard=True) == ""
    (kept,) = world.undoer.kept()
    assert kept.until == kept.salvage.at + timedelta(days=30)
    at = kept.salvage.at
    assert world.undoer.let_go(lambda age: at - age) == ([], [])
    assert world.undoer.let_go(lambda age: at + timedelta(days=31) - age, dry_run=True)[0] == [kept.salvage]
    assert world.repo.git("for-each-ref", "refs/watchkeeper") != ""
    assert world.undoer.let_go(lambda age: at + timedelta(days=31) - age) == ([kept.salvage], [])
    assert world.repo.git("for-each-ref", "refs/watchkeeper") == ""
    assert not list((world.repo.root.parent / "salvage").glob("t1-*"))


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("mirror", "true", ("origin",)),
        ("push", "+refs/*:refs/*", ("origin",)),
        ("push", "refs/heads/*:refs/heads/*", ()),
    ],
)
def test_a_remote_that_takes_all_references_is_named(
    world: World, key: str, value: str, found: tuple[str, ...]
) -> None:
    _ = world.repo.git("remote", "add", "origin", "/nowhere")
    _ = world.repo.git("config", f"remote.origin.{key}", value)
    salvage = world.keeper.remove(OWNER, by="ada")
    assert salvage is not None
    assert salvage.pushed_by == found


def test_an_ordinary_push_leaves_the_references_out(world: World) -> None:
    _committed(world.repo, world.top)
    assert world.remove("clean", discard=True) == ""
    _ = world.repo.git("init", "-q", "--bare", "../remote.git")
    _ = world.repo.git("push", "-q", "--all", str(world.repo.top.parent / "remote.git"))
    assert world.repo.git("for-each-ref", "refs/watchkeeper", at=world.repo.top.parent / "remote.git") == ""


def _refuse(monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    monkeypatch.setenv("WATCHKEEPER_CRASH_AT", point)
    monkeypatch.setenv("WATCHKEEPER_CRASH_ERRNO", str(errno.ENOSPC))


@pytest.mark.parametrize(
    "point", ["record", "archive", "commit", "aside", "delete", "untell", "branch"], ids=lambda name: name
)
def test_a_full_disk_loses_nothing(world: World, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    """It is said in one sentence. Once there is room, the same command completes the removal, and all comes back."""
    for way in (_untracked, _committed, _ignored):
        way(world.repo, world.top)
    before = world.look()
    _refuse(monkeypatch, f"salvage.{point}.before")
    assert "was not removed: No space left on device" in world.remove("clean", discard=True)
    if point in {"record", "archive", "commit", "aside"}:
        assert world.look() == before
    monkeypatch.delenv("WATCHKEEPER_CRASH_AT")
    assert world.remove("clean", discard=True) == ""
    assert not os.path.lexists(world.top)
    _ = world.undoer.undo(None, by="ada")
    assert world.look() == before


@pytest.mark.parametrize("point", ["record", "stage", "restore_branch", "restore_log", "restore_files", "restore_own"])
def test_a_full_disk_keeps_what_is_kept(world: World, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    """An undoing that had no room is completed by the same command."""
    for way in (_untracked, _committed, _ignored):
        way(world.repo, world.top)
    before = world.look()
    assert world.remove("clean", discard=True) == ""
    _refuse(monkeypatch, f"salvage.{point}.before")
    with pytest.raises(NotBroughtBack, match="No space left on device"):
        _ = world.undoer.undo(OWNER, by="ada")
    monkeypatch.delenv("WATCHKEEPER_CRASH_AT")
    _ = world.undoer.undo(OWNER, by="ada")
    assert world.look() == before
