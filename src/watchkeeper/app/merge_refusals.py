"""Why a branch is not merged, in a sentence."""

from watchkeeper.domain.merge import Merge
from watchkeeper.domain.model import Task
from watchkeeper.domain.worktree import Worktree, WorktreeSeen
from watchkeeper.errors import Refused

NAMED = 5
"""So many files are named."""


class MergeConflicts(Refused):
    """A person has to resolve conflicts; the branch is as it was."""

    def __init__(self, task_id: str, into: str, files: tuple[str, ...], place: str) -> None:
        """Name the files, and say where they are."""
        self.files = files
        self.place = place
        more = f" and {len(files) - NAMED} more" if len(files) > NAMED else ""
        super().__init__(
            f"The commits of task {task_id} conflict with {into} in {', '.join(files[:NAMED])}{more}; {into} is as it was.",
            hint=f"Resolve them in {place} and `git add` them there, then `wk merge {task_id} --continue`; --abort gives it up.",
        )


def uncommitted(task_id: str, tree: Worktree, seen: WorktreeSeen) -> Refused:
    """The worktree holds work that a merge would leave out."""
    left = seen.changed + seen.hidden
    more = f" and {len(left) - NAMED} more" if len(left) > NAMED else ""
    what = "1 change that is" if len(left) == 1 else f"{len(left)} changes that are"
    hint = f'`wk merge {task_id} --commit -m "…"` commits them first, or commit or delete them in {tree.path}.'
    if seen.hidden:
        hint = f"Some of them are excluded from comparison in git: commit or delete them in {tree.path}."
    return Refused(
        f"The worktree of task {task_id} has {what} not committed, and a merge would leave out: {', '.join(left[:NAMED])}{more}.",
        hint=hint,
    )


def restless(plan: Merge, rounds: int) -> Refused:
    """The branch moved again and again."""
    return Refused(
        f"{plan.into} was moved {rounds} times while the commits were checked, so nothing was merged.",
        hint="Type it again when it is quiet there.",
    )


def nothing(task: Task, tree: Worktree) -> Refused:
    """The task has no commit."""
    return Refused(
        f"The branch {tree.branch} of task {task.id} has no commit of its own, so there is nothing to merge.",
        hint=f"`wk diff {task.id}` prints what its run changed.",
    )
