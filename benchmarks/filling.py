"""Fill a database with very many tasks at once, by SQL of its own, as the program itself would have left them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from support.records import NOON, add, make_spec, make_task, reserve
from support.sqlite_inside import inside

from watchkeeper.domain.account import SignIn, SignInSeen
from watchkeeper.domain.lanes import QueueRule
from watchkeeper.domain.model import TaskSpec, TaskState
from watchkeeper.ports.store import Store, Tx
from watchkeeper.runtimes.system import SystemClock
from watchkeeper.store.sqlite.store import SqliteStore

KINDS = ("dependency", "not before", "checkout busy", "paused", "signed out", "limit")
"""How the blocked ones are blocked."""

SERIES = {
    "sqlite": "(WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {many}) SELECT i FROM n)",
    "postgres": "generate_series(1, {many}) AS n (i)",
}

BODY = (
    '\'{{"prompt":"p","title":"t","harness":"{harness}","model":null,"cwd":"/","project":"{project}",'
    '"checkout":{checkout},"priority":\' || (i % 5) || \'}}\''
)

TASKS = """
INSERT INTO task ({seq_name}id, state, version, priority, ready, wake_at, wake_for, runs, attempts, unlaunched, environment_id, reason,
    created_at, updated_at, ended_at, lane, unmet, checkout, blocked)
SELECT {seq}'{name}' || i, '{state}', 0, i % 5, {ready}, {wake_at}, {wake_for}, {runs}, 0, 0, 'e{name}' || i, '', 1, 1, {ended_at},
    {lane}, {unmet}, {checkout}, {blocked} FROM {series};
INSERT INTO spec (task_id, body) SELECT '{name}' || i, {body} FROM {series};
"""

DONE = """
INSERT INTO session (id, task_id, harness, harness_session, created_at) SELECT 'd' || i || '.s1', 'd' || i, 'command', NULL, 1 FROM {series};
INSERT INTO execution (id, session_id, machine, incarnation) SELECT 'xd' || i, 'd' || i || '.s1', 'm1', 1 FROM {series};
INSERT INTO run (id, task_id, number, fence, execution_id, cause, state, claimed_at, reason, settled_at)
SELECT 'd' || i || '.1', 'd' || i, 1, 1000000000 + i, 'xd' || i, 'initial', 'settled', 1, '', 1 FROM {series};
INSERT INTO outcome (run_id, fence, status, disposition, reason, at, proof, said, usage, leftovers)
SELECT 'd' || i || '.1', 1000000000 + i, 'succeeded', 'done', '', 1, 'proven', '{{}}', '{{}}', '[]' FROM {series};
INSERT INTO journal ({seq_name}at, kind, task_id, run_id, fence, data)
SELECT {seq}1, 'run.settled', 'd' || i, 'd' || i || '.1', 1000000000 + i, '{{}}' FROM {series};
INSERT INTO operation (id, task_id, run_id, fence, cancelled, at) SELECT 'opd' || i, 'd' || i, 'd' || i || '.1', 1000000000 + i, 0, 1 FROM {series};
"""

DEPENDENCIES = "INSERT INTO dependency (task_id, on_id) SELECT 'dependent' || i, 'root1' FROM {series}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A database, and how raw SQL reaches it."""

    store: Store
    dialect: str
    run: Callable[[str], object]
    """Runs some statements in one transaction."""
    tidy: Callable[[], object]
    """Leaves the database as it would be after a while: statistics, log written back."""
    numbers: Iterator[int] | None = None
    """Where the database counts rows in a row of its own: blocks of numbers for those that are put past it."""

    @classmethod
    def of_sqlite(cls, store: SqliteStore) -> "Filled":
        """A SQLite database."""

        def run(sql: str) -> None:
            _ = store.transact("fill", lambda _: inside(store).query(sql), durable=False)

        def tidy() -> None:
            _ = store.read(lambda tx: tx.journal.last())
            _ = inside(store).query("PRAGMA wal_checkpoint(TRUNCATE)")

        return cls(store=store, dialect="sqlite", run=run, tidy=tidy)

    def tasks(self, name: str, many: int, spec: TaskSpec, **columns: str) -> None:
        """So many tasks called `name1`, `name2` …, in the lane of `spec`, with these columns beside the usual ones."""
        usual = {
            "state": "queued",
            "ready": "1",
            "wake_at": "NULL",
            "wake_for": "NULL",
            "runs": "0",
            "ended_at": "NULL",
        }
        checkout = "NULL" if spec.checkout is None else f"'{spec.checkout}'"
        body = BODY.format(
            harness=spec.harness,
            project=spec.project,
            checkout="null" if spec.checkout is None else f'"{spec.checkout}"',
        )
        values = usual | {"unmet": "0", "blocked": "0"} | columns
        self.run(
            TASKS.format(
                name=name, lane=lane(self.store, spec), checkout=checkout, body=body, **self.rows(many), **values
            )
        )

    def rows(self, many: int) -> dict[str, str]:
        """So many rows with a number `i`, and how they are numbered."""
        series = SERIES[self.dialect].format(many=many)
        if self.numbers is None:
            return {"series": series, "seq_name": "", "seq": ""}
        return {"series": series, "seq_name": "seq, ", "seq": f"{next(self.numbers)} + i, "}


