"""Move everything from one database into another, of any kind, so that both are never in use.

    destination: new or empty ──▶ filled and marked unfinished, in one transaction ──▶ compared ──▶ ... ──▶ mark taken away
    source:                       its turn to write is held all the while ─────────────▶ marked moved

A crash before the source is marked leaves the source as it was, and a destination that is empty or says that it is unfinished; the next try begins anew. A
crash after it leaves a complete destination, which the next try only has to open. The database keeps its id, so execution directories are known as before.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from watchkeeper.errors import DatabaseCorrupt, DatabaseMoved, Refused
from watchkeeper.ports.store import Store
from watchkeeper.store import marks
from watchkeeper.store.schema import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from watchkeeper.ports.store import Tx
    from watchkeeper.store.rows import Row, Rows, SqlValue
    from watchkeeper.store.tx import StoredTx

T = TypeVar("T")

_MADE_WITH_THE_DATABASE = frozenset({"meta", "tally"})
_PAGE = 1000
_AT_ONCE = 40


class OpenStore(Store, Protocol):
    """A database whose transactions show their rows too."""

    def transact(self, name: str, work: Callable[[StoredTx], T], *, durable: bool = True) -> T:
        """As the port says."""
        ...

    def read(self, work: Callable[[StoredTx], T]) -> T:
        """As the port says."""
        ...


class DatabaseLocation(Protocol):
    """Where a database is or may be made."""

    @property
    def detail(self) -> str:
        """For people; nothing secret."""
        ...

    def open(self, *, marked: bool = False, new: bool = True) -> OpenStore:
        """Open it. `marked`: only a marked one; else, where `new`, it is made or upgraded if need be. Raises DatabaseUnusable and its kinds."""
        ...

    def columns(self, rows: Rows, table: str) -> list[str]:
        """The columns of a table that are written, in any order."""
        ...

    def set_rules_aside(self, rows: Rows) -> object:
        """No trigger acts until `put_rules_back`, which is given the answer; in the same transaction."""
        ...

    def put_rules_back(self, rows: Rows, aside: object) -> None:
        """Triggers act again, and all that is held together by keys was looked at."""
        ...

    def numbers(self, rows: Rows) -> dict[str, int]:
        """By table, the largest number that was ever given."""
        ...

    def set_numbers(self, rows: Rows, numbers: Mapping[str, int]) -> None:
        """The same, set."""
        ...

    def mark(self, rows: Rows, detail: str) -> None:
        """Mark it; empty: take the mark away."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What was moved."""

    counts: dict[str, int]
    """Rows, by table."""
    digest: str
    """Of all rows, the same on both sides."""
    finished_earlier: bool = False
    """An earlier try had moved everything, and only the last step was missing."""


def move(
    source: DatabaseLocation,
    destination: DatabaseLocation,
    *,
    adapt: Callable[[Tx], None],
    progress: Callable[[int, int], None],
) -> Moved:
    """Move everything, and leave the source marked.

    `adapt` is called in the destination before it is used.

    Raises:
        Refused: there is something in the destination.
        DatabaseMoved: the source was moved elsewhere before.
        DatabaseUnusable: and its kinds. The source is as it was.
    """
    try:
        here = source.open()
    except DatabaseMoved:
        return _finish_earlier(source, destination, adapt)
    try:
        mine = here.read(lambda tx: tx.machines.database_id())
        marked = _prepare(destination, mine)

        def work(tx: StoredTx) -> Moved:
            rows = tx.rows
            rows.take_time()
            _fill(source, rows, destination, mine if marked else None, progress)
            moved = _compared(source, rows, destination)
            source.mark(rows, marks.moved(destination.detail))
            return moved

        moved = here.transact("moved", work)
    finally:
        here.close()
    _open_up(destination, mine, adapt)
    return moved


def _is_unfinished(destination: DatabaseLocation) -> bool:
    try:
        destination.open().close()
    except DatabaseMoved:
        return True
    return False


