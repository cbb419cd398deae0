"""What happened since a time: what is done, what needs a person, what failed, and what it cost."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from watchkeeper.app.views.rows import ACTIVE_STATES, TaskRow, listing, one
from watchkeeper.app.views.settled import SettledRun, settled
from watchkeeper.domain.cost import CostTotal, total
from watchkeeper.domain.model import TaskState
from watchkeeper.errors import NotFound, RecordTorn
from watchkeeper.ports.runtime import Runtime
from watchkeeper.ports.store import Store

_MOST_ACTIVE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRow:
    """A task of the report, and what its runs since that time cost."""

    row: TaskRow
    cost: CostTotal
    text: str
    """What its newest run said at its end; empty if it was not settled since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What happened since a time. Every task stands in one list, by its state now; each list is in the order of time."""

    since: datetime
    now: datetime
    done: tuple[ReportRow, ...]
    needs_you: tuple[ReportRow, ...]
    """All that needs a person now, however long it has waited."""
    failed: tuple[ReportRow, ...]
    stopped: tuple[ReportRow, ...]
    active: tuple[ReportRow, ...]
    """Running or queued now."""
    removed: int
    """Tasks that had a run settled since and were removed."""
    cost: CostTotal
    """Of all runs that were settled since, those of removed tasks included."""


def report(store: Store, runtime: Callable[[], Runtime], since: datetime, now: datetime) -> Report:
    """Collect what happened since a time."""
    runs = list(settled(store, since))
    by_task: dict[str, list[SettledRun]] = {}
    for each in reversed(runs):
        by_task.setdefault(each.task_id, []).append(each)
    rows = {row.task.id: row for row in listing(store, runtime, ACTIVE_STATES, _MOST_ACTIVE).rows}
    gone = 0
    for task_id in by_task.keys() - rows.keys():
        try:
            rows[task_id] = one(store, runtime, task_id)
        except (NotFound, RecordTorn):
            gone += 1
    found = [_row(row, by_task.get(task_id, [])) for task_id, row in rows.items()]
    found.sort(key=lambda each: (each.row.task.ended_at or each.row.task.updated_at, each.row.task.id))

    def in_states(*states: TaskState) -> tuple[ReportRow, ...]:
        return tuple(each for each in found if each.row.task.state in states)

    return Report(
        since=since,
        now=now,
        done=in_states(TaskState.DONE),
        needs_you=in_states(TaskState.NEEDS_INPUT, TaskState.HELD),
        failed=in_states(TaskState.FAILED),
        stopped=in_states(TaskState.STOPPED),
        active=in_states(TaskState.RUNNING, TaskState.QUEUED),
        removed=gone,
        cost=total(each.cost for each in runs),
    )


def _row(row: TaskRow, runs: list[SettledRun]) -> ReportRow:
    newest = runs[-1].outcome if runs else None
    return ReportRow(row=row, cost=total(each.cost for each in runs), text=newest.text if newest is not None else "")
