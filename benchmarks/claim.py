"""Whether a long queue makes a claim slower, and how fast claims are, durable, with everything that a daemon's claim does.

    python benchmarks/claim.py [--tasks 400] [--done 1000000] [--blocked 100000] [--postgres URL | --no-postgres] [--directory DIR]

Two databases are measured side by side, in turns: one holds nothing but the tasks to be claimed, the other as many done and blocked ones beside them as
asked for. Blocked ones are of every kind, a sixth each: waiting for another task, for a time, for a checkout, and ready in lanes that are paused, signed out,
or at their limit. Times depend on how long the disk takes to sync, so the time of a bare `fdatasync` is printed beside them. Without a URL a throw-away
PostgreSQL is started.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from filling import Filled, fill_blocked, fill_done, fill_rules
from support.records import make_task, settle

from watchkeeper.app.claim import Claimant, claim
from watchkeeper.ports.store import Authorisation, Store, Tx
from watchkeeper.runtimes.system import RandomIds, SystemClock
from watchkeeper.store.sqlite.store import SqliteStore

TURNS = 20
"""Into how many turns the claims of each database are divided."""


def timed(work: Callable[[], object]) -> float:
    """Seconds that it takes."""
    began = time.perf_counter()
    _ = work()
    return time.perf_counter() - began


def sync_s(directory: Path) -> float:
    """The median of a one-page write with `fdatasync`."""
    with (directory / "sync").open("wb") as file:

        def once() -> None:
            _ = os.pwrite(file.fileno(), b"x" * 4096, 0)
            os.fdatasync(file.fileno())

        return statistics.median(timed(once) for _ in range(200))


class Queue:
    """One database with tasks to claim."""

    def __init__(self, store: Store, tasks: int) -> None:
        """Hand over so many tasks, authorised."""
        self.store = store
        self.clock, self.ids = SystemClock(), RandomIds()
        now = self.clock.now()
        machine = store.transact("begin", lambda tx: tx.machines.begin_incarnation("m1", "boot", now))
        self.claimant = Claimant(machine=machine, limit=1000)
        self.claims: list[float] = []
        self.rounds: list[float] = []

        def work(tx: Tx) -> None:
            for number in range(tasks):
                task = make_task(f"q{number}")
                tx.tasks.add(task)
                name = f"a{number}"
                tx.outcomes.authorise(
                    Authorisation(id=name, task_id=task.id, kind="person", by="me", detail="", at=now)
                )

        store.transact("add", work)

    def turn(self, many: int) -> None:
        """Claim and complete so many."""
        for _ in range(many):
            began = time.perf_counter()
            claimed = claim(self.store, self.clock, self.ids, self.claimant, self.ids.operation())
            self.claims.append(time.perf_counter() - began)
            if claimed is None:
                raise RuntimeError("the queue ran dry")
            run_id = claimed.run_id
            self.store.transact("settle", lambda tx, run_id=run_id: settle(tx, tx.runs.get(run_id)))
            self.rounds.append(time.perf_counter() - began)


def measure(name: str, empty: Filled, full: Filled, options: argparse.Namespace) -> float:
    """Fill one of the two, measure both in turns, print, and return the ratio of the medians."""
    short = Queue(empty.store, options.tasks)
    long = Queue(full.store, options.tasks)
    took = timed(lambda: (fill_done(full, options.done), fill_blocked(full, options.blocked), fill_rules(full)))
    print(f"{name}: {options.done:,} done and {options.blocked:,} blocked tasks made in {took:.0f} s")
    faults = full.store.read(lambda tx: tx.waits.audit()) if options.audit else []
    if faults:
        raise RuntimeError("; ".join(faults[:3]))
    for _ in range(TURNS):
        for queue in (short, long):
            queue.turn(options.tasks // TURNS)
    for label, queue in (("empty queue", short), ("long queue", long)):
        ordered = sorted(queue.claims)
        p99 = ordered[-max(1, len(ordered) // 100)]
        rate = len(queue.rounds) / sum(queue.rounds)
        print(
            f"  {label:12} claim p50 {statistics.median(ordered) * 1e6:7.0f} µs, p99 {p99 * 1e6:7.0f} µs; claim+complete {rate:6.0f} per second"
        )
    ratio = statistics.median(long.claims) / statistics.median(short.claims)
    print(f"  ratio of the medians {ratio:.2f}")
    return ratio


@contextmanager
def sqlite(root: Path) -> Generator[tuple[Filled, Filled], None, None]:
    """Two SQLite databases."""
    stores: list[SqliteStore] = []
    for name in ("empty", "full"):
        (root / name).mkdir()
        stores.append(SqliteStore.open(root / name / "wk.db", root / name / "write.lock", create=True, upgrade=False))
    yield Filled.of_sqlite(stores[0]), Filled.of_sqlite(stores[1])
    for store in stores:
        store.close()


def main() -> int:
    """Measure and print; 1 if a ratio is above the promised one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _ = parser.add_argument("--tasks", type=int, default=400)
    _ = parser.add_argument("--done", type=int, default=1_000_000)
    _ = parser.add_argument("--blocked", type=int, default=100_000)
    _ = parser.add_argument("--most", type=float, default=1.5, help="the largest ratio that is good")
    _ = parser.add_argument("--audit", action="store_true", help="audit the filled database first, which reads it all")
    _ = parser.add_argument("--directory", type=Path, default=None)
    _ = parser.add_argument("--postgres", default=None, metavar="URL")
    _ = parser.add_argument("--no-postgres", action="store_true")
    options = parser.parse_args()
    ratios: list[float] = []
    with tempfile.TemporaryDirectory(dir=options.directory) as where:
        root = Path(where)
        print(f"fdatasync of a page {sync_s(root) * 1e6:.0f} µs (median)")
        with sqlite(root) as (empty, full):
            ratios.append(measure("SQLite", empty, full, options))
        if not options.no_postgres:
            from filling_postgres import postgres  # noqa: PLC0415 - SQLite alone needs no driver

            with postgres(options.postgres) as (empty, full):
                ratios.append(measure("PostgreSQL", empty, full, options))
    return int(max(ratios) > options.most)


if __name__ == "__main__":
    raise SystemExit(main())