def _prepare(destination: DatabaseLocation, mine: str) -> bool:
    """Look whether it can take everything of the database `mine`; True if an earlier try did not finish."""
    try:
        store = destination.open()
    except DatabaseMoved:
        store = destination.open(marked=True)
        with contextlib.closing(store):
            store.read(lambda tx: _refuse_not_mine(tx.rows, destination, mine))
        return True
    with contextlib.closing(store):
        store.read(lambda tx: _refuse_full(tx.rows, destination))
    return False


def _refuse_not_mine(rows: Rows, destination: DatabaseLocation, mine: str) -> None:
    """What another database was moved to may be all that is left of it."""
    found = marks.stored_mark(rows)
    if found == marks.unfinished(mine):
        return
    if found.startswith(marks.moved("")):
        raise Refused(
            f"The database {destination.detail} was itself moved away: nothing was copied.",
            hint="Move it out of the way, or name another one.",
        )
    raise Refused(
        f"The database {destination.detail} is {found or 'in use'}: nothing was copied.",
        hint="Finish that copy first, or name another, empty database.",
    )


def _refuse_full(rows: Rows, destination: DatabaseLocation) -> None:
    full = [table for table in TABLES if _has_rows(rows, table)]
    if full:
        raise Refused(
            f"The database {destination.detail} is not empty ({', '.join(full[:5])}): nothing was copied.",
            hint="Copy into a new one; what is in two databases cannot be put together.",
        )


def _has_rows(rows: Rows, table: str) -> bool:
    return table not in _MADE_WITH_THE_DATABASE and bool(rows.query(f"SELECT 1 FROM {table} LIMIT 1"))  # noqa: S608 - one of `TABLES`


def _fill(
    source: DatabaseLocation,
    given: Rows,
    destination: DatabaseLocation,
    unfinished: str | None,
    progress: Callable[[int, int], None],
) -> None:
    """Fill it; `unfinished`: an earlier try with the database of that id did not finish, and begins anew."""
    total = sum(int(given.query(f"SELECT count(*) FROM {table}")[0][0] or 0) for table in TABLES)  # noqa: S608 - one of `TABLES`
    there = destination.open(marked=unfinished is not None)

    def work(tx: StoredTx) -> None:
        rows, done = tx.rows, 0
        # Once more, now that it is our turn there: another process may have begun to use it meanwhile.
        if unfinished is None:
            _refuse_full(rows, destination)
        else:
            _refuse_not_mine(rows, destination, unfinished)
        rows.take_time()
        aside = destination.set_rules_aside(rows)
        for table in reversed(list(TABLES)):
            _ = rows.query(f"DELETE FROM {table}")  # noqa: S608 - one of `TABLES`
        for table in TABLES:
            columns = sorted(destination.columns(rows, table))
            if columns != sorted(source.columns(given, table)):
                raise DatabaseCorrupt(f"The two databases keep '{table}' in different columns: nothing was copied.")
            for page in _pages(given, table, columns):
                for chunk in _chunks(page):
                    _insert(rows, table, columns, chunk)
                done += len(page)
                progress(done, total)
        destination.set_numbers(rows, source.numbers(given))
        destination.put_rules_back(rows, aside)
        destination.mark(rows, marks.unfinished(tx.machines.database_id()))

    with contextlib.closing(there):
        there.transact("filled", work)


def _pages(rows: Rows, table: str, columns: list[str]) -> Iterator[list[Row]]:
    """All rows, each page from the key on where the last one ended: counting from the beginning would take longer with each page."""
    keys = TABLES[table].split(", ")
    at = [columns.index(key) for key in keys]
    names = [_name(number) for number in range(len(keys))]
    after = f"WHERE ({TABLES[table]}) > ({', '.join(f':{name}' for name in names)}) "
    values: dict[str, SqlValue] = {"most": _PAGE}
    where = ""
    while True:
        sql = f"SELECT {', '.join(columns)} FROM {table} {where}ORDER BY {TABLES[table]} LIMIT :most"  # noqa: S608 - names of our own schema
        page = rows.query(sql, values)
        if page:
            yield page
        if len(page) < _PAGE:
            return
        where = after
        values |= {name: page[-1][column] for name, column in zip(names, at, strict=True)}


