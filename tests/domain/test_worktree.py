"""What stands against the removal of a worktree, and which worktree comes after it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from watchkeeper.domain.merge import Merge, Merged, MergeState
from watchkeeper.domain.model import TaskState
from watchkeeper.domain.salvage import Salvage, SalvageState, Sized, expired, too_large
from watchkeeper.domain.samples import LATER, a_spec, a_task, a_worktree
from watchkeeper.domain.task_worktree import in_a_new_worktree
from watchkeeper.domain.worktree import WorktreeSeen, WorktreeState, obstacles


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (1, "1 uncommitted change in {} (f0)"),
        (3, "3 uncommitted changes in {} (f0, f1, f2)"),
        (5, "5 uncommitted changes in {} (f0, f1, f2 and 2 more)"),
    ],
)
def test_changes_that_a_removal_would_lose_are_counted_and_three_are_named(count: int, told: str) -> None:
    tree = a_worktree()
    seen = WorktreeSeen(present=True, changed=tuple(f"f{number}" for number in range(count)))
    assert obstacles(tree, seen) == (told.format(tree.path),)


def test_a_new_worktree_begins_without_the_merges_of_the_last_one() -> None:
    begun = Merge(state=MergeState.CONFLICTS, into="main", source="a" * 40, by="ada")
    ended = Merged(into="main", source="a" * 40, tip="b" * 40, by="ada")
    last = replace(a_worktree(WorktreeState.MADE), merge=begun, merged=ended)
    planned = in_a_new_worktree(
        replace(a_task(TaskState.QUEUED), spec=replace(a_spec(), worktree=last), runs=1)
    ).worktree
    assert planned is not None
    assert (planned.state, planned.made, planned.merge, planned.merged) == (WorktreeState.PLANNED, None, None, None)
    assert planned.path != last.path
    assert planned.branch != last.branch


def test_files_that_are_too_large_to_keep_are_named_with_their_sizes() -> None:
    found = [Sized(path="small", size=1024), Sized(path="large", size=3 * 1024 * 1024)]
    told = too_large(found, 2 * 1024 * 1024)
    assert "large (3.0 MiB), small (1.0 KiB)" in told
    assert too_large(found, sum(each.size for each in found)) == ""


def test_a_salvage_expires_only_after_its_removal_is_complete_and_its_time_has_passed() -> None:
    def kept(name: str, state: SalvageState, before_s: float) -> Salvage:
        at = LATER - timedelta(seconds=before_s)
        return Salvage(id=name, task_id="t1", title="", tree=a_worktree(), at=at, by="ada", state=state)

    others = [state for state in SalvageState if state is not SalvageState.GONE]
    records = [kept("old", SalvageState.GONE, 1), kept("just", SalvageState.GONE, 0)]
    records += [kept(state.value, state, 1) for state in others]
    assert [each.id for each in expired(records, LATER)] == ["old"]
