"""Rows of messages to tasks, and of the turns that took them."""

from typing import cast

from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.message import Message, MessageState, Turn
from watchkeeper.errors import Stale
from watchkeeper.store.checked import checked
from watchkeeper.store.rows import Row, RowConflict, Rows, SqlValue
from watchkeeper.store.values import Columns, moment, plain_text, record, to_json, torn


class StoredMessages:
    """The port's `Messages`."""

    def __init__(self, rows: Rows) -> None:
        """Work within one transaction."""
        self._rows = rows

    def add(self, message: Message, key: str | None = None) -> None:
        try:
            _ = self._rows.run("messages_add", key=key, number=message.number, **_key(message), **_columns(message))
        except RowConflict as conflict:
            raise Stale("The number or the key of the message is taken already: nothing was written.") from conflict

    def save(self, message: Message, was: Message) -> None:
        guard: dict[str, SqlValue] = {"was_state": was.state.value, "was_run": was.run_id or ""}
        if self._rows.run("messages_save", number=was.number, **guard, **_key(was), **_columns(message)) != 1:
            raise Stale(f"Message '{was.receipt}' has moved on since it was read: nothing was written.")

    def of_task(self, task_id: str) -> list[Message]:
        return [message_from(row) for row in self._rows.all("messages_of_task", task_id=task_id)]

    def waiting(self, task_id: str) -> list[Message]:
        return [one for one in self._open(task_id) if one.state is MessageState.WAITING]

    def taken(self, task_id: str) -> list[Message]:
        return [one for one in self._open(task_id) if one.state is MessageState.TAKEN]

    def keyed(self, task_id: str, key: str) -> Message | None:
        row = self._rows.one("messages_keyed", task_id=task_id, key=key)
        return None if row is None else message_from(row)

    def count(self, task_id: str) -> int:
        with Columns(self._rows.one("messages_last", task_id=task_id) or (), "message", task_id=task_id) as column:
            return column.number()

    def add_turn(self, turn: Turn) -> None:
        try:
            _ = self._rows.run("messages_add_turn", run_id=turn.run_id, task_id=turn.task_id, body=to_json(turn))
        except RowConflict as conflict:
            raise Stale(f"What run '{turn.run_id}' is given is on record already.") from conflict

    def turn(self, run_id: str) -> Turn | None:
        row = self._rows.one("messages_turn", run_id=run_id)
        return None if row is None else turn_from(row)

    def _open(self, task_id: str) -> list[Message]:
        return [message_from(row) for row in self._rows.all("messages_open", task_id=task_id)]


def _key(message: Message) -> dict[str, SqlValue]:
    return {"task_id": message.task_id}


def _columns(message: Message) -> dict[str, SqlValue]:
    return {"state": message.state.value, "run_id": message.run_id, "body": to_json(message)}


def message_from(row: Row) -> Message:
    """What a row holds. Raises RecordTorn."""
    key = f"{row[0]}.m{row[1]}"
    with Columns(row, "message", key=key, task_id=str(row[0])) as column:
        task_id, number = column.text(), column.number()
        state, run_id = column.choice(MessageState), column.text_or_none()
        data = record(column.text())
        data["state"] = MessageState(plain_text(data["state"]))
        kind, settled = data.get("kind"), data.get("settled_at")
        data["kind"] = None if kind is None else FailureKind(plain_text(kind))
        data["at"] = moment(data["at"])
        data["settled_at"] = None if settled is None else moment(settled)
        message = checked(Message, data)
        if (message.task_id, message.number, message.state, message.run_id) != (task_id, number, state, run_id):
            raise torn("message", key, "its columns contradict its text", task_id)
        return message


def turn_from(row: Row) -> Turn:
    """What a row holds. Raises RecordTorn."""
    with Columns(row, "turn", task_id=str(row[1])) as column:
        _, _ = column.text(), column.text()
        data = record(column.text())
        data["numbers"] = tuple(cast("list[int]", data["numbers"]))
        return checked(Turn, data)