def _chunks(page: list[Row]) -> Iterator[list[Row]]:
    for start in range(0, len(page), _AT_ONCE):
        yield page[start : start + _AT_ONCE]


def _insert(rows: Rows, table: str, columns: list[str], chunk: list[Row]) -> None:
    names = [[_name(number * len(columns) + at) for at in range(len(columns))] for number in range(len(chunk))]
    values = ", ".join(f"({', '.join(f':{name}' for name in row)})" for row in names)
    sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES {values}"  # noqa: S608 - names of our own schema
    given: dict[str, SqlValue] = {}
    for row, row_names in zip(chunk, names, strict=True):
        given |= dict(zip(row_names, row, strict=True))
    _ = rows.query(sql, given)


def _name(number: int) -> str:
    """The name of a parameter: letters only."""
    letters = ""
    while True:
        letters = chr(ord("a") + number % 26) + letters
        number = number // 26 - 1
        if number < 0:
            return f"v_{letters}"


def _compared(source: DatabaseLocation, given: Rows, destination: DatabaseLocation) -> Moved:
    """Both sides, read from end to end."""
    there = destination.open(marked=True)
    with contextlib.closing(there):
        wanted, found = _sum(source, given), there.read(lambda tx: _sum(destination, tx.rows))
    if wanted != found:
        tables = [table for table in TABLES if wanted.counts[table] != found.counts[table]]
        raise DatabaseCorrupt(
            f"What was copied to {destination.detail} is not what was read ({', '.join(tables) or 'contents differ'}).",
            hint="Nothing was changed here. Type it again; if it stays so, please report it.",
        )
    return wanted


def _sum(place: DatabaseLocation, rows: Rows) -> Moved:
    rows.take_time()
    total, counts = hashlib.sha256(), dict.fromkeys(TABLES, 0)
    for table in TABLES:
        columns = sorted(place.columns(rows, table))
        total.update(f"{table} {columns}\n".encode())
        for page in _pages(rows, table, columns):
            for row in page:
                total.update(repr(tuple(map(_plain, row))).encode("utf-8", "backslashreplace"))
            counts[table] += len(page)
    total.update(repr(sorted(place.numbers(rows).items())).encode())
    return Moved(counts=counts, digest=total.hexdigest())


def _plain(value: SqlValue) -> SqlValue:
    """A value as every database can hold it."""
    return value.replace("\x00", "\\x00") if isinstance(value, str) else value


def _open_up(destination: DatabaseLocation, mine: str, adapt: Callable[[Tx], None]) -> None:
    there = destination.open(marked=True)

    def work(tx: StoredTx) -> None:
        _refuse_not_mine(tx.rows, destination, mine)
        tx.rows.take_time()
        adapt(tx)
        destination.mark(tx.rows, "")

    with contextlib.closing(there):
        there.transact("opened", work)


def _finish_earlier(source: DatabaseLocation, destination: DatabaseLocation, adapt: Callable[[Tx], None]) -> Moved:
    """The source was moved already: if it was to here, and that was not opened yet, do that. Raises DatabaseMoved."""
    here = source.open(marked=True)
    with contextlib.closing(here):
        detail, mine = here.read(lambda tx: (marks.stored_mark(tx.rows), tx.machines.database_id()))
        if detail != marks.moved(destination.detail) or not _is_unfinished(destination):
            raise here.read(lambda tx: marks.refusal(tx.rows, source.detail))
        moved = here.read(lambda tx: _sum(source, tx.rows))
    _open_up(destination, mine, adapt)
    return Moved(counts=moved.counts, digest=moved.digest, finished_earlier=True)
