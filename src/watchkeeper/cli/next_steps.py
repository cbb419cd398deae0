"""What comes next for a task, as `wk show` ends: every command that fits."""

from typing import TYPE_CHECKING

from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.outcome_record import Proof
from watchkeeper.domain.repair import can_run_again
from watchkeeper.domain.task_record import TaskState
from watchkeeper.domain.worktree import WorktreeState

if TYPE_CHECKING:
    from watchkeeper.app.views.detail import TaskDetail


def next_steps(found: "TaskDetail") -> str:
    """The commands that come next for a task, in one line."""
    task_id = found.task.id
    match found.task.state:
        case TaskState.QUEUED | TaskState.RUNNING:
            return f"wk logs -f {task_id} · wk stop {task_id}"
        case TaskState.NEEDS_INPUT if found.task.kind is FailureKind.ASKED:
            answer = _answer(found)
            return f"{answer} · wk retry {task_id} starts anew · wk stop {task_id}"
        case TaskState.DONE:
            newest = found.runs[-1].outcome if found.runs else None
            changes = None if newest is None else newest.changes
            has_diff = changes is not None and changes.tip is not None
            commands = f"wk diff {task_id} · wk logs {task_id}" if has_diff else f"wk logs {task_id}"
            return f"{commands}{_commit_first(found)}" if changes is not None and changes.uncommitted else commands
        case TaskState.HELD:
            return _next_of_held(found)
        case _:
            again = f"wk retry {task_id}" if can_run_again(found.task.spec) else "hand it over anew with wk run"
            return f"wk logs {task_id} · {again}"


def _answer(found: "TaskDetail") -> str:
    """How a person answers what the agent asks."""
    if found.can_send:
        return f'wk send {found.task.id} "…" answers'
    return "take the conversation over and answer" if found.takeover else "hand it over again with the answer"


def _commit_first(found: "TaskDetail") -> str:
    """What becomes of work that the task has left uncommitted in a worktree of its own."""
    tree = found.task.spec.worktree
    if tree is None or tree.state is not WorktreeState.MADE or tree.merged is not None:
        return ""
    return f" · not committed: wk merge {found.task.id} --commit"


def _next_of_held(found: "TaskDetail") -> str:
    """Whether something of it is alive is for a person to look at only where that is not proven."""
    task_id = found.task.id
    newest = found.runs[-1] if found.runs else None
    proof = None if newest is None else newest.outcome.proof if newest.outcome is not None else newest.run.proof
    look = "" if proof is Proof.PROVEN else "look whether something of it is alive, then "
    if found.task.run_id is None:
        return f"{look}wk retry {task_id} or wk stop {task_id}"
    return f"{look}wk retry {task_id} (gives the held run up and starts another) or wk stop {task_id} (ends the task)"
