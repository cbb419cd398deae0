"""The machines that work on a database, as the verbs see them."""

from datetime import datetime
from typing import Protocol

from watchkeeper.ports.stored import MachineRecord


class Machines(Protocol):
    """The machine that this state directory is."""

    def database_id(self) -> str:
        """A random id of this database, made with it."""
        ...

    def begin_incarnation(
        self, machine_id: str, boot_id: str, at: datetime, *, name: str = "", holder: str = "", version: str = ""
    ) -> MachineRecord:
        """A new daemon took over: the next incarnation."""
        ...

    def get(self, machine_id: str) -> MachineRecord | None:
        """The machine's record, if a daemon ever ran."""
        ...

    def all(self) -> list[MachineRecord]:
        """Every machine that ever had a daemon on this database."""
        ...

    def mend(self, machine: MachineRecord) -> None:
        """Write a machine's record anew over one that cannot be read."""
        ...

    def renew(self, machine: MachineRecord, until: datetime) -> bool:
        """Renew a machine's lease; False if that incarnation is no longer the newest one."""
        ...
