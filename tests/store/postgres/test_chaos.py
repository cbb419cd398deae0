"""Workers that ask again until they are answered, on a server that crashes, and whose connections are cut, in between and in the middle.

Whatever was answered is so, nothing is done twice, nothing is lost: the history is checked afterwards.
"""

import random
import threading
from collections.abc import Callable
from typing import TypeVar

from support.postgres import Server, open_store
from support.records import NOON, claim, make_task, settle
from support.stores import check
from support.waiting import wait_until

from watchkeeper.domain.model import RunState, TaskState
from watchkeeper.errors import DatabaseUnusable, Stale
from watchkeeper.ports.store import Claim
from watchkeeper.store.postgres.store import PostgresStore

WORKERS, TASKS = 4, 60
T = TypeVar("T")


class Worker(threading.Thread):
    """Claims and finishes until nothing is left, and remembers the answers."""

    def __init__(self, number: int, url: str) -> None:
        super().__init__(daemon=True)
        self.number, self.url = number, url
        self.claims: list[Claim] = []
        self.added: list[str] = []
        self.troubles = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:  # noqa: BLE001 - shown by the test
            self.error = error

    def insist(self, call: Callable[[], T]) -> T:
        """Ask until there is an answer."""
        while True:
            try:
                return call()
            except DatabaseUnusable:
                self.troubles += 1

    def work(self) -> None:
        store = self.insist(lambda: open_store(self.url, wait_s=10, answer_s=10))
        for number in range(TASKS // WORKERS):
            self.insist(lambda n=f"w{self.number}-{number}": self.add(store, n))
        while True:
            operation = f"{self.number}-{len(self.claims)}"
            claimed = self.insist(lambda op=operation: store.transact("claim", lambda tx: claim(tx, NOON, op)))
            if claimed is None:
                done = self.insist(lambda: store.read(lambda tx: tx.tasks.counts()[TaskState.DONE]))
                if done == TASKS:
                    store.close()
                    return
                self.claims.append(
                    Claim(task_id="", run_id="", fence=0)
                )  # nothing was free: the next question has another id
                continue
            self.claims.append(claimed)
            self.insist(lambda run_id=claimed.run_id: self.finish(store, run_id))

    def add(self, store: PostgresStore, name: str) -> None:
        try:
            store.transact("add", lambda tx: tx.tasks.add(make_task(name)))
        except Stale:  # an earlier try, whose answer was lost, has added it
            assert self.troubles
        self.added.append(name)

    def finish(self, store: PostgresStore, run_id: str) -> None:
        def work(tx) -> None:
            run = tx.runs.get(run_id)
            if run.state is not RunState.SETTLED:
                _ = tx.journal.append("settled", NOON, run=run)
                _ = settle(tx, run)

        store.transact("settle", work)


def test_nothing_is_lost_or_done_twice(victim: Server) -> None:
    name = victim.database()
    url = victim.url(name)
    open_store(url).close()
    workers = [Worker(number, url) for number in range(WORKERS)]
    for worker in workers:
        worker.start()
    rng = random.Random(7)

    def counted() -> int:
        return int(
            victim.ask("SELECT coalesce(max(last), 0) FROM watchkeeper.counter WHERE name = 'commit'", name)[0][0]
        )

    for wave in range(1, 13):
        wait_until(
            lambda w=wave: counted() >= w * 9 or not any(each.is_alive() for each in workers),
            what="they get on",
            within_s=60,
        )
        if wave % 4 == 0:
            victim.restart()
        else:
            some = rng.choice(("", "AND state <> 'idle'", "AND wait_event IS NULL"))
            victim.ask(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'watchkeeper' {some}")  # fmt: skip
    for worker in workers:
        worker.join(90)
        assert worker.error is None and not worker.is_alive(), worker.error
    assert sum(worker.troubles for worker in workers) > 0

    store = open_store(url)
    check(store)
    claims = [one for worker in workers for one in worker.claims if one.fence]
    names = sorted(name for worker in workers for name in worker.added)
    assert len(names) == TASKS
    assert sorted(one.task_id for one in claims) == names
    assert len({one.fence for one in claims}) == TASKS
    runs = [store.read(lambda tx, i=one.run_id: tx.runs.get(i)) for one in claims]
    assert [(run.state, run.fence, run.number) for run in runs] == [(RunState.SETTLED, one.fence, 1) for one in claims]
    entries = store.read(lambda tx: tx.journal.after(0, 1000))
    assert sorted(str(entry.run_id) for entry in entries) == sorted(run.id for run in runs)
    assert [entry.seq for entry in entries] == list(range(1, TASKS + 1))
    store.close()
