"""Runs that were settled since a time, newest first, each with its task and its outcome.

They are found by the journal, read backwards page by page, so the cost grows with what was settled since, not with the whole history. The journal is in the
order of commits; times in it may step back where a clock was set, so reading continues until a whole page is older.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from watchkeeper.domain.cost import UNKNOWN, Cost, cost_of
from watchkeeper.domain.model import Outcome, Run, Task
from watchkeeper.errors import NotFound, RecordTorn
from watchkeeper.ports.store import JournalEntry, Store, Tx

_SETTLED = "run.settled"
_PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledRun:
    """A run that was settled."""

    run_id: str
    task_id: str
    at: datetime
    task: Task | None
    """None: it was removed, or its record cannot be read."""
    run: Run | None
    outcome: Outcome | None

    @property
    def cost(self) -> Cost:
        """What it cost; unknown where its record is gone or cannot be read."""
        return UNKNOWN if self.run is None else cost_of(self.run, self.outcome)


def settled(store: Store, since: datetime | None) -> Iterator[SettledRun]:
    """Every run that was settled at or after `since`, newest first; None: all that the journal still names."""
    before = store.read(lambda tx: tx.journal.last())
    while before > 0:
        start = max(0, before - _PAGE)

        def read(tx: Tx, start: int = start, before: int = before) -> tuple[bool, list[SettledRun]]:
            page = [entry for entry in tx.journal.after(start, before - start) if entry.seq <= before]
            wanted = [entry for entry in page if since is None or entry.at >= since]
            found = [_load(tx, entry) for entry in reversed(wanted) if entry.kind == _SETTLED]
            return bool(page) and not wanted, found

        is_older, found = store.read(read)
        yield from found
        if is_older:
            return
        before = start


def _load(tx: Tx, entry: JournalEntry) -> SettledRun:
    run_id, task_id = entry.run_id or "", entry.task_id or ""
    tasks = tx.tasks.some([task_id])
    try:
        run, outcome = tx.runs.get(run_id), tx.outcomes.get(run_id)
    except (NotFound, RecordTorn):
        run, outcome = None, None
    return SettledRun(
        run_id=run_id, task_id=task_id, at=entry.at, task=tasks[0] if tasks else None, run=run, outcome=outcome
    )
