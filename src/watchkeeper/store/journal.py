"""Rows of the journal: append-only, numbered in the order of commits, because writers take turns."""

from collections.abc import Mapping
from datetime import datetime

from watchkeeper.domain.model import Run
from watchkeeper.ports.store import JournalEntry
from watchkeeper.store.rows import Row, Rows
from watchkeeper.store.values import Columns, record, ticks, to_json


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
        with Columns(row or (), "journal entry") as column:
            return column.number()

    def after(self, seq: int, limit: int, task_id: str | None = None) -> list[JournalEntry]:
        """Entries with a larger number, oldest first."""
        if task_id is None:
            found = self._rows.all("journal_after", seq=seq, limit=limit)
        else:
            found = self._rows.all("journal_after_of_task", seq=seq, limit=limit, task_id=task_id)
        return [_entry(row) for row in found]

    def last(self) -> int:
        """The largest number, 0 if there is none."""
        with Columns(self._rows.one("journal_last") or (), "journal entry") as column:
            return column.number_or_none() or 0


def _entry(row: Row) -> JournalEntry:
    with Columns(row, "journal entry") as column:
        return JournalEntry(
            seq=column.number(),
            at=column.time(),
            kind=column.text(),
            task_id=column.text_or_none(),
            run_id=column.text_or_none(),
            fence=column.number_or_none(),
            data=record(column.text()),
        )
