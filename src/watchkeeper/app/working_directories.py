"""What a launch must find in its working directory, and what is said where that is not so."""

from dataclasses import replace

from watchkeeper.app.parts import Parts
from watchkeeper.domain.model import Task
from watchkeeper.domain.working_directory import WorkingDirectory, left_by
from watchkeeper.ports.store import Authorisation, Tx


def expected(tx: Tx, task_id: str, allowed: Authorisation | None) -> WorkingDirectory | None:
    """The directory that was approved, with its checkout as the task's own last run under that approval left it.

    None: nothing was recorded. A run may switch the branch, and the next try of the same task continues from there; a switch by another process is noticed.
    """
    task = tx.tasks.get(task_id)
    approved = _approved(task, allowed)
    if allowed is None or approved is None:
        return None
    for run in reversed(tx.runs.of_task(task_id)):
        launch = tx.outcomes.launch(run.id)
        if launch is not None and launch.authorisation.id != allowed.id:
            break
        outcome = tx.outcomes.get(run.id)
        if outcome is not None and outcome.changes is not None and outcome.changes.left is not None:
            if task.spec.worktree is not None and outcome.changes.left.path != approved.path:
                break  # that run worked in the worktree before this one
            return left_by(approved, outcome.changes.left)
    return approved


def _approved(task: Task, allowed: Authorisation | None) -> WorkingDirectory | None:
    """The directory that was approved; of a worktree that did not exist then, the one that was made."""
    if allowed is not None and allowed.place is not None:
        return allowed.place
    tree = task.spec.worktree
    return None if tree is None else tree.made


def present(parts: Parts, directory: str) -> WorkingDirectory | None:
    """The directory as it is now on this machine, with its checkout; None where there is none, or it cannot be looked at."""
    found = parts.workspace.identify(directory)
    return None if found is None else replace(found, machine=parts.machine)
