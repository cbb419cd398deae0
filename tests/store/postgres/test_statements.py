"""The statements: the same as SQLite's by name and parameters, each with an index for its walk."""

import re
from itertools import pairwise

import psycopg
import pytest
from support.postgres import ask, open_store
from support.records import claim, later, make_task, settle
from support.statements import own, statements

from watchkeeper.store.postgres.connection import _SETTINGS, compiled
from watchkeeper.store.postgres.schema import PACKAGE
from watchkeeper.store.postgres.store import PostgresStore
from watchkeeper.store.sqlite.schema import PACKAGE as PACKAGE_OF_SQLITE
from watchkeeper.store.statements import SHARED, conflicts_without_row, parameters

ON_SMALL = {"outbox_pending"}
"""Statements that read all of a small table through a bitmap, whose index does not say which table it is of."""

GROWING = {"task", "spec", "run", "execution", "session", "outcome", "launch", "authorisation", "journal", "operation",
           "dependency", "label"}  # fmt: skip
"""Tables that no statement reads from end to end."""

FIRST_OF_INDEX = {
    "queue_next_wake",
    "queue_lanes",
    "journal_last",
    "tasks_pinned",
    "tasks_unseen",
    "tasks_see_all",
    "tasks_waiting_for_failed",
    "tasks_with_worktrees",
}
"""Statements that take the first row of an index in its order, or all of one that holds few."""

WHOLE = {
    "waits_wrong_unmet",
    "waits_wrong_blocked",
    "waits_wrong_claim",
    "waits_wrong_probe",
    "waits_bodies",
    "repair_lane_tasks",
    "damage_counts",
    "damage_largest_fence",
    "damage_numbers",
    "damage_incarnations",
    "damage_waits",
    "damage_rules",
    "queue_waiting",
    "accounts_open_tasks",
    "queue_blocked_for_others",
}
"""Audits, lists of all that waits or is open, and what goes through all lanes for each claim of another machine."""


OURS = statements(PACKAGE)


def test_both_databases_have_the_same_statements() -> None:
    theirs = statements(PACKAGE_OF_SQLITE)
    assert OURS.keys() == theirs.keys()
    assert {name: parameters(sql) for name, sql in OURS.items()} == {
        name: parameters(sql) for name, sql in theirs.items()
    }


def test_a_statement_that_both_understand_stands_once() -> None:
    """What a database says in its own way differs from what the other one says, and is not said in a third place."""
    ours, theirs, shared = own(PACKAGE), own(PACKAGE_OF_SQLITE), own(SHARED)
    assert {file: named.keys() for file, named in ours.items()} == {
        file: named.keys() for file, named in theirs.items()
    }
    for file, named in ours.items():
        assert {name for name, sql in named.items() if sql == theirs[file][name]} == set()
        assert named.keys() & shared[file].keys() == set()


def test_what_changes_is_what_is_written_to() -> None:
    """The same verb and the same table on both."""

    def verb(sql: str) -> tuple[str, ...]:
        found = re.search(r"\b(INSERT INTO|UPDATE|DELETE FROM) (\w+)", re.sub(r"DO UPDATE SET", "", sql))
        return found.groups() if found else ()

    theirs = statements(PACKAGE_OF_SQLITE)
    assert {name: verb(sql) for name, sql in OURS.items()} == {name: verb(sql) for name, sql in theirs.items()}


@pytest.mark.parametrize("name", sorted(name for name, sql in OURS.items() if sql.startswith("INSERT")))
def test_an_insert_that_may_meet_a_taken_key_says_so(name: str) -> None:
    """Either it continues from the conflict by itself, or no row is the conflict, or there is no key but a number of its own."""
    assert "ON CONFLICT" in OURS[name] or name in {"journal_append", "outbox_put"}
    assert conflicts_without_row(OURS[name]) == ("ON CONFLICT DO NOTHING" in OURS[name])


def test_names_become_numbers() -> None:
    made = compiled("SELECT :b, :a::text, ':x'::int, :b FROM t WHERE c LIKE '100%';")
    assert made.sql.startswith(b"SELECT $1, $2::text, '")
    assert made.names[:2] == ("b", "a")


def plan(url: str, sql: str) -> str:
    """How the server goes about a statement, with the settings of our connections."""
    made = compiled(sql)
    values = f"({', '.join('NULL' for _ in made.names)})" if made.names else ""
    with psycopg.connect(url, autocommit=True) as connection:
        _ = connection.execute(_SETTINGS.encode())
        _ = connection.execute(b"PREPARE it AS " + made.sql.rstrip(b";"))
        return "\n".join(line for (line,) in connection.execute(f"EXPLAIN EXECUTE it {values}".encode()).fetchall())


