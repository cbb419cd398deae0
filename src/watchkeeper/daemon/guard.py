"""Look again and again whether this daemon is still the one of its state directory and its database."""

from collections.abc import Callable

from watchkeeper.app.fence import superseded
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.loop import Loop, Ticked
from watchkeeper.ports.service import DaemonHost
from watchkeeper.ports.store import MachineRecord, Store


class GuardLoop(Loop):
    """Tells when lock file, state directory or incarnation are not ours any more."""

    name = "guard"

    def __init__(
        self,
        log: Log,
        every_s: float,
        host: DaemonHost,
        store: Store,
        machine: MachineRecord,
        lost: Callable[[str], None],
    ) -> None:
        """`lost` is called with the reason, from this loop's thread. `store` is one without a fence."""
        super().__init__(log, every_s)
        self._host = host
        self._store = store
        self._machine = machine
        self._lost = lost

    def tick(self) -> Ticked:
        """Look. The file system first: it answers where the database does not."""
        reason = self._host.lost()
        if (
            not reason and not self._store.is_shared
        ):  # machines that share a database watch their leases, which says who took over
            reason = self._store.read(lambda tx: superseded(tx, self._machine))
        if reason:
            self._lost(reason)
        return Ticked()
