"""How fast a claim is, durable (FULL), and whether a long queue makes it slower.

    python benchmarks/claim.py [--tasks 1000] [--long 20000] [--directory DIR]

Prints claim+complete per second for one process, and the median claim with an empty and with a long queue (as many tasks ready as done). Times depend on
how long the disk takes to sync, so the time of a bare `fdatasync` is printed beside them.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.records import NOON, claim, make_task, settle

from watchkeeper.ports.store import Tx
from watchkeeper.store.sqlite.store import SqliteStore


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


def fill(store: SqliteStore, name: str, many: int) -> None:
    """Add so many tasks."""
    for start in range(0, many, 1000):

        def work(tx: Tx, start: int = start) -> None:
            for number in range(start, min(many, start + 1000)):
                tx.tasks.add(make_task(f"{name}{number}"))

        store.transact("fill", work, durable=False)


def finish(store: SqliteStore, many: int) -> None:
    """Claim and settle so many, fast."""
    for _ in range(0, many, 500):

        def work(tx: Tx) -> None:
            for _ in range(500):
                claimed = claim(tx)
                if claimed is not None:
                    _ = settle(tx, tx.runs.get(claimed.run_id))

        store.transact("finish", work, durable=False)


def rounds(store: SqliteStore, many: int) -> tuple[list[float], float, float]:
    """Claim and complete so many, durably; the times of the claims, of everything, and of the processor alone."""
    claims: list[float] = []
    began, busy = time.perf_counter(), time.process_time()
    for number in range(many):
        at = time.perf_counter()
        claimed = store.transact("claim", lambda tx, n=number: claim(tx, NOON, f"op{id(store)}-{n}"))
        claims.append(time.perf_counter() - at)
        if claimed is None:
            raise RuntimeError("the queue ran dry")
        store.transact("settle", lambda tx, run_id=claimed.run_id: settle(tx, tx.runs.get(run_id)))
    return claims, time.perf_counter() - began, time.process_time() - busy


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    _ = parser.add_argument("--tasks", type=int, default=1000)
    _ = parser.add_argument("--long", type=int, default=20_000)
    _ = parser.add_argument("--directory", type=Path, default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as where:
        root = Path(where)
        print(f"fdatasync of a page          {sync_s(root) * 1e6:8.0f} µs (median)")
        for name, long in (("empty", 0), ("long", arguments.long)):
            (root / name).mkdir()
            store = SqliteStore.open(root / name / "wk.db", root / name / "turnstile", create=True, upgrade=False)
            fill(store, "d", long)
            finish(store, long)
            fill(store, "q", arguments.tasks + long)
            claims, total, busy = rounds(store, arguments.tasks)
            ordered = sorted(claims)
            print(f"{name} queue ({long} ready, {long} done)")
            print(
                f"  claim+complete, durable    {arguments.tasks / total:8.0f} per second ({busy / arguments.tasks * 1e6:.0f} µs of processor each)"
            )
            print(
                f"  claim p50 / p99            {ordered[len(ordered) // 2] * 1e6:8.0f} / {ordered[-max(1, len(ordered) // 100)] * 1e6:.0f} µs"
            )
            store.close()


if __name__ == "__main__":
    main()
