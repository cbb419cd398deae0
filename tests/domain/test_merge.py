"""The steps of a merge, and the branch that it goes into."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchkeeper.domain.merge import Merge, MergeState, described, follows, target_of, unfinished
from watchkeeper.domain.model import FINAL_TASK_STATES, Task, TaskState
from watchkeeper.domain.samples import LATER, a_merge, a_spec, a_task, a_worktree
from watchkeeper.domain.task import MergeStep, decide_task
from watchkeeper.domain.worktree import WorktreeSeen, advice, obstacles
from watchkeeper.errors import Refused

M = MergeState
ENDS = frozenset({M.MERGED, M.ENDED})


def _task(state: TaskState, merge: Merge | None = None) -> Task:
    return a_task(state, spec=replace(a_spec(), worktree=replace(a_worktree(), merge=merge)))


def _step(became: MergeState) -> MergeStep:
    return MergeStep(became=became, merge=a_merge(became), by="ada", at=LATER)


@given(steps=st.lists(st.sampled_from(tuple(MergeState)), max_size=12))
def test_whatever_steps_come_the_record_tells_how_the_last_merge_stands(steps: list[MergeState]) -> None:
    """A branch is called merged only after a step `merged`, which only follows on a merge that began; a refused step changes nothing."""
    task, before, merged = _task(TaskState.DONE), None, False
    for became in steps:
        try:
            task = decide_task(task, _step(became)).task
        except Refused:
            assert not follows(became, before)
            continue
        assert follows(became, before)
        before = None if became in ENDS else became
        merged = merged or became is M.MERGED
        tree = task.spec.worktree
        assert tree is not None
        assert (None if tree.merge is None else tree.merge.state) is before
        assert (tree.merged is not None) is merged


@pytest.mark.parametrize("state", TaskState)
def test_a_merge_begins_only_when_the_task_has_ended_and_ends_whatever_the_task_does(state: TaskState) -> None:
    if state in FINAL_TASK_STATES:
        assert decide_task(_task(state), _step(M.BEGUN)).task.state is state
    else:
        with pytest.raises(Refused, match="has not ended"):
            decide_task(_task(state), _step(M.BEGUN))
    for became in ENDS:
        assert decide_task(_task(state, a_merge(M.LANDING)), _step(became)).task.state is state


def test_a_merge_that_has_not_ended_keeps_the_worktree() -> None:
    tree, seen = replace(a_worktree(), merge=a_merge(M.CONFLICTS)), WorktreeSeen(present=True)
    assert obstacles(tree, seen) == ("a merge into main that has not ended",)
    assert "--abort" in advice(tree, seen)


@pytest.mark.parametrize("state", [M.BEGUN, M.CONFLICTS, M.LANDING])
def test_what_has_not_ended_says_which_command_ends_it(state: MergeState) -> None:
    what, hint = unfinished("t1", a_merge(state))
    assert "into main" in what
    assert "`wk merge t1" in hint


def test_a_merge_is_described_by_branch_and_commit() -> None:
    tree = decide_task(_task(TaskState.DONE, a_merge(M.LANDING)), _step(M.MERGED)).task.spec.worktree
    assert tree is not None
    assert tree.merged is not None
    assert described(tree.merged) == "merged into main at 3333333333"


@pytest.mark.parametrize(
    ("wished", "base_name", "current", "expected"),
    [
        ("next", "main", "main", "next"),
        (None, "main", "other", "main"),
        (None, "v1.0", "other", "other"),
        (None, "v1.0", None, None),
    ],
)
def test_the_branch_to_merge_into(
    wished: str | None, base_name: str, current: str | None, expected: str | None
) -> None:
    branches = frozenset({"main", "other"})
    assert target_of(wished=wished, base_name=base_name, current=current, branches=branches) == expected
