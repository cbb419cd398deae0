"""Keep this machine's lease, on a connection of its own: whatever else waits for the database, this does not wait behind it."""

from watchkeeper.app.lease import Lease, OnTakeOver
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.loop import Loop, Ticked
from watchkeeper.domain.lease import LEASE_S, RENEW_S


class LeaseLoop(Loop):
    """Renews the lease. A machine that slept renews it first of all, and claims again then."""

    name = "lease"

    def __init__(self, log: Log, lease: Lease, lost: OnTakeOver) -> None:
        """`lost` is called, from this loop's thread, when another daemon took over."""
        super().__init__(log, RENEW_S)
        self._lease = lease
        self._lost = lost
        self._renewed_s: float | None = None

    def tick(self) -> Ticked:
        """Renew it, if it is time."""
        now_s = self._lease.clock.boottime_s()
        age_s = None if self._renewed_s is None else now_s - self._renewed_s
        if age_s is not None and age_s < RENEW_S:
            return Ticked(due_s=RENEW_S - age_s)
        other = self._lease.renew()
        if other is not None:
            self._lost(other)
            return Ticked()
        self._renewed_s = now_s
        return Ticked(worked=age_s is not None and age_s > LEASE_S)
