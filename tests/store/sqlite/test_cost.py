"""What a claim costs does not grow with the queue, nor with what is done. Counted in steps of SQLite's machine, not in time."""

import re
from pathlib import Path

import pytest
from support.records import NOON, add, at_work, claim, first, later, make_task, settle
from support.sqlite_inside import inside
from support.statements import statements

from watchkeeper.domain.model import TaskState
from watchkeeper.store.sqlite.schema import PACKAGE
from watchkeeper.store.sqlite.store import SqliteStore
from watchkeeper.store.statements import parameters

SMALL = {
    "damage",
    "lane",
    "lane_closed",
    "claim",
    "tally",
    "outbox",
    "seen",
    "open",
    "queue_rule",
    "harness_state",
    "account_state",
    "account",
    "machine",
    "notice_sink",
    "CONSTANT",
    "pragma_page_count",
    "pragma_page_size",
}
"""What may be read from end to end: live claims, one row per state, effects that wait, lanes with ready tasks, rules, accounts, machines; a row of
constants; two numbers of the file."""

AUDITS = {
    "waits_wrong_unmet", "waits_wrong_blocked", "waits_wrong_claim", "waits_wrong_probe", "repair_lane_tasks", "repair_tally",
    "damage_counts", "damage_largest_fence", "damage_numbers", "damage_incarnations", "damage_waits", "damage_rules",
}  # fmt: skip
"""Statements that compare everything, which nothing but `wk doctor` and a repair asks for."""

SORTED = {
    "damage_all", "damage_of_task",
    "tasks_ids_like", "runs_by_execution", "queue_first", "queue_occupied", "waits_dependencies", "waits_dependents",
    "machines_all", "tasks_checkouts_of_dependents", "tasks_brief", "queue_waiting", "accounts_open_tasks",
    "queue_blocked_for_others", "tasks_with_worktrees", "queue_first_untried", "queue_first_tried",
}  # fmt: skip
"""Statements that sort what they find: ids with a prefix, runs of one execution, one task of each open lane, live claims, a task's relations, machines.
`queue_first_tried` sorts the ready tasks of an account that its service failed last, for each probe.
`queue_waiting` and `accounts_open_tasks` sort all that waits: they are asked by `wk queue show` and `wk account ls`, and by nothing that runs tasks."""

FIRST_OF_INDEX = {
    "task USING INDEX task_ready",
    "task USING INDEX task_waiting",
    "task USING COVERING INDEX task_ready",
    "spec USING INDEX spec_worktree",
    "spec USING COVERING INDEX spec_worktree",
}
"""Walks down an index in its order that end at the first row, or that holds few."""

FILL = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :many)
INSERT INTO task (id, state, version, priority, ready, wake_at, runs, attempts, unlaunched, environment_id, reason, created_at,
    updated_at, ended_at, lane, unmet, checkout, blocked)
SELECT :name || i, :state, 0, i % 5, :ready, CASE :ready WHEN 0 THEN :wake END, :runs, 0, 0, 'e' || :name || i, '', 1, 1,
    CASE :state WHEN 'done' THEN 1 END, 1, :unmet, CASE :blocked WHEN 1 THEN '/busy' END, :blocked FROM n;
