"""Which databases there are, and how each is reached.

Nothing of PostgreSQL is imported, and its driver need not be installed, before a database with a URL is meant.
"""

from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

from watchkeeper.errors import SettingsError

if TYPE_CHECKING:
    from watchkeeper.ports.damage import Met
    from watchkeeper.ports.databases import MovedFacts
    from watchkeeper.ports.service import Wake
    from watchkeeper.ports.store import Tx
    from watchkeeper.runtimes.state_directory import StateDirectory
    from watchkeeper.store.moving import DatabaseLocation, OpenStore


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
) -> "OpenStore":
    """The database that is in use. Raises DatabaseUnusable and its kinds, NoDatabase where nothing was ever written and `create` is False."""
    if url is not None:
        return open_postgres(url, host=host, create=create, upgrade=upgrade, met=met)
    from watchkeeper.store.sqlite.store import SqliteStore

    return SqliteStore.open(state.database, state.write_lock, create=create, upgrade=upgrade, met=met)


def open_postgres(url: str, *, host: str, create: bool, upgrade: bool, met: "Met | None" = None) -> "OpenStore":
    """The database at `url`. Raises DatabaseUnusable and its kinds, SettingsError."""
    with driver():
        from watchkeeper.store.postgres.store import PostgresStore
    return PostgresStore.open(url, create=create, upgrade=upgrade, application=_application(host), met=met)


def listen(url: str | None, *, host: str) -> "Wake | None":
    """Begin to listen for commits; None where there is no such channel."""
    if url is None:
        return None
    with driver():
        from watchkeeper.store.postgres.wake import PostgresWake
    return PostgresWake(url, application=_application(host))


def location(url: str | None, state: "StateDirectory", *, host: str) -> "DatabaseLocation":
    """Where a database is that everything is moved from or to. Raises SettingsError."""
    if url is None:
        from watchkeeper.store.sqlite.location import SqliteLocation

        return SqliteLocation(state.database, state.write_lock)
    with driver():
        from watchkeeper.store.postgres.location import PostgresLocation
    return PostgresLocation(url, _application(host))


def _application(host: str) -> str:
    """What a server knows us as."""
    return f"watchkeeper on {host}"


def move(
    source: "DatabaseLocation",
    destination: "DatabaseLocation",
    *,
    shared: bool,
    node: str,
    progress: Callable[[int, int], None],
) -> "MovedFacts":
    """Move everything from one database into the other, an empty one, and leave the first one marked.

    Only the caller may be at work on either.

    Args:
        source: the database that is moved.
        destination: the empty one.
        shared: other machines may work on the destination; then what waits is bound to this machine.
        node: the id of this machine.
        progress: called with the rows that were copied, and with all that there are.

    Raises:
        Refused: there is something in the destination, or it would cut another machine off.
        DatabaseUnusable: and its kinds. The source is as it was.
    """
    from watchkeeper.app.move import bind, refuse_at_work
    from watchkeeper.errors import DatabaseMoved
    from watchkeeper.ports.databases import MovedFacts
    from watchkeeper.store.moving import move as move_all

    bound = 0

    def adapt(tx: "Tx") -> None:
        nonlocal bound
        bound = bind(tx, node) if shared else 0

    # What became of a database that was moved before, `move_all` finds out.
    with suppress(DatabaseMoved), closing(source.open()) as store:
        refuse_at_work(store, source.detail, node, shared=shared)
    moved = move_all(source, destination, adapt=adapt, progress=progress)
    return MovedFacts(
        rows=sum(moved.counts.values()),
        tasks=moved.counts["task"],
        digest=moved.digest,
        source=source.detail,
        destination=destination.detail,
        finished_earlier=moved.finished_earlier,
        bound=bound,
    )
