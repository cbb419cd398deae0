"""The worktrees of tasks, with real git: which there are, what keeps each, and what is on record before and after one is removed."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from app.stage import Verbs
from support.records import add, make_spec, make_task, reserve, settle

from watchkeeper.app.record import apply_run, apply_task
from watchkeeper.app.worktrees import Keeper, WorktreeNeeded
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import Proof, TaskState
from watchkeeper.domain.run_events import HeldBack
from watchkeeper.domain.task import RunHeld
from watchkeeper.domain.worktree import Worktree, WorktreeState
from watchkeeper.errors import NoSuchTask, Refused
from watchkeeper.ports.salvages import Saved
from watchkeeper.ports.store import Tx
from watchkeeper.workspaces.salvage import GitSalvages
from watchkeeper.workspaces.worktrees import GitWorktrees


class Repo:
    """A repository with a commit, and a place for worktrees."""

    def __init__(self, root: Path) -> None:
        self.top, self.root = root / "repo", root / "trees"
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(root)}
        self.top.mkdir()
        self.git("init", "-q", "-b", "main")
        (self.top / "a").write_text("a\n", encoding="utf-8")
        self.git("add", "a")
        self.git("commit", "-qm", "Begin")
        self.worktrees = GitWorktrees(self.root, self.environ)
        self.salvages = GitSalvages(self.root, root / "salvage", 1 << 20, self.environ)

    def git(self, *arguments: str) -> str:
        """What git prints."""
        command = ["git", "-C", str(self.top), "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=self.environ).stdout

    def plan(self, task_id: str) -> Worktree:
        """A planned worktree."""
        start = self.worktrees.start(str(self.top), None, f"wk/{task_id}")
        return Worktree(
            path=self.worktrees.place_for(task_id), branch=f"wk/{task_id}", base=start.base, base_name=start.base_name,
            source=start.source, repository=start.repository, identity=start.identity,
        )  # fmt: skip


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path)


def keeper(verbs: Verbs, repo: Repo, machine: str = "") -> Keeper:
    return Keeper(
        store=verbs.store, clock=verbs.clock, worktrees=repo.worktrees, salvages=repo.salvages, machine=machine
    )


def made(
    verbs: Verbs, repo: Repo, task_id: str = "t1", state: TaskState = TaskState.DONE, machine: str | None = None
) -> Worktree:
    """A task that stands so, with a worktree that was made."""
    plan = repo.plan(task_id)
    found = repo.worktrees.make(plan, task_id)
    assert found.problem == ""
    tree = replace(plan, state=WorktreeState.MADE, made=found.place)
    given(verbs, tree, task_id, state, machine)
    return tree


def given(
    verbs: Verbs,
    tree: Worktree | None,
    task_id: str = "t1",
    state: TaskState = TaskState.DONE,
    machine: str | None = None,
) -> None:
    ended = verbs.clock.now() if state in {TaskState.DONE, TaskState.FAILED, TaskState.STOPPED} else None
    task = make_task(task_id, spec=make_spec(worktree=tree, machine=machine), state=state, ended_at=ended)
    _ = verbs.store.transact("test", lambda tx: add(tx, task))


def journal(verbs: Verbs) -> list[tuple[str, str | None, dict[str, object]]]:
    """What was said of worktrees."""
    entries = verbs.store.read(lambda tx: tx.journal.after(0, 100))
    return [(each.kind, each.task_id, dict(each.data)) for each in entries]


def state(verbs: Verbs, task_id: str = "t1") -> WorktreeState:
    tree = verbs.task(task_id).spec.worktree
    assert tree is not None
    return tree.state


def test_one_that_is_not_needed_is_removed_with_its_branch(verbs: Verbs, repo: Repo) -> None:
    """On record, with who did it; a second time there is none."""
    tree = made(verbs, repo)
    keeper(verbs, repo).require("t1")
    assert Path(tree.path).is_dir() and state(verbs) is WorktreeState.MADE, "to ask changes nothing"
    assert keeper(verbs, repo).remove("t1", by="ada") is not None
    assert not Path(tree.path).exists()
    assert repo.git("branch", "--format=%(refname:short)").split() == ["main"]
    assert state(verbs) is WorktreeState.REMOVED
    assert [data["became"] for *_, data in journal(verbs)] == ["removing", "removed"]
    assert {data["by"] for *_, data in journal(verbs)} == {"ada"}
    assert keeper(verbs, repo).remove("t1", by="ada") is None
    assert keeper(verbs, repo).rows() == []
    with pytest.raises(WorktreeNeeded, match=r"^Task t1 has no worktree\.$"):
        keeper(verbs, repo).require("t1")


def test_what_would_be_lost_keeps_it(verbs: Verbs, repo: Repo) -> None:
    """Every reason is named, as a sentence of its own and as the rest of one; nothing is recorded."""
    tree = made(verbs, repo)
    Path(tree.path, "new").write_text("new\n", encoding="utf-8")
    detail = f"1 uncommitted change in {tree.path} (new)"
    for act in (lambda: keeper(verbs, repo).require("t1"), lambda: keeper(verbs, repo).remove("t1", by="ada")):
        with pytest.raises(WorktreeNeeded) as refused:
            act()
        assert str(refused.value) == f"The worktree of wk/t1 stays, because it holds {detail}."
        assert refused.value.because == f"its worktree holds {detail}"
        assert refused.value.hint == (
            "First commit or delete the changes; or --discard removes it, and `wk undo` brings it back."
        )
    assert state(verbs) is WorktreeState.MADE
    assert journal(verbs) == []


def test_one_that_cannot_be_looked_at_stays(verbs: Verbs, repo: Repo) -> None:
    tree = made(verbs, repo)
    repo.top.rename(repo.top.parent / "away")
    with pytest.raises(WorktreeNeeded) as refused:
        keeper(verbs, repo).require("t1")
    assert "stays, because" not in str(refused.value)
    assert refused.value.because == "", "its message says all"
    assert refused.value.hint == f"Look at {tree.path}; --keep-worktree leaves it as it is."


def test_a_removal_that_git_refuses_is_on_record(verbs: Verbs, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worktree counts as made again, with the reason."""
    made(verbs, repo)
    monkeypatch.setattr(repo.salvages, "remove", lambda _: Saved(problem="It is locked."))
    with pytest.raises(WorktreeNeeded) as refused:
        keeper(verbs, repo).remove("t1", by="ada")
    assert (str(refused.value), refused.value.hint) == (
        "It is locked.",
        "Nothing is lost: see to that, then type it again.",
    )
    assert state(verbs) is WorktreeState.MADE
    assert journal(verbs)[-1] == (
        "task.worktree_removal",
        "t1",
        {"state": "done", "became": "made", "by": "ada", "reason": "It is locked."},
    )


