"""Rows of machines."""

from datetime import datetime

from watchkeeper.ports.store import MachineRecord
from watchkeeper.store.rows import Row, Rows
from watchkeeper.store.values import Columns, readable, ticks, ticks_or_none, torn


class StoredMachines:
    """The port's `Machines`."""

    def __init__(self, rows: Rows) -> None:
        """Work within one transaction."""
        self._rows = rows

    def database_id(self) -> str:
        row = self._rows.one("machines_database_id")
        if row is None:
            raise torn("meta", 1, "it is missing")
        with Columns(row, "meta", key="1") as column:
            found = column.text()
            if not found:
                raise ValueError("the id of the database is empty")
            return found

    def begin_incarnation(
        self, machine_id: str, boot_id: str, at: datetime, *, name: str = "", holder: str = "", version: str = ""
    ) -> MachineRecord:
        row = self._rows.one(
            "machines_begin",
            id=machine_id,
            boot_id=boot_id,
            started_at=ticks(at),
            name=name,
            holder=holder,
            version=version,
        )
        return machine_from(row or ())

    def get(self, machine_id: str) -> MachineRecord | None:
        row = self._rows.one("machines_get", id=machine_id)
        return None if row is None else machine_from(row)

    def all(self) -> list[MachineRecord]:
        return readable(self._rows, self._rows.all("machines_all"), machine_from)

    def mend(self, machine: MachineRecord) -> None:
        _ = self._rows.run(
            "machines_mend",
            id=machine.id,
            incarnation=machine.incarnation,
            boot_id=machine.boot_id,
            started_at=ticks(machine.started_at),
            name=machine.name,
            holder=machine.holder,
            version=machine.version,
            lease_until=ticks_or_none(machine.lease_until),
        )

    def renew(self, machine: MachineRecord, until: datetime) -> bool:
        renewed = self._rows.run(
            "machines_renew",
            id=machine.id,
            incarnation=machine.incarnation,
            holder=machine.holder,
            lease_until=ticks(until),
        )
        return renewed == 1


def machine_from(row: Row) -> MachineRecord:
    """What a row holds. Raises RecordTorn."""
    with Columns(row, "machine") as column:
        return MachineRecord(
            id=column.text(),
            incarnation=column.number(),
            boot_id=column.text(),
            started_at=column.time(),
            name=column.text(),
            holder=column.text(),
            version=column.text(),
            lease_until=column.time_or_none(),
        )
