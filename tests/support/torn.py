"""Databases with one torn record, and everything that is to continue all the same."""

import contextlib
import io
import shutil
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import psycopg
from runtimes.stage import SteppedClock
from support.postgres import _TABLES, _WIPE, open_store, shared_databases
from support.records import NOON, add, end, make_profile, make_spec, make_task, reserve, settle
from support.side import side_commands

from watchkeeper.app.claim import Claimant, claim
from watchkeeper.app.damage import Damaged
from watchkeeper.app.perform import Performer
from watchkeeper.app.record import apply_run
from watchkeeper.app.remove import Remover
from watchkeeper.app.retention import Retention
from watchkeeper.app.settle import Settler
from watchkeeper.app.views import rows as lists
from watchkeeper.app.views.health import health
from watchkeeper.app.views.why import Here, queue
from watchkeeper.daemon.log import Log
from watchkeeper.daemon.settle import SettleLoop
from watchkeeper.domain.account import Account, SignIn, SignInSeen
from watchkeeper.domain.lanes import HarnessState, QueueRule
from watchkeeper.domain.message import Message, MessageState, Turn
from watchkeeper.domain.model import DirectoryIdentity, TaskState
from watchkeeper.domain.notice import SinkName, SinkState
from watchkeeper.domain.outcome_record import Changes
from watchkeeper.domain.run_events import (
    Prepared,
)
from watchkeeper.domain.settlement import RetryPolicy
from watchkeeper.domain.side_command import CommandKind, CommandResult, CommandState, SideCommand
from watchkeeper.errors import UnknownHarness, WatchkeeperError
from watchkeeper.ports.store import Authorisation, Damage, MachineRecord, Store, Tx
from watchkeeper.runtimes.environments import FileEnvironments
from watchkeeper.runtimes.process import ProcessRuntime
from watchkeeper.runtimes.system import RandomIds
from watchkeeper.store.sqlite.store import SqliteStore
from watchkeeper.workspaces.git import GitWorkspace

MACHINE = MachineRecord(id="m1", incarnation=1, boot_id="boot", started_at=NOON, name="here")
GROUPS = ("a", "b", "c")
"""There is one task of each kind in each of them; the torn record is about one of the first."""


def fill(tx: Tx) -> None:
    """Three tasks in each state, and something in every table."""
    tx.machines.begin_incarnation("m1", "boot", NOON, name="here")
    tx.accounts.add(Account(harness="claude", name="work", home="/h", variables=("K",), created_at=NOON, by="ada"))
    tx.accounts.observe("claude:work", "m1", SignInSeen(sign_in=SignIn.IN, at=NOON, detail="", mark="1"))
    tx.accounts.record_harness(HarnessState(harness="claude", machine="m1", present=True, detail="", at=NOON))
    tx.rules.put(QueueRule(scope="harness", name="codex", paused=True, by="ada", at=NOON))
    for group in GROUPS:
        done = add(tx, make_task(f"done-{group}", spec=make_spec(labels=("night",), project=group)))
        authorise(tx, done.id)
        first = reserve(tx, done)
        tx.outcomes.record_launch(first, f"x-{done.id}")
        settle(tx, end(tx, first))
        ended = add(tx, make_task(f"ended-{group}", spec=make_spec(project=group)))
        authorise(tx, ended.id)
        run = reserve(tx, ended)
        tx.outcomes.record_launch(run, f"x-{ended.id}")
        _ = end(tx, run)
        check = SideCommand(
            run_id=run.id, task_id=ended.id, kind=CommandKind.CHECK, number=1, line="true", execution_id=f"k-{group}",
            state=CommandState.ENDED, result=CommandResult.PASSED, reason="It passed.", ended_at=NOON,
        )  # fmt: skip
        tx.commands.reserve([check])
        tx.commands.keep_changes(run.id, Changes(known=True))
        start = add(tx, make_task(f"start-{group}", spec=make_spec(checkout=f"/c-{group}", project=group)))
        authorise(tx, start.id)
        run = reserve(tx, start)
        tx.outcomes.record_launch(run, f"x-{start.id}")
        _ = apply_run(tx, run, Prepared(directory=DirectoryIdentity(device=1, inode=1)), NOON)
        taken = Message(
            task_id=start.id, number=1, text="And then?", by="ada", at=NOON, state=MessageState.TAKEN, run_id=run.id
        )
        tx.messages.add(taken, f"key-{group}")
        tx.messages.add_turn(Turn(run_id=run.id, task_id=start.id, session=None, numbers=(1,)))
    for group in GROUPS:
        waits = add(tx, make_task(f"queued-{group}", spec=make_spec(project=group)))
        authorise(tx, waits.id)
        _ = tx.journal.append("task.added", NOON, task_id=waits.id, data={"by": "ada", "title": "x"})
    add(tx, make_task("after", spec=make_spec(after=("queued-c",))))
    tx.notices.put(SinkState(machine="m1", sink=SinkName.COMMAND, seq=1))
    tx.rules.announce("m1", tx.waits.facts("after").lane, "paused", NOON)
    tx.queue.record_operation("o1", None, at=NOON)
    gone = add(tx, make_task("gone-a", spec=make_spec()))
    tx.deletion.remove_task(gone.id)


