"""Everything that may close a lane on one machine, read in one transaction."""

from datetime import datetime

from watchkeeper.domain.lanes import LaneConditions
from watchkeeper.ports.store import Tx


def lane_conditions(tx: Tx, machine: str, limit: int, now: datetime) -> LaneConditions:
    """The current state for a claim on that machine."""
    return LaneConditions(
        machine=machine,
        now=now,
        limit=limit,
        occupied=tx.queue.occupied(),
        rules=tx.rules.all(),
        accounts=tx.accounts.states(machine),
        harnesses=tx.accounts.harnesses(machine),
        names={each.id: each.name or each.id for each in tx.machines.all()},
    )
