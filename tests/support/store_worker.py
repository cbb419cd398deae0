"""One of many processes that add, claim and finish tasks in one database. Run as a program; prints what it did as JSON.

usage: store_worker.py PLACE NAME OWN TOTAL
"""

import json
import sys
import time

from support.records import NOON, claim, make_task, settle
from support.stores import open_place

from watchkeeper.domain.model import TaskState


def main(place: str, name: str, own: int, total: int) -> list[tuple[str, str, int]]:
    """Add `own` tasks, then claim and finish until all `total` are done; returns (task, run, fence) of each claim."""
    store = open_place(place, wait_s=60)
    given_up_at = time.monotonic() + 90
    claims: list[tuple[str, str, int]] = []
    for number in range(own):
        store.transact("add", lambda tx, n=number: tx.tasks.add(make_task(f"{name}-{n}", priority=n % 3)))
    while True:
        claimed = store.transact("claim", lambda tx: claim(tx, NOON, f"{name}-{len(claims)}"))
        if claimed is None:
            if store.read(lambda tx: tx.tasks.counts())[TaskState.DONE] == total:
                store.close()
                return claims
            if time.monotonic() > given_up_at:
                raise TimeoutError(str(store.read(lambda tx: tx.tasks.counts())))
            time.sleep(0.01)
            continue
        claims.append((claimed.task_id, claimed.run_id, claimed.fence))

        def finish(tx, run_id=claimed.run_id):
            run = tx.runs.get(run_id)
            _ = tx.journal.append("run.settled", NOON, run=run)
            _ = settle(tx, run)

        store.transact("settle", finish)


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
