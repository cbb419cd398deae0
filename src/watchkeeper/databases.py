"""Which databases there are, and how each is reached: the part of composing that concerns the database alone.

Nothing of PostgreSQL is imported, and its driver need not be installed, before a database with a URL is meant.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from watchkeeper.errors import RecordTorn, Refused, SettingsError

if TYPE_CHECKING:
    from watchkeeper.domain.model import Task
    from watchkeeper.domain.repair import Repair
    from watchkeeper.ports.clock import Clock
    from watchkeeper.ports.damage import Damage, Known, Met
    from watchkeeper.ports.databases import LongTransaction, MovedFacts, StoreFacts
    from watchkeeper.ports.service import Wake
    from watchkeeper.ports.store import Store, Tx
    from watchkeeper.runtimes.state_directory import StateDirectory
    from watchkeeper.store.marks import RawRows
    from watchkeeper.store.moving import Place
    from watchkeeper.store.tx import StoredTx

_LONG_S = 60.0
_OPEN = """
SELECT application_name::text, pid, coalesce(usename::text, ''), extract(epoch FROM clock_timestamp() - xact_start)
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL
    AND xact_start < clock_timestamp() - make_interval(secs => :long)
ORDER BY xact_start
"""
_PAGE = 500


@contextmanager
def driver() -> Generator[None]:
    """Around imports that need the driver of PostgreSQL. Raises SettingsError if it is not installed."""
    try:
        yield
    except ImportError as missing:
        if (missing.name or "").partition(".")[0] not in {"psycopg", "psycopg_binary"}:
            raise
        raise SettingsError(
            "'store.url' names a PostgreSQL database, and its driver is not installed.",
            hint="Install it: pip install 'watchkeeper[postgres]'",
        ) from missing


def open_store(
    url: str | None, state: "StateDirectory", *, host: str, create: bool, upgrade: bool, met: "Met"
) -> "Store":
    """The database that is in use. Raises DatabaseUnusable and its kinds, NoDatabase where nothing was ever written and `create` is False."""
    if url is not None:
        return open_postgres(url, host=host, create=create, upgrade=upgrade, met=met)
    from watchkeeper.store.sqlite.store import SqliteStore

    return SqliteStore.open(state.database, state.turnstile, create=create, upgrade=upgrade, met=met)


def open_postgres(url: str, *, host: str, create: bool, upgrade: bool, met: "Met | None" = None) -> "Store":
    """The database at `url`. Raises DatabaseUnusable and its kinds, SettingsError."""
    with driver():
        from watchkeeper.store.postgres.store import PostgresStore
    return PostgresStore.open(url, create=create, upgrade=upgrade, application=_application(host), met=met)


def listen(url: str | None, *, host: str) -> "Wake | None":
    """Begin to listen for commits; None where nobody tells of them."""
    if url is None:
        return None
    with driver():
        from watchkeeper.store.postgres.wake import PostgresWake
    return PostgresWake(url, application=_application(host))


def place(url: str | None, state: "StateDirectory", *, host: str) -> "Place":
    """Where a database is that everything is moved from or to. Raises SettingsError."""
    if url is None:
        from watchkeeper.store.sqlite.place import SqlitePlace

        return SqlitePlace(state.database, state.turnstile)
    with driver():
        from watchkeeper.store.postgres.place import PostgresPlace
    return PostgresPlace(url, _application(host))


def _application(host: str) -> str:
    """What a server knows us as."""
    return f"watchkeeper on {host}"


def facts(store: "Store", there: "Place", clock: "Clock", *, thorough: bool) -> "StoreFacts":
    """What a database is and how it does; with `thorough` after reading all of it.

    Raises:
        DatabaseCorrupt: it is damaged.
        DatabaseUnusable: and its kinds.
    """
    from watchkeeper.ports.databases import StoreFacts

    try:
        store.check(thorough=thorough)
        torn = ()
    except RecordTorn as problem:
        torn = (f"A record breaks a rule of its table: {problem.reason}.",)
    faults = (*torn, *store.read(lambda tx: tx.waits.audit()))
    now = store.time()
    version, size, waiting = store.read(_of_server if store.is_shared else _of_file)
    schema, database_id = store.read(lambda tx: (_schema(_raw(tx)), tx.machines.database_id()))
    return StoreFacts(
        kind="postgresql" if store.is_shared else "sqlite",
        where=there.says,
        version=version,
        schema=schema,
        database_id=database_id,
        size=size,
        skew_s=None if now is None else (clock.now() - (store.time() or now)).total_seconds(),
        long_transactions=waiting,
        faults=faults,
    )


def _raw(tx: "Tx") -> "RawRows":
    return cast("RawRows", cast("StoredTx", tx).rows)


def _schema(rows: "RawRows") -> int:
    return int(rows.query("SELECT max(number) FROM migration")[0][0] or 0)


def _of_file(tx: "Tx") -> "tuple[str, int | None, tuple[LongTransaction, ...]]":
    rows = _raw(tx)
    pages, page = (int(rows.query(f"PRAGMA {name}")[0][0] or 0) for name in ("page_count", "page_size"))
    return str(rows.query("SELECT sqlite_version()")[0][0]), pages * page, ()


def _of_server(tx: "Tx") -> "tuple[str, int | None, tuple[LongTransaction, ...]]":
    from watchkeeper.ports.databases import LongTransaction

    rows = _raw(tx)
    size = int(rows.query("SELECT pg_database_size(current_database())")[0][0] or 0)
    waiting = tuple(
        LongTransaction(application=str(name), process=int(pid or 0), user=str(user), open_s=float(open_s or 0))
        for name, pid, user, open_s in rows.query(_OPEN, {"long": _LONG_S})
    )
    return str(rows.query("SHOW server_version")[0][0]), size, waiting


def move(
    source: "Place", destination: "Place", *, shared: bool, node: str, progress: Callable[[int, int], None]
) -> "MovedFacts":
    """Move everything from one database into the other, an empty one, and leave the first one marked.

    `shared`: other machines may work on the destination; then what waits is bound to this machine, whose id is `node`. Nobody but the caller may be at
    work on either.

    Raises:
        Refused: there is something in the destination, or it would cut another machine off.
        DatabaseUnusable: and its kinds. The source is as it was.
    """
    from watchkeeper.ports.databases import MovedFacts
    from watchkeeper.store.moving import move as move_all

    bound: list[str] = []
    _refuse_at_work(source, node, shared=shared)

    def adapt(tx: "Tx") -> None:
        bound[:] = _bind(tx, node) if shared else []

    moved = move_all(source, destination, adapt=adapt, progress=progress)
    return MovedFacts(
        rows=sum(moved.counts.values()),
        tasks=moved.counts["task"],
        digest=moved.digest,
        source=source.says,
        destination=destination.says,
        finished_earlier=moved.finished_earlier,
        bound=len(bound),
    )


def _refuse_at_work(source: "Place", node: str, *, shared: bool) -> None:
    from watchkeeper.errors import DatabaseMoved

    try:
        store = source.open()
    except DatabaseMoved:
        return  # whoever moves it says what became of it
    try:
        now, (machines, live) = store.time(), store.read(lambda tx: (tx.machines.all(), tx.runs.live()))
    finally:
        store.close()
    names = {each.id: each.name or each.id for each in machines}
    for each in machines:
        if now is not None and each.lease_until is not None and each.lease_until > now:
            raise Refused(
                f"A daemon of {names[each.id]} works on {source.says}: nothing was copied.",
                hint="Stop it there: `wk daemon stop`. One that was killed is forgotten within a minute.",
            )
    others = {names.get(run.machine, run.machine) for run in live if run.machine != node}
    if others and not shared:
        raise Refused(
            f"Agents are at work on {', '.join(sorted(others))}, which could not reach the database of this machine: nothing was copied."
        )


def _bind(tx: "Tx", node: str) -> list[str]:
    """What could be run by the one machine that there was is run by no other now."""
    from watchkeeper.domain.model import FINAL_TASK_STATES, TaskState

    states = [state for state in TaskState if state not in FINAL_TASK_STATES]
    _ = _raw(tx).query("UPDATE outbox SET machine = :node WHERE machine = ''", {"node": node})
    bound: list[str] = []
    last: str | None = None
    while page := tx.tasks.in_states(states, _PAGE, last):
        last = page[-1].id
        for task in page:
            now = _bound(task, node)
            if now != task:
                tx.tasks.save(now, task)
                bound.append(task.id)
    return bound


def _bound(task: "Task", node: str) -> "Task":
    from watchkeeper.domain.model import TaskState

    kept = replace(task, environment_machine=task.environment_machine or node)
    if task.state is not TaskState.QUEUED or task.spec.machine is not None or task.environment_machine:
        return kept
    return replace(kept, spec=replace(task.spec, machine=node))


def repair(
    store: "Store",
    there: "Place",
    damage: "Damage",
    what: "Repair",
    *,
    reason: str,
    by: str,
    clock: "Clock",
    known: "Known",
) -> None:
    """Do to a record that cannot be read what a person chose, and journal it.

    Raises:
        Refused: it cannot be read even so. Nothing was changed.
        DatabaseUnusable: and its kinds. Nothing was changed.
    """
    from watchkeeper.store.contradictions import NUMBER, torn_numbers
    from watchkeeper.store.repair import renumber
    from watchkeeper.store.repair import repair as do

    def work(tx: "Tx") -> None:
        rows, at = _raw(tx), clock.now()
        aside = there.set_rules_aside(rows)
        if damage.place == NUMBER:
            for table in torn_numbers(
                cast("StoredTx", tx).rows
            ):  # all of them: what is done is journalled, which takes a number
                renumber(rows, there, table)
        do(cast("StoredTx", tx).rows, damage, what, reason, at, known)
        there.put_rules_back(rows, aside)
        data = {"record": damage.name, "what": what.value, "by": by, "reason": damage.reason}
        _ = tx.journal.append("record.repaired", at, task_id=damage.task_id, data=data)

    store.transact("repair", work)