def test_it_stays_until_its_task_has_ended(verbs: Verbs, repo: Repo) -> None:
    tree = made(verbs, repo, state=TaskState.NEEDS_INPUT)
    with pytest.raises(WorktreeNeeded, match=r"^Task t1 has not ended, so its worktree stays\.$") as refused:
        keeper(verbs, repo).remove("t1", by="ada")
    assert refused.value.hint == "`wk stop t1` ends it."
    assert Path(tree.path).is_dir()
    assert keeper(verbs, repo).row("t1").needs == ("its task is needs input",)


def test_it_stays_while_an_agent_may_live(verbs: Verbs, repo: Repo) -> None:
    """A person's word has settled its run, and that proves nothing."""
    tree = replace(repo.plan("t1"), state=WorktreeState.MADE)
    assert repo.worktrees.make(tree, "t1").problem == ""
    run, at = verbs.launched(worktree=tree), verbs.clock.now()

    def hold(tx: Tx) -> None:
        _ = apply_run(tx, run, HeldBack(reason="It is missing."), at)
        _ = apply_task(tx, tx.tasks.get("t1"), RunHeld(reason="It is missing.", kind=FailureKind.UNKNOWN, at=at), at)

    verbs.store.transact("test", hold)
    _ = verbs.stop("t1")
    assert verbs.run().proof is not Proof.PROVEN
    said = "It is not proven that run 1 of task t1 has ended completely, so its worktree stays."
    with pytest.raises(WorktreeNeeded) as refused:
        keeper(verbs, repo).remove("t1", by="ada")
    assert str(refused.value) == said
    assert refused.value.hint == "Look for its processes; --keep-worktree leaves the worktree as it is."
    assert Path(tree.path).is_dir()