def lane(store: Store, spec: TaskSpec) -> int:
    """The number of a spec's lane, made by a task that was stopped at once."""
    task = replace(make_task(f"lane-{spec.harness}-{spec.project}-{spec.checkout}"), spec=spec)

    def work(tx: Tx) -> int:
        if not tx.tasks.ids_like(task.id, 1):
            tx.tasks.add(replace(task, state=TaskState.STOPPED, ended_at=NOON))
        return tx.waits.facts(task.id).lane.id

    return store.transact("lane", work)


def fill_done(filled: Filled, many: int) -> None:
    """So many tasks that were done, with all that belongs to them."""
    filled.tasks("d", many, make_spec(), state="done", runs="1", ended_at="1")
    filled.run(DONE.format(**filled.rows(many)))
    filled.tidy()


def fill_blocked(filled: Filled, many: int) -> None:
    """So many tasks that wait, a share for each kind."""
    each = many // len(KINDS)
    far = str(4 * 10**15)
    filled.tasks("root", 1, make_spec(), ready="0", wake_at=far, wake_for="'not before'")
    filled.tasks("dependent", each, make_spec(), unmet="1")
    filled.run(DEPENDENCIES.format(**filled.rows(each)))
    filled.tasks("sleeper", each, make_spec(), ready="0", wake_at=far, wake_for="'not before'")
    busy = make_spec(project="busy", checkout="/busy")
    occupy(filled.store, busy)
    filled.tasks("blocked", each, busy, blocked="1")
    filled.tasks("paused", each, make_spec(project="paused"))
    filled.tasks("out", each, make_spec(harness="claude"))
    full = make_spec(project="full")
    occupy(filled.store, full)
    filled.tasks("limited", each, full)
    filled.tidy()


def fill_rules(filled: Filled) -> None:
    """What keeps the lanes of the blocked ones closed."""
    now = SystemClock().now()

    def work(tx: Tx) -> None:
        tx.rules.put(QueueRule(scope="project", name="paused", paused=True, by="me", at=now))
        tx.rules.put(QueueRule(scope="project", name="full", max_running=1, by="me", at=now))
        _ = tx.accounts.observe("claude:own", "m1", SignInSeen(sign_in=SignIn.OUT, at=now))

    filled.store.transact("rules", work)


def occupy(store: Store, spec: TaskSpec) -> None:
    """A task of that kind that works."""
    task = replace(make_task(f"works-{spec.project}"), spec=spec)
    _ = store.transact("occupy", lambda tx: reserve(tx, add(tx, task)))