@pytest.fixture(scope="module")
def planned() -> dict[str, str]:
    """The plans of all statements, in an empty database, where a server is most tempted to read everything."""
    from support.postgres import shared_databases

    url = shared_databases().fresh()
    return {name: plan(url, sql) for name, sql in OURS.items()}


def long_walks(text: str) -> list[str]:
    """The scans of growing tables that are not led by a value or by another table's row."""
    lines = text.splitlines()
    found: list[str] = []
    for line, after in pairwise([*lines, ""]):
        scan = re.search(r"(?:Seq|Index|Index Only|Bitmap Index|Bitmap Heap) Scan.*? on (\w+)", line)
        if scan is None or (scan[1] not in GROWING and "Bitmap Index" not in line) or "Bitmap Heap" in line:
            continue
        if not re.search(r'Index Cond: .*(\$\d|[\w"]\.\w+|InitPlan)', after):
            found.append(line.strip())
    return found


def test_no_statement_reads_a_growing_table_from_end_to_end(planned: dict[str, str]) -> None:
    assert all("cost=" in text for text in planned.values())
    walks = {name: long_walks(text) for name, text in planned.items()}
    assert {name: walk for name, walk in walks.items() if walk and name not in FIRST_OF_INDEX | WHOLE | ON_SMALL} == {}


def test_the_check_of_plans_sees_a_scan(databases) -> None:
    """Without its index the plan of a statement is distinguished from a good one."""
    url = databases.fresh()
    sql = OURS["tasks_environment_in_use"]
    assert long_walks(plan(url, sql)) == []
    _ = ask(url, "DROP INDEX watchkeeper.task_environment")
    assert long_walks(plan(url, sql)) != []
    databases.drop(url)


def test_the_first_of_a_lane_is_the_first_of_an_index(planned: dict[str, str]) -> None:
    """The walks of a claim end at the first row, without sorting what waits."""
    for name, index in (("queue_first", "task_ready"), ("queue_next_wake", "task_waiting"), ("queue_lanes", "task_ready"),
                        ("tasks_in_state", "task_state"), ("waits_before", "task_checkout")):  # fmt: skip
        assert re.search(rf"Index (Only )?Scan( Backward)? using {index}", planned[name]), planned[name]
    for name in ("queue_next_wake", "tasks_in_state", "waits_before", "journal_after"):
        assert "Sort" not in planned[name], planned[name]


def test_a_claim_costs_the_same_in_a_long_queue(url: str) -> None:
    """Counted in rows that the server looks at, not in time."""
    store = open_store(url)
    short = looked_at(store, url)
    _ = ask(url, FILL)
    longer = looked_at(store, url)
    store.close()
    assert longer < short + 40, (short, longer)


FILL = """
SET search_path TO watchkeeper;
INSERT INTO task (id, state, version, priority, ready, wake_at, runs, attempts, unlaunched, environment_id, reason,
    created_at, updated_at, ended_at, lane)
SELECT 'f' || i, CASE i % 3 WHEN 0 THEN 'done' ELSE 'queued' END, 0, 0, CASE i % 3 WHEN 1 THEN 0 ELSE 1 END,
    CASE i % 3 WHEN 1 THEN 4e15::bigint + i END, 0, 0, 0, 'e' || i, '', 1, 1, CASE i % 3 WHEN 0 THEN 1 END,
    (SELECT min(id) FROM lane)
FROM generate_series(1, 3000) AS i;
INSERT INTO spec SELECT id, '{"prompt":"p","title":"t","harness":"command","model":null,"cwd":"/"}' FROM task WHERE id LIKE 'f%';
"""


def looked_at(store: PostgresStore, url: str) -> int:
    """How many rows of tasks are fetched by adding, claiming and settling one."""

    def work(tx):
        name = f"t{tx.journal.last()}"
        tx.tasks.add(make_task(name, priority=5))
        claimed = claim(tx, later(1))
        assert claimed is not None and claimed.task_id == name
        _ = settle(tx, tx.runs.get(claimed.run_id))
        _ = tx.journal.append("x", later(1))

    store.transact("once", work)

    def read() -> int:
        connection = store._writer.connection
        assert connection is not None
        found = connection.query(
            "SELECT pg_stat_get_xact_tuples_fetched(c.oid) + pg_stat_get_xact_tuples_returned(c.oid) "
            "FROM pg_class AS c WHERE c.oid IN ('task'::regclass, 'task_ready'::regclass, 'task_waiting'::regclass)"
        )
        return sum(int(number or 0) for (number,) in found)

    seen: list[int] = []
    store.transact("counted", lambda tx: (work(tx), seen.append(read())))
    return seen[0]
