"""A database that an earlier version left is brought up to date with everything in it, and continues to work.

`data/NAME.sql` is the dump of a database that the version with the schema NAME wrote: one task in each place.
"""

from contextlib import closing
from pathlib import Path

import apsw
import pytest
from support.records import NOON, at_work, claim, later, settle

from watchkeeper.domain.model import RunState, TaskState
from watchkeeper.domain.wait import Wait
from watchkeeper.store.sqlite.store import SqliteStore

DATA = Path(__file__).with_name("data")


@pytest.fixture(params=sorted(path.stem for path in DATA.glob("*.sql")))
def upgraded(request: pytest.FixtureRequest, tmp_path: Path):
    """The old database, opened by a daemon of this version."""
    with closing(apsw.Connection(str(tmp_path / "wk.db"))) as old:
        _ = old.execute((DATA / f"{request.param}.sql").read_text(encoding="utf-8"))
    store = SqliteStore.open(tmp_path / "wk.db", tmp_path / "write.lock", create=False, upgrade=True)
    yield store
    store.close()


def test_nothing_is_lost_and_every_kept_fact_is_right(upgraded: SqliteStore) -> None:
    upgraded.check(thorough=True)
    assert upgraded.read(lambda tx: tx.waits.audit()) == []
    tasks = upgraded.read(lambda tx: {task.id: task for task in tx.tasks.in_states(list(TaskState), 100)})
    assert {name: task.state.value for name, task in tasks.items()} == {
        "runs": "running", "done": "done", "retries": "queued", "stopped": "running", "held": "held", "waits": "queued",
        "later": "queued", "quoted": "queued",
    }  # fmt: skip
    assert tasks["quoted"].spec.title == 'Zoë\'s "task" — ok'
    assert (tasks["retries"].wake_for, tasks["later"].wake_for) == (Wait.RETRY_AT, Wait.NOT_BEFORE)
    assert upgraded.read(lambda tx: tx.outcomes.get("done.1")) is not None
    assert upgraded.read(lambda tx: [run.id for run in tx.runs.live()]) == ["runs.1", "stopped.1", "held.1"]
    assert upgraded.read(lambda tx: (tx.journal.last(), tx.outbox.pending())) == (8, 1)
    for effect in upgraded.read(lambda tx: tx.outbox.due(NOON, 10, "m1")):
        assert effect.effect.kind == "forget_environment"


def test_its_runs_count_against_the_limits(upgraded: SqliteStore) -> None:
    occupied = upgraded.read(lambda tx: tx.queue.occupied())
    assert [(each.machine, each.lane.harness, each.agents) for each in occupied] == [("m1", "command", 2)]
    assert upgraded.read(at_work) == 2


def test_it_goes_on(upgraded: SqliteStore) -> None:
    claimed = [upgraded.transact("claim", lambda tx: claim(tx, later(7200))) for _ in range(5)]
    assert [each.task_id if each else None for each in claimed] == ["retries", "waits", "later", "quoted", None]
    for run in upgraded.read(lambda tx: tx.runs.live()):
        if run.state is RunState.RESERVED:
            upgraded.transact("settle", lambda tx, run=run: settle(tx, run))
    assert upgraded.read(lambda tx: tx.waits.audit()) == []
    upgraded.check(thorough=True)
