"""What is recorded of a task's worktree, whatever else the task does."""

from dataclasses import replace
from datetime import datetime

from watchkeeper.domain.merge import Merge, Merged, MergeState, follows
from watchkeeper.domain.task_record import FINAL_TASK_STATES, Task, TaskSpec
from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.domain.worktree import WorktreeState
from watchkeeper.errors import Refused

_BEFORE: dict[WorktreeState, frozenset[WorktreeState]] = {
    WorktreeState.REMOVING: frozenset({WorktreeState.PLANNED, WorktreeState.MADE, WorktreeState.REMOVING}),
    WorktreeState.REMOVED: frozenset({WorktreeState.REMOVING}),
    WorktreeState.MADE: frozenset({WorktreeState.REMOVING}),
}
"""By what a worktree becomes, what it must be before."""


def worktree_made(task: Task, place: WorkingDirectory, at: datetime) -> Task:
    """Record that the worktree was made: a fact, whatever became of the task meanwhile. The first record stays.

    Raises:
        Refused: the task has none.
    """
    tree = task.spec.worktree
    if tree is None:
        raise Refused("The task has no worktree.")
    if tree.state is not WorktreeState.PLANNED:
        return task
    made = replace(tree, state=WorktreeState.MADE, made=place)
    return replace(task, spec=replace(task.spec, worktree=made), updated_at=at)


def worktree_removal(task: Task, became: WorktreeState, at: datetime) -> Task:
    """Record a step of its removal. Raises Refused for a step that does not follow from the last one."""
    tree = task.spec.worktree
    if tree is None or tree.state not in _BEFORE.get(became, frozenset()):
        stands = "not there" if tree is None else tree.state.value
        raise Refused(f"The worktree of task {task.id} is {stands}, so it cannot become {became.value}.")
    if tree.state is became:
        return task
    return replace(task, spec=replace(task.spec, worktree=replace(tree, state=became)), updated_at=at)


def worktree_restored(task: Task, place: WorkingDirectory | None, at: datetime) -> Task:
    """Record that it is there again, in a directory that is another one to the system. Raises Refused: the task has none, or its is planned only."""
    tree = task.spec.worktree
    if tree is None or tree.state is WorktreeState.PLANNED:
        raise Refused(f"The worktree of task {task.id} was never removed.")
    back = replace(tree, state=WorktreeState.MADE, made=place if place is not None else tree.made)
    return replace(task, spec=replace(task.spec, worktree=back), updated_at=at)


def in_a_new_worktree(task: Task) -> TaskSpec:
    """What was asked for, planned in a new worktree that starts where the last one started. The last one stays as it is.

    Raises:
        Refused: the task has none.
    """
    spec, tree = task.spec, task.spec.worktree
    if tree is None:
        raise Refused("The task has no worktree.")
    last, number = f"-{task.runs}", f"-{task.runs + 1}"
    path, branch = (f"{name.removesuffix(last)}{number}" for name in (tree.path, tree.branch))
    planned = replace(tree, path=path, branch=branch, state=WorktreeState.PLANNED, made=None, merge=None, merged=None)
    return replace(spec, cwd=f"{path}{spec.cwd.removeprefix(tree.path)}", checkout=path, worktree=planned)


def merge_step(task: Task, became: MergeState, after: Merge, at: datetime) -> Task:
    """Record a step of the merge of its branch, which `after` describes.

    Raises:
        Refused: the step does not follow from the last one, or the task may still change its branch.
    """
    tree = task.spec.worktree
    before = None if tree is None or tree.merge is None else tree.merge.state
    if tree is None or not follows(became, before):
        stands = "not begun" if before is None else before.value
        raise Refused(f"The merge of task {task.id} is {stands}, so it cannot become {became.value}.")
    if became is MergeState.BEGUN and before is None and task.state not in FINAL_TASK_STATES:
        raise Refused(f"Task {task.id} has not ended, so its branch is not merged.")
    merge = None if became in {MergeState.MERGED, MergeState.ENDED} else after
    merged = tree.merged
    if became is MergeState.MERGED:
        merged = Merged(into=after.into, source=after.source, tip=after.tip, by=after.by)
    return replace(task, spec=replace(task.spec, worktree=replace(tree, merge=merge, merged=merged)), updated_at=at)


def refuse_removed(task: Task) -> None:
    """Raises Refused for a task whose worktree was removed: nothing falls back to another directory."""
    tree = task.spec.worktree
    if tree is not None and tree.state in {WorktreeState.REMOVING, WorktreeState.REMOVED}:
        raise Refused(
            f"The worktree of task {task.id} was removed, and it works nowhere else.",
            hint=f"`wk undo {task.id}` brings it back; `wk run` hands over a new task.",
        )
