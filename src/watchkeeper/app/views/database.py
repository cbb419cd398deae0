"""What a database is, and whether it is sound."""

from watchkeeper.errors import RecordTorn
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.databases import StoreFacts
from watchkeeper.ports.store import Store, Tx


def facts(store: Store, where: str, clock: Clock, *, thorough: bool) -> StoreFacts:
    """What a database is; with `thorough` after reading all of it.

    Args:
        store: the database.
        where: what people call it; nothing secret.
        clock: that of this machine.
        thorough: read every row; takes seconds for a large database.

    Raises:
        DatabaseCorrupt: it is damaged.
        DatabaseUnusable: and its kinds.
    """
    try:
        store.check(thorough=thorough)
        torn = ()
    except RecordTorn as problem:
        torn = (f"A record breaks a rule of its table: {problem.reason}.",)

    def work(tx: Tx) -> StoreFacts:
        whole = tx.database
        faults = (*torn, *tx.waits.audit())
        now = store.time()
        return StoreFacts(
            kind="postgresql" if store.is_shared else "sqlite",
            where=where,
            version=whole.version(),
            schema=whole.schema(),
            database_id=tx.machines.database_id(),
            size=whole.size(),
            skew_s=None if now is None else (clock.now() - now).total_seconds(),
            long_transactions=whole.long_transactions(),
            faults=faults,
        )

    return store.read(work)
