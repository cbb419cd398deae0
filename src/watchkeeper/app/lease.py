"""Begin an incarnation of this machine, keep its lease, and give it back.

On a database of one machine the daemon's own lock says all that there is to say; there a lease is never taken.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from watchkeeper.domain.lease import LEASE_S, WATCH_S, Contest, Holder, contest
from watchkeeper.errors import DaemonError
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.store import MachineRecord, Store, Tx

_LOOK_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Me:
    """This machine, and the daemon that wants to act for it."""

    id: str
    holder: Holder
    version: str
    directory: str
    """Its state directory, for people."""


def begin(store: Store, clock: Clock, me: Me, *, watch_s: float = WATCH_S) -> MachineRecord:
    """Begin the next incarnation: from here on every claim of an earlier daemon is refused.

    Where it cannot be told at once whether another host acts under our id, this watches its lease for `watch_s`.

    Raises:
        DaemonError: another state directory acts under the same id.
    """
    watched: MachineRecord | None = None
    since_s = time.monotonic()
    while True:
        may = _May(watched=watched, until_s=since_s + watch_s, now=clock.now(), is_shared=store.is_shared)
        answer = store.transact("begin", partial(_begin, me=me, may=may))
        if isinstance(answer, MachineRecord):
            return answer
        watched = watched or answer.other
        if answer.found is Contest.TAKEN or answer.other != watched:
            raise _taken(me, answer.other)
        # The wait is for the silence of another host, and silence sends no event.
        time.sleep(min(_LOOK_S, watch_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contested:
    found: Contest
    other: MachineRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class _May:
    """What one try knows."""

    watched: MachineRecord | None
    until_s: float
    now: datetime
    is_shared: bool


def _begin(tx: Tx, *, me: Me, may: _May) -> MachineRecord | _Contested:
    other = tx.machines.get(me.id)
    if may.is_shared and other is not None:
        found = contest(_holder(other), me.holder, may.now)
        silent = other == may.watched and time.monotonic() >= may.until_s
        if found is not Contest.FREE and not silent:
            return _Contested(found=found, other=other)
    mine = me.holder
    machine = tx.machines.begin_incarnation(
        me.id, mine.boot_id, may.now, name=mine.name, holder=mine.word, version=me.version
    )
    if may.is_shared:
        _ = tx.machines.renew(machine, may.now + timedelta(seconds=LEASE_S))
    return machine


def _holder(machine: MachineRecord) -> Holder:
    return Holder(word=machine.holder, name=machine.name, boot_id=machine.boot_id, lease_until=machine.lease_until)


def _taken(me: Me, other: MachineRecord) -> DaemonError:
    return DaemonError(
        f"A daemon on {other.name or other.id} acts under the id of this state directory: one of the two directories is a copy of the other.",
        hint=(
            f"If {me.directory} is the copy, delete its file 'node' and start again: it becomes a machine of its own. Never do that in the original: "
            "its agents are known by that id. If the other one is gone for good, its lease ends within a minute."
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The lease of a machine in its present incarnation."""

    store: Store
    clock: Clock
    machine: MachineRecord

    def renew(self) -> MachineRecord | None:
        """Renew it; answers who took over, if another daemon did. Raises DatabaseUnusable: nothing is known."""

        def work(tx: Tx) -> MachineRecord | None:
            if tx.machines.renew(self.machine, self._until(LEASE_S)):
                return None
            return tx.machines.get(self.machine.id) or self.machine

        return self.store.transact("lease", work)

    def give_back(self) -> None:
        """Record that no daemon acts for this machine from now on. Raises DatabaseUnusable."""
        _ = self.store.transact("lease_end", lambda tx: tx.machines.renew(self.machine, self._until(0)))

    def _until(self, seconds: float) -> datetime:
        return self.clock.now() + timedelta(seconds=seconds)


OnTakeOver = Callable[[MachineRecord], None]
"""Called once, with the daemon that took over."""
