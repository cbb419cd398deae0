"""Of two daemons that act for one machine only the newer one may write: the older one's transactions are refused, each of them."""

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from watchkeeper.errors import Superseded
from watchkeeper.ports.damage import Met
from watchkeeper.ports.store import MachineRecord, Store, Tx

T = TypeVar("T")


def superseded(tx: Tx, machine: MachineRecord) -> str:
    """Why a daemon may not act for a machine any more, as a sentence; empty while it may."""
    newest = tx.machines.get(machine.id)
    if newest is None:
        return "The database does not know this daemon's machine: another database is in its place."
    if (newest.incarnation, newest.holder) != (machine.incarnation, machine.holder):
        return f"Another daemon acts for this machine: life {newest.incarnation} has begun, and this is life {machine.incarnation}."
    return ""


class FencedStore:
    """The port's `Store`, for one life of a daemon."""

    def __init__(self, store: Store, machine: MachineRecord) -> None:
        """Write to `store` for as long as `machine` is the newest incarnation."""
        self.unfenced = store
        """The store itself, for looking who acts now."""
        self._machine = machine

    def transact(self, name: str, work: Callable[[Tx], T], *, durable: bool = True) -> T:
        """As the store does. Raises Superseded if a newer daemon acts for the machine; then nothing was changed."""

        def fenced(tx: Tx) -> T:
            reason = superseded(tx, self._machine)
            if reason:
                raise Superseded(reason)
            return work(tx)

        return self.unfenced.transact(name, fenced, durable=durable)

    def read(self, work: Callable[[Tx], T]) -> T:
        """As the store does: looking needs no right."""
        return self.unfenced.read(work)

    def changed(self, since: int) -> tuple[bool, int]:
        """As the store does."""
        return self.unfenced.changed(since)

    @property
    def met(self) -> Met:
        """As the store says."""
        return self.unfenced.met

    @property
    def is_shared(self) -> bool:
        """As the store says."""
        return self.unfenced.is_shared

    def time(self) -> datetime | None:
        """As the store says."""
        return self.unfenced.time()

    def check(self, *, thorough: bool = False) -> None:
        """As the store does."""
        self.unfenced.check(thorough=thorough)

    def close(self) -> None:
        """Let go of the database."""
        self.unfenced.close()
