"""Put what a run changed into the caller's checkout, as changes that are not committed."""

from collections.abc import Callable
from dataclasses import dataclass

from watchkeeper.app.diff import DiffRequest, RunDiff, find
from watchkeeper.errors import Refused
from watchkeeper.ports.applying import Applied, Applier
from watchkeeper.ports.diffs import Diffs
from watchkeeper.ports.runtime import Runtime
from watchkeeper.ports.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRequest:
    """Whose changes, and where to."""

    task_id: str
    directory: str
    """Where the caller is."""
    run: int | None = None
    """The number of the run; None: the newest that has ended."""
    reverse: bool = False
    """Take the changes out again."""
    three_way: bool = False
    """Merge what does not fit, with markers where it conflicts."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyResult:
    """What was applied."""

    diff: RunDiff
    applied: Applied
    left_out: tuple[str, ...]
    """Changed paths that were not kept, so that they are not among what was applied."""


def apply(
    store: Store, runtime: Callable[[], Runtime], diffs: Diffs, applier: Applier, request: ApplyRequest
) -> ApplyResult:
    """Apply what a run changed: all of it, or nothing.

    Raises:
        NoSuchTask: there is no such task.
        NotFound: it has no such run, or its files are gone.
        Refused: with the reason; nothing was changed.
    """
    found = find(store, runtime, DiffRequest(task_id=request.task_id, run=request.run))
    task, changes = found.task, found.changes
    if changes is not None and changes.known and not changes.files and not changes.commits:
        raise Refused(
            f"Run {found.run.number} of task {task.id} changed nothing, so there is nothing to apply.",
            hint=f"`wk logs {task.id}` prints what it said.",
        )
    kept = found.kept(diffs)
    top = applier.checkout_of(request.directory)
    worked_in = task.spec.checkout if task.spec.worktree is None else task.spec.worktree.path
    if not request.reverse and worked_in is not None and top == worked_in:
        raise Refused(
            f"Task {task.id} worked in this very checkout, so its changes are here already.",
            hint="`cd` to another checkout of the repository.",
        )
    applied = applier.apply(
        kept, diffs.patch(kept), request.directory,
        reverse=request.reverse, three_way=request.three_way, dry_run=request.dry_run,
    )  # fmt: skip
    return ApplyResult(diff=found, applied=applied, left_out=() if changes is None else changes.left_out)