"""
FILL_LANE = "INSERT INTO lane (machine, harness, account, project) VALUES ('', 'h', 'h:own', '') ON CONFLICT DO NOTHING"
FILL_SPECS = """
INSERT INTO spec SELECT id, '{"prompt":"p","title":"t","harness":"h","model":null,"cwd":"/"}' FROM task
WHERE id NOT IN (SELECT task_id FROM spec)
"""
FILL_RUNS = """
INSERT INTO session SELECT id || '.s1', id, 'h', NULL, 1 FROM task WHERE state = 'done';
INSERT INTO execution (id, session_id, machine, incarnation) SELECT 'x' || id, id || '.s1', 'm', 1 FROM task WHERE state = 'done';
INSERT INTO run (id, task_id, number, fence, execution_id, cause, state, claimed_at, reason, settled_at)
SELECT id || '.1', id, 1, 1000000 + seq, 'x' || id, 'initial', 'settled', 1, '', 1 FROM task WHERE state = 'done';
INSERT INTO outcome (run_id, fence, status, disposition, reason, at, proof, said, usage, leftovers)
SELECT id, fence, 'succeeded', 'done', '', 1, 'proven', '{}', '{}', '[]' FROM run;
INSERT INTO journal (at, kind, task_id, run_id, fence, data) SELECT 1, 'x', task_id, id, fence, '{}' FROM run;
INSERT INTO operation SELECT 'op' || id, task_id, id, fence, 0, 1 FROM run;
"""


def fill(store: SqliteStore, many: int) -> None:
    """Put as many tasks as that into each place: ready, waiting, done with all that belongs to it."""

    def work(tx):
        query = inside(store).query
        far = 4 * 10**15
        _ = query(FILL_LANE)
        for name, state, ready, runs in (("q", "queued", 1, 0), ("w", "queued", 0, 0), ("d", "done", 1, 1)):
            fixed = {"state": state, "ready": ready, "runs": runs, "wake": far, "unmet": 0, "blocked": 0}
            _ = query(FILL, {"many": many, "name": name, **fixed})
        for name, unmet, blocked in (("u", 1, 0), ("p", 0, 1)):
            fixed = {"state": "queued", "ready": 1, "runs": 0, "wake": far, "unmet": unmet, "blocked": blocked}
            _ = query(FILL, {"many": many, "name": name, **fixed})
        _ = query(FILL_SPECS)
        _ = query(FILL_RUNS)

    store.transact("fill", work, durable=False)


def steps(store: SqliteStore, work) -> int:
    """How many steps a transaction takes."""
    count = 0

    def step() -> bool:
        nonlocal count
        count += 1
        return False

    _ = store.transact("warm", lambda tx: None)  # the settings of the connection are not counted
    inside(store)._raw.set_progress_handler(step, 1)
    _ = store.transact("count", work)
    inside(store)._raw.set_progress_handler(None)
    return count


@pytest.fixture(params=[20_000])
def stores(tmp_path: Path, request: pytest.FixtureRequest):
    """Two databases: one with ten tasks in each place, one with very many."""
    made = []
    for name, many in (("short", 10), ("long", request.param)):
        (tmp_path / name).mkdir()
        made.append(SqliteStore.open(tmp_path / name / "wk.db", tmp_path / name / "t", create=True, upgrade=False))
        fill(made[-1], many)
    yield made
    for store in made:
        store.close()


def test_the_hot_transactions_cost_the_same_at_any_length(stores) -> None:
    """Claim, settle, retry, look and count: not a step more with 20,000 tasks in each place than with ten."""
    works = {
        "claim": lambda tx: claim(tx, NOON, "operation"),
        "settle": lambda tx: settle(tx, tx.runs.live()[0]),
        "claim again": claim,
        "retry": lambda tx: settle(tx, tx.runs.live()[0], wake_at=later(1)),
        "look": lambda tx: (
            first(tx, later(2)),
            tx.queue.next_wake(),
            at_work(tx),
            tx.runs.live(),
        ),
        "add": lambda tx: add(tx, make_task("new")),
        "count": lambda tx: (tx.tasks.counts(), tx.journal.last(), tx.outbox.pending()),
        "page": lambda tx: tx.tasks.in_states(list(TaskState), 5),
        "environment": lambda tx: (tx.tasks.environment_in_use("ed7"), tx.tasks.environment_in_use("eq7")),
        "one task": lambda tx: (tx.runs.of_task("d7"), tx.journal.after(0, 5, "d7"), tx.runs.by_execution("xd7")),
    }
    costs = {name: [steps(store, work) for store in stores] for name, work in works.items()}
    assert all(short > 20 for short, _ in costs.values())
    assert {name: cost for name, cost in costs.items() if abs(cost[1] - cost[0]) > 5} == {}


def plans(store: SqliteStore) -> dict[str, list[str]]:
    """How SQLite goes about each statement."""
    found: dict[str, list[str]] = {}
    for name, sql in statements(PACKAGE).items():
        rows = inside(store).query("EXPLAIN QUERY PLAN " + sql, dict.fromkeys(parameters(sql), 1))
        found[name] = [str(row[3]) for row in rows]
    return found


def test_no_statement_reads_a_growing_table_from_end_to_end(sqlite: SqliteStore) -> None:
    scans = {
        (name, line.removeprefix("SCAN "))
        for name, plan in plans(sqlite).items()
        for line in plan
        if name not in AUDITS
        if line.startswith("SCAN") and line.split()[1] not in SMALL and line.removeprefix("SCAN ") not in FIRST_OF_INDEX
    }
    assert scans == set()
    assert {name for name, plan in plans(sqlite).items() if any("TEMP B-TREE" in line for line in plan)} == SORTED


def test_the_check_of_plans_sees_a_scan(sqlite: SqliteStore) -> None:
    """Without its index, a page of tasks reads them all, and the check would say so."""
    _ = inside(sqlite).query("PRAGMA query_only=OFF")
    _ = inside(sqlite).query("DROP INDEX task_environment")
    assert "SCAN task" in plans(sqlite)["tasks_environment_in_use"]


def test_the_tally_is_the_count(sqlite: SqliteStore) -> None:
    """The counts that triggers keep, held against the rows they stand for, after moves of every kind."""
    fill(sqlite, 30)
    for _ in range(5):
        sqlite.transact("claim", claim)
    for run in sqlite.read(lambda tx: tx.runs.live())[:3]:
        sqlite.transact("settle", lambda tx, r=run: settle(tx, r, wake_at=later(1) if r.fence % 2 else None))
    rows = inside(sqlite).query("SELECT state, count(*) FROM task GROUP BY state")
    counted = {str(state): number for state, number in rows}
    assert sqlite.read(lambda tx: {state.value: n for state, n in tx.tasks.counts().items() if n}) == counted
    assert sqlite.read(at_work) == 2


def test_statements_name_no_index_that_is_not_there(sqlite: SqliteStore) -> None:
    text = "".join(statements(PACKAGE).values())
    for name in re.findall(r"INDEXED BY (\w+)", text):
        assert inside(sqlite).query(f"SELECT 1 FROM sqlite_schema WHERE name = '{name}'")
