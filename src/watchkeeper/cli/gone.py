"""What became of output that is not there any more."""

from typing import TYPE_CHECKING

from watchkeeper.cli import render
from watchkeeper.domain.run_record import RunState
from watchkeeper.errors import NoSuchTask

if TYPE_CHECKING:
    from watchkeeper.cli.call import Call
    from watchkeeper.ports.store import JournalEntry, Store

_PAGE = 500


def removed(call: "Call", typed: str, problem: NoSuchTask) -> NoSuchTask:
    """What is said where no task of that id is there: whether there was one, who removed it and when, and whether its logs were kept."""
    store = call.store
    task_id = typed.strip().lower()
    if store is None:
        return problem
    entry = _last(store, task_id, "task.removed")
    if entry is None:
        return problem
    kept = call.reading.state.path / "kept-logs" / task_id
    by = render.clean(str(entry.data.get("by", "somebody")))
    there = kept.is_dir()
    return NoSuchTask(
        f"Task {task_id} was removed by {by} at {render.clock(entry.at)}, and its output {'was kept' if there else 'with it'}.",
        hint=f"It is in {kept}." if there else "`wk rm --keep-logs` keeps the output of a task that is removed.",
    )


def output(call: "Call", store: "Store", task_id: str, number: int | None) -> str:
    """Why the output of a run is not there; empty if it is, or its run is not over."""
    runs = store.read(lambda tx: tx.runs.of_task(task_id))
    run = next((run for run in reversed(runs) if number in {None, run.number}), None)
    if run is None or run.state is not RunState.SETTLED or run.directory is None:
        return ""
    executions, machine = call.runtime().executions(), call.runtime().machine
    if (machine and run.machine != machine and store.is_shared) or executions.path(run).exists():
        return ""
    entry = _last(store, task_id, "execution.pruned", run.id)
    if entry is None:
        return f"The output of run {run.number} is gone: its directory 'executions/{run.execution_id}' was deleted, and not by wk."
    days = entry.data.get("after_days")
    return (
        f"The output of run {run.number} was deleted at {render.clock(entry.at)}: "
        f"it had ended more than {days if isinstance(days, int | float) else 'some'} days before (prune.keep_days)."
    )


def _last(store: "Store", task_id: str, kind: str, run_id: str | None = None) -> "JournalEntry | None":
    """The newest entry of a kind about a task."""
    found: JournalEntry | None = None
    after = 0
    while page := store.read(lambda tx, seq=after: tx.journal.after(seq, _PAGE, task_id)):
        after = page[-1].seq
        found = next((one for one in reversed(page) if one.kind == kind and run_id in {None, one.run_id}), found)
    return found
