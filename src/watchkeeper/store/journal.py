"""Rows of the journal: append-only, numbered in the order of commits, because writers take turns."""

from collections.abc import Mapping
from datetime import datetime

from watchkeeper.domain import former_names
from watchkeeper.domain.model import Run
from watchkeeper.errors import RecordTorn
from watchkeeper.ports.store import JournalEntry
from watchkeeper.store.rows import Row, Rows
from watchkeeper.store.values import Columns, moment, record, ticks, to_json

TORN = "history.torn"
"""The kind of an entry that cannot be read."""


class StoredJournal:
    """The port's `Journal`."""

    def __init__(self, rows: Rows) -> None:
        """Work within one transaction."""
        self._rows = rows

    def append(
        self,
        kind: str,
        at: datetime,
        *,
        task_id: str | None = None,
        run: Run | None = None,
        data: Mapping[str, object] | None = None,
    ) -> int:
        """Append an entry and return its number. An entry of a run is one of its task, too."""
        row = self._rows.one(
            "journal_append",
            at=ticks(at),
            kind=kind,
            task_id=task_id if task_id is not None or run is None else run.task_id,
            run_id=None if run is None else run.id,
            fence=None if run is None else run.fence,
            data=to_json(data or {}),
        )
        with Columns(row or (), "journal") as column:
            return column.number()

    def after(self, seq: int, limit: int, task_id: str | None = None) -> list[JournalEntry]:
        if task_id is None:
            found = self._rows.all("journal_after", seq=seq, limit=limit)
        else:
            found = self._rows.all("journal_after_of_task", seq=seq, limit=limit, task_id=task_id)
        return [self._readable(row) for row in found]

    def _readable(self, row: Row) -> JournalEntry:
        """The entry. An unreadable one keeps its place, so that a reader that continues after it notices."""
        try:
            return entry_from(row)
        except RecordTorn as problem:
            self._rows.met.note(problem)
            seq = row[0] if isinstance(row[0], int) else 0
            return JournalEntry(
                seq=seq, at=_at(row), kind=TORN, task_id=None, run_id=None, fence=None, data={"reason": problem.reason}
            )

    def last(self) -> int:
        with Columns(self._rows.one("journal_last") or (), "journal") as column:
            return column.number_or_none() or 0


def _at(row: Row) -> datetime:
    """When it was, as far as that can be told."""
    try:
        return moment(row[1])
    except (TypeError, ValueError):
        return moment(0)


def entry_from(row: Row) -> JournalEntry:
    """What a row holds. Raises RecordTorn."""
    with Columns(row, "journal", task_id=None if row[3] is None else str(row[3])) as column:
        return JournalEntry(
            seq=column.number(),
            at=column.time(),
            kind=former_names.kind(column.text()),
            task_id=column.text_or_none(),
            run_id=column.text_or_none(),
            fence=column.number_or_none(),
            data=former_names.fields(record(column.text())),
        )
