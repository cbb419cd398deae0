"""Who ran when, and who waited why, since a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from watchkeeper.app.views.rows import ACTIVE_STATES
from watchkeeper.app.views.settled import settled
from watchkeeper.domain.model import Task
from watchkeeper.domain.timeline import Announced, Span, at_once, spans
from watchkeeper.errors import NotFound, RecordTorn
from watchkeeper.ports.store import Store, Tx

_PAGE = 500
_WAITING = "task.waiting"
_READY = "task.ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRow:
    """A task and its life."""

    task: Task
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The tasks that ran or waited between two times, in the order of handing over."""

    start: datetime
    end: datetime
    rows: tuple[TimelineRow, ...]
    at_once: int
    """The most agents that worked at the same time."""
    left_out: int = 0
    """Older tasks of that time that there was no room for."""


def timeline(store: Store, since: datetime, now: datetime, limit: int) -> Timeline:
    """The tasks that were active since a time, at most the newest `limit`."""
    ids = {each.task_id for each in settled(store, since)} | set(_active(store))
    rows: list[TimelineRow] = []
    for task_id in ids:
        try:
            task, life = store.read(lambda tx, task_id=task_id: _life(tx, task_id, now))
        except (NotFound, RecordTorn):
            continue  # it was removed, or its record is named by `wk status`
        if any(span.end > since for span in life):
            rows.append(TimelineRow(task=task, spans=life))
    rows.sort(key=lambda row: (row.task.created_at, row.task.id))
    shown = tuple(rows[-limit:])
    start = max(since, min((row.spans[0].start for row in shown), default=since))
    end = max((span.end for row in shown for span in row.spans), default=now)
    return Timeline(
        start=start,
        end=max(end, start),
        rows=shown,
        at_once=at_once([row.spans for row in rows], start, end),
        left_out=len(rows) - len(shown),
    )


def _active(store: Store) -> Iterator[str]:
    after = 0
    while True:
        page, after = store.read(lambda tx, after=after: tx.tasks.in_order(ACTIVE_STATES, _PAGE, after))
        yield from (task.id for task in page)
        if len(page) < _PAGE:
            return


def _life(tx: Tx, task_id: str, now: datetime) -> tuple[Task, tuple[Span, ...]]:
    task = tx.tasks.get(task_id)
    return task, spans(task, tx.runs.of_task(task_id), _waits(tx, task_id), now)


def _waits(tx: Tx, task_id: str) -> list[Announced]:
    found: list[Announced] = []
    after = 0
    while page := tx.journal.after(after, _PAGE, task_id):
        after = page[-1].seq
        for entry in page:
            if entry.kind in {_WAITING, _READY}:
                why = str(entry.data.get("wait", "")) if entry.kind == _WAITING else ""
                found.append(Announced(at=entry.at, why=why))
    return found
