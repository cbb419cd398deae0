"""Rows of sinks: how far each of them is."""

from watchkeeper.domain.notice import SinkName, SinkState
from watchkeeper.store.rows import Row, Rows
from watchkeeper.store.values import Columns, readable, ticks_or_none


class StoredNotices:
    """The port's `Notices`."""

    def __init__(self, rows: Rows) -> None:
        """Work within one transaction."""
        self._rows = rows

    def all(self) -> list[SinkState]:
        return readable(self._rows, self._rows.all("notices_all"), sink_from)

    def of_machine(self, machine: str) -> list[SinkState]:
        return readable(self._rows, self._rows.all("notices_of_machine", machine=machine), sink_from)

    def put(self, state: SinkState) -> None:
        _ = self._rows.run(
            "notices_put",
            machine=state.machine,
            sink=state.sink.value,
            seq=state.seq,
            attempts=state.attempts,
            since=ticks_or_none(state.since),
            due_at=ticks_or_none(state.due_at),
            problem=state.problem,
        )

    def drop(self, machine: str, sink: SinkName) -> None:
        _ = self._rows.run("notices_drop", machine=machine, sink=sink.value)


def sink_from(row: Row) -> SinkState:
    """What a row holds. Raises RecordTorn."""
    with Columns(row, "notice_sink") as column:
        return SinkState(
            machine=column.text(),
            sink=SinkName(column.text()),
            seq=column.number(),
            attempts=column.number(),
            since=column.time_or_none(),
            due_at=column.time_or_none(),
            problem=column.text(),
        )
