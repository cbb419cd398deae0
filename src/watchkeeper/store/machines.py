"""Rows of machines."""

from datetime import datetime

from watchkeeper.ports.store import MachineRecord
from watchkeeper.store.rows import Row, Rows
from watchkeeper.store.values import Columns, ticks


class StoredMachines:
    """The port's `Machines`."""

    def __init__(self, rows: Rows) -> None:
        """Work within one transaction."""
        self._rows = rows

    def database_id(self) -> str:
        """A random id of this database, made with it."""
        with Columns(self._rows.one("machines_database_id") or (), "id") as column:
            return column.text()

    def begin_incarnation(self, machine_id: str, boot_id: str, at: datetime) -> MachineRecord:
        """A new daemon took over: the next incarnation."""
        row = self._rows.one("machines_begin", id=machine_id, boot_id=boot_id, started_at=ticks(at))
        return _machine(row or ())

    def get(self, machine_id: str) -> MachineRecord | None:
        """The machine's record, if a daemon ever ran."""
        row = self._rows.one("machines_get", id=machine_id)
        return None if row is None else _machine(row)


def _machine(row: Row) -> MachineRecord:
    with Columns(row, "machine") as column:
        return MachineRecord(
            id=column.text(), incarnation=column.number(), boot_id=column.text(), started_at=column.time()
        )