def authorise(tx: Tx, task_id: str) -> None:
    """Allow its launches."""
    allowed = Authorisation(
        id=f"x-{task_id}", task_id=task_id, kind="person", by="ada", detail="so", at=NOON, profile=make_profile(), directory="/d"
    )  # fmt: skip
    tx.outcomes.authorise(allowed)


@dataclass
class World:
    """A database with something torn in it, and who works on it."""

    store: Store
    runtime: ProcessRuntime
    environments: FileEnvironments
    clock: SteppedClock = field(default_factory=lambda: SteppedClock(wall=NOON))
    problems: list[str] = field(default_factory=list[str])

    def live(self) -> list[str]:
        """One pass of every loop and every reading command; answers what made progress."""
        moved: list[str] = []
        for name, step in self.steps().items():
            try:
                moved += step()
            except Exception as problem:  # noqa: BLE001 - told by name
                self.problems.append(f"{name}: {type(problem).__name__}: {problem}")
        return moved

    def steps(self) -> dict[str, Callable[[], list[str]]]:
        """Each pass, by what it is."""
        return {
            "stock": self._stock, "claim": self._claim, "outbox": self._outbox, "settle": self._settle,
            "prune": self._prune, "lists": self._lists, "history": self._history, "queue": self._queue,
        }  # fmt: skip

    def _stock(self) -> list[str]:
        runs = self.store.read(lambda tx: tx.runs.live("m1"))
        return [f"seen {run.task_id}" for run in runs]

    def _claim(self) -> list[str]:
        claimant = Claimant(machine=MACHINE, limit=99)
        found: list[str] = []
        while got := claim(self.store, self.clock, RandomIds(), claimant, RandomIds().operation()):
            found.append(f"claimed {got.task_id}")
        return found

    def _outbox(self) -> list[str]:
        started: list[str] = []
        self.runtime.start_shim = lambda run: started.append(f"started {run.task_id}")
        performer = Performer(
            store=self.store, clock=self.clock, runtime=self.runtime, environments=self.environments, machine="m1",
            forget=GitWorkspace().forget,
        )  # fmt: skip
        _ = performer.perform_due()
        _ = self.store.read(lambda tx: tx.outbox.next_due("m1"))
        return started

    def _settle(self) -> list[str]:
        settler = Settler(
            store=self.store, clock=self.clock, runtime=self.runtime, workspace=GitWorkspace(), harness=_no_harness,
            policy=RetryPolicy(), commands=side_commands(self.store, self.clock, self.runtime),
        )  # fmt: skip
        # The loop reports what of the tick fails, behind all others.
        with contextlib.suppress(WatchkeeperError, ExceptionGroup):
            log = Log(self.clock, io.StringIO())
            loop = SettleLoop(log, 30.0, self.store, self.clock, "m1", settler, abandon_s=60.0)
            _ = loop.tick()
            assert loop.workers.wait(20)
            _ = loop.tick()
        done = self.store.read(lambda tx: tx.tasks.in_states([TaskState.QUEUED, TaskState.FAILED, TaskState.HELD], 99))
        return [f"settled {task.id}" for task in done if task.id.startswith("ended")]

    def _prune(self) -> list[str]:
        self.clock.step(86400 * 400)
        remover = Remover(store=self.store, clock=self.clock, runtime=self.runtime, machine="m1")
        retention = Retention(
            store=self.store,
            remover=remover,
            keep_tasks_days=30,
            keep_history_days=3650,
            ago=lambda age: self.clock.now() - age,
        )
        removed = retention.tasks(by="prune").removed
        _ = retention.history()
        return [f"removed {task.id}" for task in removed]

    def _lists(self) -> list[str]:
        runtime = lambda: self.runtime  # noqa: E731
        shown = {row.task.id for row in lists.whole(self.store, runtime, list(TaskState))}
        _ = lists.listing(self.store, runtime, lists.ACTIVE_STATES, 99, 9)
        _ = lists.labelled(self.store, runtime, list(TaskState), 99, ("night",))
        _ = lists.newest(self.store, runtime, list(TaskState), 99)
        _ = health(self.store, runtime, everything=True)
        return [f"listed {task_id}" for task_id in shown]

    def _history(self) -> list[str]:
        entries = self.store.read(lambda tx: tx.journal.after(0, 9999))
        return [f"told {entry.task_id}" for entry in entries if entry.task_id]

    def _queue(self) -> list[str]:
        view = queue(self.store, Here(machine="m1", limit=9, now=self.clock.now()), 99)
        _ = self.store.read(lambda tx: (tx.accounts.all(), tx.accounts.open_tasks(), tx.waits.audit()))
        return [f"waits {each.task.id}" for each in view.waiting]

    def damage(self) -> list[Damage]:
        """What is on record after the daemon has read everything."""
        return Damaged(store=self.store, clock=self.clock).search()


