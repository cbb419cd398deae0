"""One transaction, as the port shows it."""

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

    __slots__ = ("journal", "machines", "outbox", "outcomes", "queue", "runs", "tasks")

    def __init__(self, rows: Rows) -> None:
        """Give access to the rows of one transaction."""
        self.tasks = StoredTasks(rows)
        self.runs = StoredRuns(rows)
        self.queue = StoredQueue(rows)
        self.outcomes = StoredOutcomes(rows)
        self.journal = StoredJournal(rows)
        self.outbox = StoredOutbox(rows)
        self.machines = StoredMachines(rows)
