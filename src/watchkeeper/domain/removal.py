"""Whether a task may be removed, and every reason why not. What is uncertain is never thrown away: its records are all that could ever settle it (R13)."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from watchkeeper.domain.model import FINAL_TASK_STATES, Proof, Run, Task, TaskState
from watchkeeper.domain.waiting import Dependency


class ObstacleKind(StrEnum):
    """What stands against a removal."""

    QUEUED = "queued"
    RUNNING = "running"
    NEEDS_INPUT = "needs_input"
    HELD = "held"
    ALIVE = "alive"
    UNPROVEN = "unproven"
    AWAITED = "awaited"
    PINNED = "pinned"
    WORKTREE = "worktree"


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """One reason, as the rest of a sentence that begins with the task, and what would take it away."""

    kind: ObstacleKind
    detail: str
    hint: str


_OPEN = {
    TaskState.QUEUED: (ObstacleKind.QUEUED, "it is in the queue", "`wk cancel {id}` takes it out."),
    TaskState.RUNNING: (ObstacleKind.RUNNING, "it is running", "`wk stop {id}` ends it."),
    TaskState.NEEDS_INPUT: (ObstacleKind.NEEDS_INPUT, "it waits for you", "`wk stop {id}` gives it up."),
    TaskState.HELD: (
        ObstacleKind.HELD,
        "what became of its last run is uncertain",
        "`wk show {id}` says what is known; `wk stop {id}` settles it on your word.",
    ),
}
"""Of each state that is not final, why it bars removal."""


def obstacles(
    task: Task, runs: Sequence[Run], dependents: Sequence[Dependency], *, trusting: bool = False
) -> tuple[Obstacle, ...]:
    """Every reason against removing a task, as far as records tell.

    `trusting`: a person gives their word that nothing is alive of runs of which that is not proven.
    """
    found: list[Obstacle] = []
    if task.state not in FINAL_TASK_STATES:
        kind, detail, hint = _OPEN[task.state]
        found.append(Obstacle(kind=kind, detail=detail, hint=hint.format(id=task.id)))
    else:
        found += [] if trusting else [_unproven(run) for run in runs if may_be_alive(run)]
    found += [_awaited(each) for each in dependents if _needs(each, task)]
    if task.pinned_at is not None:
        found.append(
            Obstacle(kind=ObstacleKind.PINNED, detail="it is pinned", hint=f"`wk unpin {task.id}` lets it go.")
        )
    return tuple(found)


def may_be_alive(run: Run) -> bool:
    """Whether it is not proven that nothing of a settled run is alive. Where no directory was recorded, no shim was ever started."""
    return run.directory is not None and run.proof is not Proof.PROVEN


def alive(run: Run, what: str) -> Obstacle:
    """A process of a run was seen alive: a person's statement does not override that."""
    return Obstacle(
        kind=ObstacleKind.ALIVE, detail=f"{what} of run {run.number} is alive", hint=f"`wk kill {run.task_id}` ends it."
    )


def worktree_needed(detail: str, hint: str) -> Obstacle:
    """Its worktree cannot go. `says` is a sentence or its end."""
    text = detail.rstrip(".")
    return Obstacle(kind=ObstacleKind.WORKTREE, detail=f"{text[:1].lower()}{text[1:]}", hint=hint)


def _unproven(run: Run) -> Obstacle:
    return Obstacle(
        kind=ObstacleKind.UNPROVEN,
        detail=f"it is not proven that run {run.number} has ended completely",
        hint="Look for it; --force removes it on your word.",
    )


def _awaited(dependent: Dependency) -> Obstacle:
    return Obstacle(
        kind=ObstacleKind.AWAITED,
        detail=f"{dependent.task_id} is to run after it",
        hint=f"Stop and remove {dependent.task_id} first.",
    )


def _needs(dependent: Dependency, task: Task) -> bool:
    """A dependent that is done needs nothing any more; one that failed could be tried again, and would need a task that is not done."""
    if dependent.state is TaskState.DONE:
        return False
    return task.state is not TaskState.DONE or dependent.state not in FINAL_TASK_STATES
