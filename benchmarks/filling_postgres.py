"""The same for PostgreSQL: two databases on one server, filled past the triggers that would count each row."""

import itertools
from collections.abc import Generator
from contextlib import contextmanager

from filling import Filled
from support.postgres import Server, ask, open_store

BLOCK = 10_000_000
"""Numbers of rows that are put past the counter come in blocks of so many."""

COUNTED = """
UPDATE watchkeeper.counter SET last = greatest(last, (SELECT coalesce(max(seq), 0) FROM watchkeeper.task)) WHERE name = 'task';
UPDATE watchkeeper.counter SET last = greatest(last, (SELECT coalesce(max(seq), 0) FROM watchkeeper.journal)) WHERE name = 'journal';
UPDATE watchkeeper.tally SET tasks = (SELECT count(*) FROM watchkeeper.task WHERE task.state = tally.state);
"""

AS_USUAL = ("fsync=on", "full_page_writes=on", "autovacuum=on", "shared_buffers=256MB", "max_wal_size=4GB")
"""The server of the tests syncs nothing; this one does."""


def filled(url: str) -> Filled:
    """One database."""

    def run(sql: str) -> None:
        # Without triggers: each row would count itself in one and the same row, a million times in one transaction.
        _ = ask(
            url,
            f"SET search_path = watchkeeper; SET session_replication_role = replica; BEGIN; {sql}; {COUNTED} COMMIT",
        )

    def tidy() -> None:
        _ = ask(url, "VACUUM ANALYZE")
        _ = ask(url, "CHECKPOINT")

    return Filled(store=open_store(url), dialect="postgres", run=run, tidy=tidy, numbers=itertools.count(BLOCK, BLOCK))


@contextmanager
def postgres(url: str | None) -> Generator[tuple[Filled, Filled], None, None]:
    """Two databases, on a server of our own or as two databases `wk_bench_…` on the one that the URL reaches."""
    server = None if url else Server(*AS_USUAL)
    try:
        if server is not None:
            urls = [server.url(server.database()) for _ in range(2)]
        else:
            names = ("wk_bench_empty", "wk_bench_full")
            for name in names:
                _ = ask(str(url), f"DROP DATABASE IF EXISTS {name}")
                _ = ask(str(url), f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
            urls = [str(url).rsplit("/", 1)[0] + f"/{name}" for name in names]
        both = [filled(each) for each in urls]
        yield both[0], both[1]
        for each in both:
            each.store.close()
    finally:
        if server is not None:
            server.remove()