def test_only_its_own_machine_removes_it(verbs: Verbs, repo: Repo) -> None:
    """And lists it."""
    made(verbs, repo, machine="m7")
    with pytest.raises(WorktreeNeeded, match=r"^The worktree of task t1 is on another machine\.$") as refused:
        keeper(verbs, repo, "m8").remove("t1", by="ada")
    assert refused.value.hint == "Type it there, or use --keep-worktree."
    assert [row.task for row in keeper(verbs, repo, "m8").rows()] == [None], "only a directory that is found here"
    (row,) = keeper(verbs, repo, "m7").rows()
    assert (row.task_id, row.task) == ("t1", verbs.task())
    assert keeper(verbs, repo, "m7").remove("t1", by="ada")


def test_a_making_that_was_cut_off_is_completed_before_the_removal(verbs: Verbs, repo: Repo) -> None:
    """The plan and a reserved run are all that is on record."""
    tree = repo.plan("t1")
    repo.git("branch", tree.branch)
    given(verbs, tree, "t2")
    assert keeper(verbs, repo).remove("t2", by="ada") is None, "without a run nothing was begun"
    _ = verbs.store.transact(
        "test", lambda tx: settle(tx, reserve(tx, add(tx, make_task("t1", spec=make_spec(worktree=tree)))))
    )
    with pytest.raises(WorktreeNeeded, match="was made since the task was handed over") as refused:
        keeper(verbs, repo).remove("t1", by="ada")
    assert refused.value.hint == f"Look at {tree.path}; --keep-worktree leaves it as it is."
    assert state(verbs) is WorktreeState.PLANNED
    repo.git("branch", "-D", tree.branch)
    assert keeper(verbs, repo).remove("t1", by="ada") is not None
    assert state(verbs) is WorktreeState.REMOVED
    assert not Path(tree.path).exists()


def test_a_worktree_outlives_the_record_of_its_task(verbs: Verbs, repo: Repo) -> None:
    """It is listed after those of known tasks, shown, kept while it holds something, and removed."""
    first, second = made(verbs, repo, "t1"), repo.plan("t0")
    assert repo.worktrees.make(second, "t0").problem == ""
    rows = keeper(verbs, repo).rows(sized=True)
    assert [(row.task_id, row.task) for row in rows] == [("t1", verbs.task()), ("t0", None)]
    assert [row.tree.path for row in rows] == [first.path, second.path]
    assert all(row.seen.size_bytes for row in rows)
    assert [row.seen.size_bytes for row in keeper(verbs, repo).rows()] == [None, None]
    Path(second.path, "new").touch()
    row = keeper(verbs, repo).row("t0")
    assert (row.task, row.tree.path, row.seen.changed) == (None, second.path, ("new",))
    assert row.seen.size_bytes and row.needs
    for act in (keeper(verbs, repo).require_kept, lambda task_id: keeper(verbs, repo).remove_kept(task_id, by="ada")):
        with pytest.raises(WorktreeNeeded, match="1 uncommitted change"):
            act("t0")
    Path(second.path, "new").unlink()
    assert keeper(verbs, repo).require_kept("t0").needs == ()
    keeper(verbs, repo).remove_kept("t0", by="ada")
    assert not Path(second.path).exists() and Path(first.path).is_dir()
    assert journal(verbs) == [("worktree.removed", "t0", {"by": "ada", "path": second.path})]
    with pytest.raises(NoSuchTask):
        keeper(verbs, repo).row("t0")


def test_a_kept_one_that_git_refuses_to_remove_is_not_on_record(
    verbs: Verbs, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert repo.worktrees.make(repo.plan("t0"), "t0").problem == ""
    monkeypatch.setattr(repo.salvages, "remove", lambda _: Saved(problem="It is locked."))
    with pytest.raises(WorktreeNeeded, match=r"^It is locked\.$") as refused:
        keeper(verbs, repo).remove_kept("t0", by="ada")
    assert refused.value.hint == "Nothing is lost: see to that, then type it again."
    assert journal(verbs) == []


def test_a_task_without_one_has_no_row(verbs: Verbs, repo: Repo) -> None:
    given(verbs, None)
    with pytest.raises(Refused, match=r"^Task t1 has no worktree\.$") as refused:
        keeper(verbs, repo).row("t1")
    assert refused.value.hint == "`wk run --worktree` makes one for a new task."
    assert keeper(verbs, repo).remove("t1", by="ada") is None
    assert keeper(verbs, repo).rows() == []
    tree = made(verbs, repo, "t2")
    row = keeper(verbs, repo).row("t2")
    assert (row.task, row.tree, bool(row.seen.size_bytes), row.needs) == (verbs.task("t2"), tree, True, ())
