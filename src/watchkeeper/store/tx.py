"""One transaction, as the port shows it. A part is made, and its module imported, when it is used: a list of tasks needs one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watchkeeper.store.accounts import StoredAccounts
    from watchkeeper.store.commands import StoredCommands
    from watchkeeper.store.damage import StoredDamages
    from watchkeeper.store.database import StoredDatabase
    from watchkeeper.store.deletion import StoredDeletion
    from watchkeeper.store.journal import StoredJournal
    from watchkeeper.store.machines import StoredMachines
    from watchkeeper.store.messages import StoredMessages
    from watchkeeper.store.notices import StoredNotices
    from watchkeeper.store.outbox import StoredOutbox
    from watchkeeper.store.outcomes import StoredOutcomes
    from watchkeeper.store.queue import StoredQueue
    from watchkeeper.store.rows import Rows
    from watchkeeper.store.rules import StoredRules
    from watchkeeper.store.runs import StoredRuns
    from watchkeeper.store.tasks import StoredTasks
    from watchkeeper.store.waits import StoredWaits


class StoredTx:
    """The port's `Tx` over any database's rows."""

    def __init__(self, rows: Rows) -> None:
        """Give access to the rows of one transaction."""
        self._rows = rows

    @property
    def rows(self) -> Rows:
        """The transaction itself, for what concerns the whole database."""
        return self._rows

    @property
    def tasks(self) -> StoredTasks:
        from watchkeeper.store.tasks import StoredTasks

        return StoredTasks(self._rows)

    @property
    def runs(self) -> StoredRuns:
        from watchkeeper.store.runs import StoredRuns

        return StoredRuns(self._rows)

    @property
    def queue(self) -> StoredQueue:
        from watchkeeper.store.queue import StoredQueue

        return StoredQueue(self._rows)

    @property
    def rules(self) -> StoredRules:
        from watchkeeper.store.rules import StoredRules

        return StoredRules(self._rows)

    @property
    def waits(self) -> StoredWaits:
        from watchkeeper.store.waits import StoredWaits

        return StoredWaits(self._rows)

    @property
    def accounts(self) -> StoredAccounts:
        from watchkeeper.store.accounts import StoredAccounts

        return StoredAccounts(self._rows)

    @property
    def outcomes(self) -> StoredOutcomes:
        from watchkeeper.store.outcomes import StoredOutcomes

        return StoredOutcomes(self._rows)

    @property
    def commands(self) -> StoredCommands:
        from watchkeeper.store.commands import StoredCommands

        return StoredCommands(self._rows)

    @property
    def messages(self) -> StoredMessages:
        from watchkeeper.store.messages import StoredMessages

        return StoredMessages(self._rows)

    @property
    def journal(self) -> StoredJournal:
        from watchkeeper.store.journal import StoredJournal

        return StoredJournal(self._rows)

    @property
    def notices(self) -> StoredNotices:
        from watchkeeper.store.notices import StoredNotices

        return StoredNotices(self._rows)

    @property
    def outbox(self) -> StoredOutbox:
        from watchkeeper.store.outbox import StoredOutbox

        return StoredOutbox(self._rows)

    @property
    def deletion(self) -> StoredDeletion:
        from watchkeeper.store.deletion import StoredDeletion

        return StoredDeletion(self._rows)

    @property
    def damage(self) -> StoredDamages:
        from watchkeeper.store.damage import StoredDamages

        return StoredDamages(self._rows)

    @property
    def database(self) -> StoredDatabase:
        """The database as a whole."""
        from watchkeeper.store.database import StoredDatabase

        return StoredDatabase(self._rows)

    @property
    def machines(self) -> StoredMachines:
        from watchkeeper.store.machines import StoredMachines

        return StoredMachines(self._rows)
