"""Delete rows: removed tasks, and history and notes that are no longer needed."""

from datetime import datetime

from watchkeeper.domain.task_record import TaskState
from watchkeeper.errors import NoSuchTask, Stale
from watchkeeper.store.rows import Row, RowConflict, Rows
from watchkeeper.store.values import Columns, ticks

_BEYOND = "\U0010ffff"
_ABOUT_A_TASK = (
    "deletion_drop_messages",
    "deletion_drop_turns",
    "deletion_drop_side_commands",
    "deletion_drop_changes",
    "deletion_drop_launches",
    "deletion_drop_outcomes",
    "deletion_drop_runs",
    "deletion_drop_executions",
    "deletion_drop_sessions",
    "deletion_drop_authorisations",
    "deletion_drop_dependencies",
    "deletion_recount_dependents",
    "deletion_drop_dependents",
    "deletion_drop_labels",
    "deletion_drop_spec",
)
"""What goes with a task, in an order in which nothing refers to what has gone."""


class StoredDeletion:
    """The port's `Deletion`."""

    def __init__(self, rows: Rows) -> None:
        """Work within one transaction."""
        self._rows = rows

    def remove_task(self, task_id: str) -> None:
        try:
            for statement in _ABOUT_A_TASK:
                _ = self._rows.run(statement, task_id=task_id)
            gone = self._rows.run("deletion_drop_task", task_id=task_id)
        except RowConflict as conflict:
            raise Stale(f"Something still refers to task '{task_id}': nothing was removed.") from conflict
        if gone != 1:
            raise NoSuchTask(f"There is no task '{task_id}'.")
        _ = self._rows.run("deletion_note_removed", task_id=task_id)

    def remove_remains(self, task_id: str) -> None:
        """Delete everything that is about a task whose own row is gone. Raises RowConflict if something still refers to it."""
        for statement in _ABOUT_A_TASK:
            _ = self._rows.run(statement, task_id=task_id)

    def removed_like(self, prefix: str, limit: int) -> list[str]:
        found = self._rows.all("deletion_removed_like", first=prefix, beyond=prefix + _BEYOND, limit=limit)
        return [_text(row) for row in found]

    def ended(self, state: TaskState, before: datetime, limit: int, after: int = 0) -> list[tuple[int, str]]:
        found = self._rows.all("deletion_ended", state=state.value, before=ticks(before), after=after, limit=limit)
        return [_seq_and_id(row) for row in found]

    def forget_history(self, before: datetime, limit: int, after: int = 0) -> tuple[int, int | None]:
        page = [_number_pair(row) for row in self._rows.all("deletion_history", after=after, limit=limit)]
        old = [seq for seq, at in page if at < ticks(before)]
        if not old:
            return 0, None
        gone = [
            _number(row) for row in self._rows.all("deletion_forget", after=after, last=old[-1], before=ticks(before))
        ]
        if gone:
            _ = self._rows.run("deletion_note_forgotten", seq=max(gone))
        return len(gone), old[-1] if len(page) == limit else None

    def forgotten(self) -> int:
        return _number(self._rows.one("deletion_forgotten") or ())

    def forget_operations(self, before: datetime, limit: int) -> int:
        return self._rows.run("deletion_forget_operations", before=ticks(before), limit=limit)


def _seq_and_id(row: Row) -> tuple[int, str]:
    with Columns(row, "task") as column:
        return column.number(), str(column.value())


def _number_pair(row: Row) -> tuple[int, int]:
    with Columns(row, "entry") as column:
        return column.number(), column.number()


def _text(row: Row) -> str:
    with Columns(row, "removed task") as column:
        return column.text()


def _number(row: Row) -> int:
    with Columns(row, "number") as column:
        return column.number()