def _no_harness(name: str) -> Any:
    raise UnknownHarness(name)


def world(store: Store, root: Path) -> World:
    """Who works on that database."""
    state = root / "state"
    for name in ("environments", "executions"):
        (state / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    runtime = ProcessRuntime(state, root / "sockets", None, lambda: root / "image.py", SteppedClock(wall=NOON))
    return World(store=store, runtime=runtime, environments=FileEnvironments(state / "environments"))


Tear = tuple[str, str, Any]
"""Table, column, and the value that tears it."""

_TEXTS = ("gone_mad", '{"torn', None, b"\xff\xfe")
_NUMBERS = (1 << 62, -5, None)
_ITS_OWN = {"id", "incarnation", "holder", "lease_until"}
"""Columns of a machine that say whether a newer daemon has taken over: another value that can be read is believed."""
_UNTORN = {"meta", "migration", "counter", "damage", "dependency", "sqlite_sequence"}
"""The first is the database itself; a dependency holds nothing but keys."""


def tears(columns: Sequence[tuple[str, str, str]], texts: Sequence[Any] = _TEXTS) -> list[Tear]:
    """One tear for each column, of kinds in turn. `columns`: table, column, and the word for its type."""
    found: list[Tear] = []
    for number, (table, column, kind) in enumerate(columns):
        if table in _UNTORN or (table == "machine" and column in _ITS_OWN):
            continue
        values = texts if kind.upper() == "TEXT" else _NUMBERS
        found.append((table, column, values[number % len(values)]))
    return found


class SqliteTearing:
    """Databases of SQLite, each with one column torn."""

    def __init__(self, root: Path) -> None:
        """Fill one, which all others are copies of."""
        self._root, self._count = root, 0
        whole = root / "whole"
        whole.mkdir()
        store = SqliteStore.open(whole / "wk.db", whole / "write.lock", create=True, upgrade=False, wait_s=5)
        store.transact("fill", fill)
        store.close()
        self._whole = whole / "wk.db"

    def columns(self) -> list[tuple[str, str, str]]:
        """Every column that is written."""
        with contextlib.closing(apsw.Connection(str(self._whole))) as raw:
            sql = (
                "SELECT t.name, c.name, c.type FROM sqlite_schema t, pragma_table_xinfo(t.name) c"
                " WHERE t.type = 'table' AND c.hidden = 0 ORDER BY t.name, c.cid"
            )
            return [(str(a), str(b), str(c)) for a, b, c in raw.execute(sql)]

    @contextlib.contextmanager
    def torn(self, tear: Tear) -> Generator[Store | None]:
        """A database with that tear; None where no such row can be."""
        self._count += 1
        root = self._root / str(self._count)
        root.mkdir()
        shutil.copy(self._whole, root / "wk.db")
        if not self._tear(root / "wk.db", tear):
            yield None
            return
        store = SqliteStore.open(root / "wk.db", root / "write.lock", create=False, upgrade=False, wait_s=5)
        try:
            yield store
        finally:
            store.close()
            shutil.rmtree(root)

    @staticmethod
    def _tear(path: Path, tear: Tear) -> bool:
        table, column, value = tear
        raw = apsw.Connection(str(path))
        try:
            raw.execute("PRAGMA foreign_keys=OFF; PRAGMA ignore_check_constraints=ON")
            raw.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
            keys = [str(row[1]) for row in raw.execute(f"PRAGMA table_xinfo({table})") if row[5]]
            rows = list(raw.execute(f"SELECT {', '.join(keys)} FROM {table} ORDER BY 1"))
            key = next((row for row in rows if any("-a" in str(one) for one in row)), rows[0])
            where = " AND ".join(f"{name} = ?" for name in keys)
            new = "CAST(? AS TEXT)" if isinstance(value, bytes) else "?"
            raw.execute(f"UPDATE {table} SET {column} = {new} WHERE {where}", (value, *key))
        except (apsw.ConstraintError, apsw.MismatchError):
            return False  # the type, or NOT NULL, stands against it even so
        finally:
            raw.close()
        return True


class PostgresTearing:
    """One database of PostgreSQL without its checks, filled anew for each tear."""

    def __init__(self) -> None:
        """Make it."""
        self.url = shared_databases().fresh()
        with psycopg.connect(self.url, autocommit=True) as raw:
            drop = raw.execute(
                "SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) FROM pg_constraint"
                " WHERE connamespace = 'watchkeeper'::regnamespace AND contype = 'c'"
            ).fetchall()
            for (sql,) in drop:
                raw.execute(sql.encode())

    def columns(self) -> list[tuple[str, str, str]]:
        """Every column that is written."""
        with psycopg.connect(self.url) as raw:
            sql = (
                "SELECT table_name, column_name, data_type FROM information_schema.columns c JOIN information_schema.tables t"
                " USING (table_schema, table_name) WHERE table_schema = 'watchkeeper' AND table_type = 'BASE TABLE'"
                " AND is_generated = 'NEVER' ORDER BY table_name, c.ordinal_position"
            )
            return [(str(a), str(b), str(c)) for a, b, c in raw.execute(sql).fetchall()]

    @contextlib.contextmanager
    def torn(self, tear: Tear) -> Generator[Store | None]:
        """The database with that tear; None where no such row can be."""
        table, column, value = tear
        with psycopg.connect(self.url, autocommit=True) as raw:
            tables = [name for (name,) in raw.execute(_TABLES).fetchall()]
            raw.execute((_WIPE + "".join(f"DELETE FROM watchkeeper.{name};" for name in tables)).encode())
        store = open_store(self.url)
        try:
            store.transact("fill", fill)
            if isinstance(value, bytes) or not self._tear(table, column, value):
                yield None
            else:
                yield store
        finally:
            store.close()

    def _tear(self, table: str, column: str, value: Any) -> bool:
        with psycopg.connect(self.url, autocommit=True) as raw:
            raw.execute("SET session_replication_role = replica")
            rows = raw.execute(f"SELECT ctid::text, t::text FROM watchkeeper.{table} t ORDER BY 2".encode()).fetchall()
            place = next((row[0] for row in rows if "-a" in row[1]), rows[0][0])
            try:
                sql = f"UPDATE watchkeeper.{table} SET {column} = %s WHERE ctid = '{place}'"
                raw.execute(sql.encode(), (value,))
            except psycopg.Error:
                return False
        return True

    def close(self) -> None:
        """It is not fit for others."""
        shared_databases().drop(self.url)
