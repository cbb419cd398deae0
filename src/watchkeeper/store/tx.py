"""One transaction, as the port shows it."""

from functools import cached_property

from watchkeeper.store.journal import StoredJournal
from watchkeeper.store.machines import StoredMachines
from watchkeeper.store.outbox import StoredOutbox
from watchkeeper.store.outcomes import StoredOutcomes
from watchkeeper.store.queue import StoredQueue
from watchkeeper.store.rows import Rows
from watchkeeper.store.runs import StoredRuns
from watchkeeper.store.tasks import StoredTasks


class StoredTx:
    """The port's `Tx` over any database's rows."""

    def __init__(self, rows: Rows) -> None:
        """Give access to the rows of one transaction."""
        self._rows = rows

    @cached_property
    def tasks(self) -> StoredTasks:
        """Tasks."""
        return StoredTasks(self._rows)

    @cached_property
    def runs(self) -> StoredRuns:
        """Runs."""
        return StoredRuns(self._rows)

    @cached_property
    def queue(self) -> StoredQueue:
        """The queue."""
        return StoredQueue(self._rows)

    @cached_property
    def outcomes(self) -> StoredOutcomes:
        """Outcomes and authorisations."""
        return StoredOutcomes(self._rows)

    @cached_property
    def journal(self) -> StoredJournal:
        """The journal."""
        return StoredJournal(self._rows)

    @cached_property
    def outbox(self) -> StoredOutbox:
        """The outbox."""
        return StoredOutbox(self._rows)

    @cached_property
    def machines(self) -> StoredMachines:
        """The machine."""
        return StoredMachines(self._rows)
