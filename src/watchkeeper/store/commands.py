"""Rows of the command lines around runs."""

from collections.abc import Sequence
from typing import cast

from watchkeeper.domain.outcome_record import Changes
from watchkeeper.domain.run_record import DirectoryIdentity
from watchkeeper.domain.side_command import CommandKind, CommandResult, CommandState, SideCommand
from watchkeeper.domain.task_record import StopHow
from watchkeeper.errors import Stale
from watchkeeper.store.checked import checked
from watchkeeper.store.facts import changes_from, exit_from
from watchkeeper.store.rows import Row, RowConflict, Rows, SqlValue
from watchkeeper.store.values import Columns, moment, plain_text, record, to_json

_TIMES = ("started_at", "ended_at")


class StoredCommands:
    """The port's `Commands`."""

    def __init__(self, rows: Rows) -> None:
        """Work within one transaction."""
        self._rows = rows

    def reserve(self, commands: Sequence[SideCommand]) -> None:
        try:
            for one in commands:
                _ = self._rows.run("commands_add", task_id=one.task_id, **_key(one), **_columns(one))
        except RowConflict as conflict:
            raise Stale("A command of the run is reserved already: nothing was written.") from conflict

    def save(self, command: SideCommand, was: SideCommand) -> None:
        guard: dict[str, SqlValue] = {"was_execution": was.execution_id, "was_state": was.state.value}
        if self._rows.run("commands_save", **guard, **_key(was), **_columns(command)) != 1:
            raise Stale(f"The command of run '{was.run_id}' has moved on since it was read: nothing was written.")

    def of_run(self, run_id: str, kind: CommandKind | None = None) -> list[SideCommand]:
        found = [command_from(row) for row in self._rows.all("commands_of_run", run_id=run_id)]
        return [one for one in found if kind in {None, one.kind}]

    def of_task(self, task_id: str) -> list[SideCommand]:
        return [command_from(row) for row in self._rows.all("commands_of_task", task_id=task_id)]

    def by_execution(self, execution_id: str) -> SideCommand | None:
        row = self._rows.one("commands_by_execution", execution_id=execution_id)
        return None if row is None else command_from(row)

    def keep_changes(self, run_id: str, changes: Changes | None) -> None:
        try:
            _ = self._rows.run(
                "commands_keep_changes", run_id=run_id, changes=None if changes is None else to_json(changes)
            )
        except RowConflict as conflict:
            raise Stale(f"The changes of run '{run_id}' are on record already.") from conflict

    def changes(self, run_id: str) -> Changes | None:
        row = self._rows.one("commands_changes", run_id=run_id)
        if row is None:
            return None
        with Columns(row, "changes", task_id=run_id.rpartition(".")[0]) as column:
            _ = column.text()
            return changes_from(column.text_or_none())


def _key(command: SideCommand) -> dict[str, SqlValue]:
    return {"run_id": command.run_id, "kind": command.kind.value, "number": command.number}


def _columns(command: SideCommand) -> dict[str, SqlValue]:
    return {"execution_id": command.execution_id, "state": command.state.value, "body": to_json(command)}


def command_from(row: Row) -> SideCommand:
    """What a row holds. Raises RecordTorn."""
    with Columns(row, "side_command", task_id=str(row[1])) as column:
        _, _ = column.text(), column.text()
        data = record(column.text())
        data["kind"] = CommandKind(plain_text(data["kind"]))
        data["state"] = CommandState(plain_text(data["state"]))
        for name, kind in (("stop_told", StopHow), ("result", CommandResult)):
            data[name] = None if data.get(name) is None else kind(plain_text(data[name]))
        for name in _TIMES:
            data[name] = None if data.get(name) is None else moment(data[name])
        directory = data.get("directory")
        data["directory"] = (
            None if directory is None else checked(DirectoryIdentity, cast("dict[str, object]", directory))
        )
        data["exit"] = None if data.get("exit") is None else exit_from(to_json(data["exit"]))
        return checked(SideCommand, data)
