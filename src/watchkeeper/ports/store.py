"""The database, as the verbs see it.

`transact` runs a plain function in one write transaction; the function may be run twice, so it does nothing but read and write rows. Everything in it
happens or nothing does. Writes are guarded: a row that has moved on raises `Stale` and the transaction is undone.
"""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

from watchkeeper.domain.waiting import Dependency, WaitFacts
from watchkeeper.ports.commands import Commands
from watchkeeper.ports.damage import Damage, Damages, Met
from watchkeeper.ports.deletion import Deletion
from watchkeeper.ports.machines import Machines
from watchkeeper.ports.messages import Messages
from watchkeeper.ports.stored import (
    Authorisation,
    BatchLimitReached,
    Claim,
    JournalEntry,
    Launch,
    MachineRecord,
    OperationRecord,
    OutboxRow,
)
from watchkeeper.ports.tables import Accounts, Journal, Outbox, Outcomes, Queue, Rules, Runs, Tasks, Waits

if TYPE_CHECKING:
    from watchkeeper.ports.databases import Database  # most commands ask nothing about a database as a whole
    from watchkeeper.ports.notices import Notices  # only the daemon tells people

T = TypeVar("T")

__all__ = [
    "Accounts",
    "Authorisation",
    "BatchLimitReached",
    "Claim",
    "Commands",
    "Damage",
    "Damages",
    "Deletion",
    "Dependency",
    "Journal",
    "JournalEntry",
    "Launch",
    "MachineRecord",
    "Machines",
    "Messages",
    "Met",
    "OperationRecord",
    "Outbox",
    "OutboxRow",
    "Outcomes",
    "Queue",
    "Rules",
    "Runs",
    "Store",
    "Tasks",
    "Tx",
    "WaitFacts",
    "Waits",
]


class Tx(Protocol):
    """One transaction: the rows it may touch."""

    @property
    def tasks(self) -> Tasks:
        """Tasks."""
        ...

    @property
    def runs(self) -> Runs:
        """Runs."""
        ...

    @property
    def queue(self) -> Queue:
        """The queue."""
        ...

    @property
    def rules(self) -> Rules:
        """The queue's rules."""
        ...

    @property
    def waits(self) -> Waits:
        """Facts behind waits."""
        ...

    @property
    def accounts(self) -> Accounts:
        """Accounts."""
        ...

    @property
    def outcomes(self) -> Outcomes:
        """Outcomes and authorisations."""
        ...

    @property
    def commands(self) -> Commands:
        """Command lines around runs."""
        ...

    @property
    def messages(self) -> Messages:
        """Messages to tasks."""
        ...

    @property
    def journal(self) -> Journal:
        """The journal."""
        ...

    @property
    def notices(self) -> "Notices":
        """How far notices were sent to each sink."""
        ...

    @property
    def outbox(self) -> Outbox:
        """The outbox."""
        ...

    @property
    def deletion(self) -> Deletion:
        """What is let go of."""
        ...

    @property
    def damage(self) -> Damages:
        """Records that cannot be read."""
        ...

    @property
    def database(self) -> "Database":
        """The database as a whole."""
        ...

    @property
    def machines(self) -> Machines:
        """The machine."""
        ...


class Store(Protocol):
    """The database."""

    def transact(self, name: str, work: Callable[[Tx], T], *, durable: bool = True) -> T:
        """Run `work` in one write transaction and return what it returns.

        `name` is the transaction's crash point and log key. `durable`: the commit is synced to disk before this returns; where False a power cut may
        take the transaction back, never one without those before it.

        Raises:
            DatabaseUnusable: and its kinds. Nothing was changed.
        """
        ...

    def read(self, work: Callable[[Tx], T]) -> T:
        """Run `work` on one consistent snapshot; it must not write."""
        ...

    @property
    def met(self) -> Met:
        """Records that a pass could not read and passed over, and those for which a transaction was given up."""
        ...

    def changed(self, since: int) -> tuple[bool, int]:
        """Whether any process has committed since the mark `since`, and the new mark. Costs microseconds."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether other machines may work on it. Then each machine holds a lease, and times are the database's."""
        ...

    def time(self) -> datetime | None:
        """The time by the database's own clock, as far as its last answer tells; None where that is this machine's clock. Makes no request."""
        ...

    def check(self, *, thorough: bool = False) -> None:
        """Look for damage; thoroughly takes seconds for a large database. Raises DatabaseCorrupt."""
        ...

    def close(self) -> None:
        """Let go of the database."""
        ...
