"""The same random program on every database: each answer, each refusal and every row is the same, after every step.

`WATCHKEEPER_DIFFERENTIAL_STEPS` asks for more than the usual 20,000 steps in all.
"""

import os
import re
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path

import apsw
import psycopg
import pytest
from support.programs import Program, Work
from support.stores import KINDS, check, fresh_place, open_place

from watchkeeper.errors import Stale, WatchkeeperError

PARTS = 10
STEPS = int(os.environ.get("WATCHKEEPER_DIFFERENTIAL_STEPS", "20000")) // PARTS
A_WORLD = 200
"""So many steps a program has; then another one begins in an empty database."""

UNLIKE = {"migration", "meta"}
"""Tables whose rows differ: hashes of other texts, and a random id. The fence in `meta` shows in every run."""


class World:
    """One database, with a way to look at all of its rows that does not use our code."""

    def __init__(self, kind: str, place: str, tables: dict[str, list[str]]) -> None:
        """Open it."""
        self._place = place
        self.store = open_place(place)
        self._queries = [
            f"SELECT {', '.join(columns)} FROM {name} ORDER BY {', '.join(map(str, range(1, len(columns) + 1)))}"
            for name, columns in tables.items()
        ]
        self._server: psycopg.Connection | None = None
        self._file: apsw.Connection | None = None
        if kind == "postgres":
            self._server = psycopg.connect(place, autocommit=True)
            _ = self._server.execute("SET search_path TO watchkeeper; SET enable_hashjoin TO off")
        else:
            self._file = apsw.Connection(f"{place}/wk.db", flags=apsw.SQLITE_OPEN_READONLY)
        self._mark = -1
        self._seen: list[list[tuple]] = []

    def restart(self) -> None:
        """Close it and open it again."""
        self.store.close()
        self.store = open_place(self._place)
        self._mark = -1

    def do(self, name: str, work: Work) -> tuple[object, ...]:
        """One step, and what became of it."""
        try:
            return "done", self.store.transact(re.sub(r"\W", "_", name), work, durable=False)
        except Stale as stale:
            return "stale", str(stale)
        except WatchkeeperError as error:
            return type(error).__name__, "impossible" in str(error) or str(error)

    def everything(self) -> list[list[tuple]]:
        """All rows of all tables; looked at only if there was a commit."""
        changed, mark = self.store.changed(self._mark)
        if changed:
            self._mark = mark
            if self._server is not None:
                found = self._server.execute(";".join(self._queries).encode())
                self._seen = [found.fetchall()]
                while found.nextset():
                    self._seen.append(found.fetchall())
            elif self._file is not None:
                self._seen = [list(self._file.execute(query)) for query in self._queries]
        return self._seen

    def close(self) -> None:
        """Close it."""
        self.store.close()
        if self._server is not None:
            self._server.close()
        if self._file is not None:
            self._file.close()


def tables_of(place: str) -> dict[str, list[str]]:
    """The tables and columns that are compared: all of SQLite's."""
    open_place(place).close()
    file = apsw.Connection(str(Path(place) / "wk.db"), flags=apsw.SQLITE_OPEN_READONLY)
    names = [
        str(row[0])
        for row in file.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    ]
    found = {
        name: [str(row[1]) for row in file.execute(f"PRAGMA table_xinfo({name})")]
        for name in names
        if name not in UNLIKE
    }
    file.close()
    return found


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.timeout(900)
def test_both_databases_do_the_same(part: int) -> None:
    done: Counter[str] = Counter()
    with fresh_place("sqlite") as place:
        tables = tables_of(place)
    assert len(tables) > 15
    for world in range(-(-STEPS // A_WORLD)):
        run_one(f"{part}.{world}", min(A_WORLD, STEPS - world * A_WORLD), tables, done)
    assert done.total() == STEPS
    print(f"\n{done.total()} steps, no difference: {dict(done.most_common())}")
    if STEPS >= 1000:
        assert (
            min(done[what] for what in ("add: done", "claim: done", "settle: done", "settle: stale", "stop: done"))
            > STEPS / 200
        )


def run_one(seed: str, steps: int, tables: dict[str, list[str]], done: Counter[str]) -> None:
    """One program on fresh databases."""
    with ExitStack() as stack:
        worlds = [stack.enter_context(closing(World(k, stack.enter_context(fresh_place(k)), tables))) for k in KINDS]
        program = Program(seed)
        for number in range(steps):
            if program.restarts():
                for world in worlds:
                    world.restart()
            name, work = program.step()
            ours, theirs = (world.do(name, work) for world in worlds)
            assert ours == theirs, f"program {seed}, step {number}: {name}"
            done[f"{name.removesuffix(', undone')}: {ours[0]}"] += 1
            for table, mine, yours in zip(tables, *(world.everything() for world in worlds), strict=True):
                assert mine == yours, f"program {seed}, step {number}: {name} left another {table}"
            if ours[0] == "done":
                program.learn(ours[1])
        for world in worlds:
            check(world.store)


def test_a_difference_is_seen() -> None:
    """A row that is on one database alone ends the program."""
    with ExitStack() as stack:
        places = [stack.enter_context(fresh_place(kind)) for kind in KINDS]
        tables = tables_of(places[0])
        worlds = [stack.enter_context(closing(World(k, p, tables))) for k, p in zip(KINDS, places, strict=True)]
        assert worlds[0].everything() == worlds[1].everything()
        _ = worlds[0].do("fence", lambda tx: tx.journal.append("x", Program("").now))
        assert worlds[0].everything() != worlds[1].everything()
