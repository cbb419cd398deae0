"""Everything that may close a lane on one machine, read in one transaction."""

from datetime import datetime

from watchkeeper.domain.lanes import Place
from watchkeeper.ports.store import Tx


def place(tx: Tx, machine: str, limit: int, now: datetime) -> Place:
    """The current state for a claim on that machine."""
    return Place(
        machine=machine,
        now=now,
        limit=limit,
        occupied=tx.queue.occupied(),
        rules=tx.rules.all(),
        accounts=tx.accounts.states(machine),
        harnesses=tx.accounts.harnesses(machine),
        names={each.id: each.name or each.id for each in tx.machines.all()},
    )
