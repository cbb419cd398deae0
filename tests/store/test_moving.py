"""Moving everything into another database: nothing is lost, no process continues with both, and after a crash the command only has to be typed again."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.postgres import shared_databases
from support.records import NOON, add, end, later, make_outcome, make_task, reserve, settle

from watchkeeper.domain.account import Account, SignIn, SignInSeen
from watchkeeper.domain.effects import ForgetEnvironment
from watchkeeper.domain.lanes import HarnessState, QueueRule
from watchkeeper.domain.message import Message, Turn
from watchkeeper.domain.model import (
    AgentIdentity,
    Changes,
    DirectoryIdentity,
    Run,
    RunState,
    StopHow,
    StopRequest,
    TaskState,
)
from watchkeeper.domain.notice import SinkName, SinkState
from watchkeeper.domain.side_command import CommandKind, CommandState, SideCommand
from watchkeeper.errors import DatabaseMoved, Refused
from watchkeeper.ports.store import Authorisation, Damage, Store, Tx
from watchkeeper.store import moving
from watchkeeper.store.moving import DatabaseLocation, Moved, move
from watchkeeper.store.postgres.location import PostgresLocation
from watchkeeper.store.rows import Rows
from watchkeeper.store.schema import TABLES
from watchkeeper.store.sqlite.location import SqliteLocation
from watchkeeper.store.tx import StoredTx

MANY = 130
"""More tasks than are written by one statement."""


@pytest.fixture
def sqlite_place(tmp_path: Path) -> SqliteLocation:
    return SqliteLocation(tmp_path / "wk.db", tmp_path / "write.lock")


@pytest.fixture
def postgres_place() -> Iterator[PostgresLocation]:
    databases = shared_databases()
    url = databases.empty()
    yield PostgresLocation(url, "test")
    databases.drop(url)


def a_check(run: Run) -> SideCommand:
    """A check that is reserved."""
    return SideCommand(
        run_id=run.id,
        task_id=run.task_id,
        kind=CommandKind.CHECK,
        number=1,
        line="true",
        execution_id="x7",
        state=CommandState.RESERVED,
    )


def fill(store: Store) -> None:
    """Something in every table, and numbers that were given and whose rows are gone."""
    store.transact("fill", _fill)


def _fill(tx: Tx) -> None:
    for number in range(MANY):
        add(tx, make_task(f"m{number:03}", priority=number % 7))
    working = add(tx, make_task("working", spec=replace(make_task().spec, checkout="/c", labels=("a", "b"))))
    run = reserve(tx, working)
    prepared = replace(run, state=RunState.PREPARED, directory=DirectoryIdentity(device=2**64 - 1, inode=7))
    tx.runs.save(prepared, run)
    agent = AgentIdentity(pid=4, start_ticks=5, boot_id="b", started_at=NOON)
    tx.runs.save(replace(prepared, state=RunState.RUNNING, agent=agent), prepared)
    after = add(
        tx, make_task("after", spec=replace(make_task().spec, after=("working",), prompt='ü " \\ \u0000 \ud800'))
    )
    stop = StopRequest(how=StopHow.STOP, by="ada", at=NOON, grace_s=1.5)
    tx.tasks.save(replace(after, stop=stop), after)
    add(tx, make_task("removed", state=TaskState.STOPPED, ended_at=NOON))
    tx.deletion.remove_task("removed")
    done = add(tx, make_task("done"))
    tx.outcomes.authorise(Authorisation(id="x1", task_id="done", kind="person", by="ada", detail="so", at=NOON))
    first = reserve(tx, done)
    tx.outcomes.record_launch(first, "x1")
    tx.messages.add(Message(task_id=first.task_id, number=1, text="Go on.", by="me", at=first.claimed_at), "k")
    tx.messages.add_turn(Turn(run_id=first.id, task_id=first.task_id, session="s", machine="m", numbers=(1,)))
    tx.commands.reserve([a_check(first)])
    tx.commands.keep_changes(first.id, Changes(known=True))
    settle(tx, end(tx, first))
    tx.queue.record_operation("o1", None, at=NOON)
    tx.rules.put(QueueRule(scope="all", name="", paused=True, by="ada", at=NOON))
    tx.rules.announce("m1", tx.waits.facts("after").lane, "paused", NOON)
    tx.accounts.add(Account(harness="claude", name="work", home="/h", variables=("KEY",), created_at=NOON, by="ada"))
    tx.accounts.observe("claude:work", "m1", SignInSeen(sign_in=SignIn.IN, at=NOON, detail="", mark="1"))
    tx.accounts.record_harness(HarnessState(harness="claude", machine="m1", present=True, detail="", at=NOON))
    tx.machines.begin_incarnation("m1", "b", NOON, name="here")
    tx.outbox.put([ForgetEnvironment(environment_id=f"e{number}") for number in range(3)], NOON, "m1")
    for row in tx.outbox.due(later(1), 9, "m1")[1:]:
        tx.outbox.done(row.id)
    _ = tx.journal.append("done", NOON, run=first, data={"what": "ü"})
    tx.notices.put(SinkState(machine="m1", sink=SinkName.WEBHOOK, seq=1, attempts=2, since=NOON, due_at=later(9)))
    tx.damage.keep(Damage(place="outbox", id="3", task_id=None, reason="torn"), NOON)


def nothing(_: Tx) -> None:
    """Adapt nothing."""


def moved(source: DatabaseLocation, destination: DatabaseLocation, adapt: Callable[[Tx], None] = nothing) -> Moved:
    told: list[tuple[int, int]] = []
    answer = move(source, destination, adapt=adapt, progress=lambda done, total: told.append((done, total)))
    assert answer.finished_earlier or (told and told[-1][0] == told[-1][1])
    return answer


def test_there_and_back(sqlite_place: SqliteLocation, postgres_place: PostgresLocation, tmp_path: Path) -> None:
    """From SQLite to PostgreSQL and into another SQLite: the same rows, numbers and id, and each of them works."""
    store = sqlite_place.open()
    fill(store)
    identity = store.read(lambda tx: tx.machines.database_id())
    next_fence = store.read(lambda tx: max(run.fence for run in tx.runs.live())) + 2
    store.close()
    there = moved(sqlite_place, postgres_place)
    assert all(there.counts.values()), there.counts
    again = SqliteLocation(tmp_path / "again.db", tmp_path / "write2.lock")
    back = moved(postgres_place, again)
    assert back == there
    store = again.open()
    store.check(thorough=True)
    assert store.read(lambda tx: tx.waits.audit()) == []
    assert store.read(lambda tx: tx.machines.database_id()) == identity
    assert store.transact("t", lambda tx: tx.runs.next_fence()) == next_fence
    effect = ForgetEnvironment(environment_id="new")
    store.transact("t", lambda tx: tx.outbox.put([effect], NOON))
    assert [row.id for row in store.read(lambda tx: tx.outbox.due(NOON, 9))] == [4], "a number is never given twice"
    working = store.read(lambda tx: tx.runs.live()[0])
    with pytest.raises(Exception, match="never changes"):
        store.transact(
            "t", lambda tx: tx.runs.save(replace(working, task_id="done", fence=working.fence), working) or _rename(tx)
        )
    store.close()


def _rename(tx: StoredTx) -> None:
    _ = tx.rows.query("UPDATE task SET id = 'other' WHERE id = 'done'")


def test_rules_hold_in_the_new_one(sqlite_place: SqliteLocation, postgres_place: PostgresLocation) -> None:
    """What was set aside while it was filled is back."""
    store = sqlite_place.open()
    fill(store)
    store.close()
    moved(sqlite_place, postgres_place)
    new = postgres_place.open()
    new.check(thorough=True)
    assert new.read(lambda tx: tx.waits.audit()) == []
    with pytest.raises(Exception, match="never changes"):
        new.transact("t", _rename)
    (live,) = new.read(lambda tx: tx.runs.live())
    assert live.directory == DirectoryIdentity(device=2**64 - 1, inode=7)
    with pytest.raises(Exception, match=r"impossible|refused"):
        new.transact("t", lambda tx: tx.outcomes.add(make_outcome(live)))
    new.close()


def test_nobody_goes_on_with_both(sqlite_place: SqliteLocation, postgres_place: PostgresLocation) -> None:
    """A process that has the old one open notices, and one that opens it learns where it went."""
    store = sqlite_place.open()
    fill(store)
    moved(sqlite_place, postgres_place)
    for use in (
        lambda: store.read(lambda tx: tx.journal.last()),
        lambda: store.transact("t", nothing),
        sqlite_place.open,
    ):
        with pytest.raises(DatabaseMoved, match="was moved to"):
            use()
    store.close()
    with pytest.raises(DatabaseMoved, match="was moved to"):
        moved(sqlite_place, postgres_place)


def test_what_is_not_empty_is_not_written_to(sqlite_place: SqliteLocation, postgres_place: PostgresLocation) -> None:
    for place in (sqlite_place, postgres_place):
        store = place.open()
        store.transact("t", lambda tx: tx.tasks.add(make_task("mine")))
        store.close()
    with pytest.raises(Refused, match="is not empty"):
        moved(sqlite_place, postgres_place)
    for place in (sqlite_place, postgres_place):
        store = place.open()
        assert store.read(lambda tx: tx.tasks.ids_like("", 9)) == ["mine"]
        store.close()


@pytest.mark.parametrize("moved_already", [False, True])
def test_what_another_one_left_there_is_kept(
    moved_already: bool,
    sqlite_place: SqliteLocation,
    postgres_place: PostgresLocation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A copy that was not finished may be the only one of use: only the database that it is a copy of continues with it."""
    store = sqlite_place.open()
    fill(store)
    store.close()
    with monkeypatch.context() as patched:
        patched.setattr(moving, "_open_up" if moved_already else "_compared", _dies)
        with pytest.raises(_DiesError):
            moved(sqlite_place, postgres_place)
    other = SqliteLocation(tmp_path / "other.db", tmp_path / "write2.lock")
    store = other.open()
    store.transact("t", lambda tx: tx.tasks.add(make_task("theirs")))
    store.close()
    with pytest.raises(Refused, match="a copy of the database"):
        moved(other, postgres_place)
    store = other.open()
    assert store.read(lambda tx: tx.tasks.ids_like("", 9)) == ["theirs"]
    store.close()
    assert moved(sqlite_place, postgres_place).finished_earlier is moved_already


@pytest.mark.parametrize("how", ["used", "filled"])
def test_somebody_is_quicker(
    how: str,
    sqlite_place: SqliteLocation,
    postgres_place: PostgresLocation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What came into the destination after it was found empty, or unfinished, is not deleted."""
    store = sqlite_place.open()
    fill(store)
    store.close()
    prepare = moving._prepare

    def quicker(destination: DatabaseLocation, mine: str) -> bool:
        answer = prepare(destination, mine)
        monkeypatch.setattr(moving, "_prepare", prepare)
        if how == "used":
            there = destination.open()
            there.transact("t", lambda tx: tx.tasks.add(make_task("theirs")))
            there.close()
        else:
            other = SqliteLocation(tmp_path / "other.db", tmp_path / "write2.lock")
            there = other.open()
            there.transact("t", lambda tx: tx.tasks.add(make_task("theirs")))
            there.close()
            moved(other, destination)
        return answer

    monkeypatch.setattr(moving, "_prepare", quicker)
    with pytest.raises(Refused, match="is not empty"):
        moved(sqlite_place, postgres_place)
    for place, tasks in ((postgres_place, 1), (sqlite_place, MANY + 3)):
        there = place.open()
        assert len(there.read(lambda tx: tx.tasks.ids_like("", 999))) == tasks
        there.close()


def test_page_by_page(
    sqlite_place: SqliteLocation, postgres_place: PostgresLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys of several columns, pages that are just full, and a server that would end a client that says nothing for long."""
    monkeypatch.setattr(moving, "_PAGE", 1)
    store = sqlite_place.open()
    fill(store)
    store.close()
    there = moved(sqlite_place, postgres_place)
    compared, said = moving._compared, []

    def asked(source: DatabaseLocation, given: Rows, destination: DatabaseLocation) -> Moved:
        said.extend(given.query("SELECT current_setting('idle_in_transaction_session_timeout')"))
        return compared(source, given, destination)

    monkeypatch.setattr(moving, "_compared", asked)
    again = SqliteLocation(sqlite_place._database.with_name("again.db"), sqlite_place._write_lock)
    assert moved(postgres_place, again) == there
    assert said == [("30min",)], "reading the other one may take longer than a transaction is idle otherwise"


class _DiesError(Exception):
    """As if the process had been killed."""


def _dies(*_: object) -> None:
    raise _DiesError


@pytest.mark.parametrize("kinds", ["to postgres", "to sqlite"])
@pytest.mark.parametrize("step", ["_fill", "_compared", "_open_up"])
def test_dying_in_between(
    kinds: str,
    step: str,
    sqlite_place: SqliteLocation,
    postgres_place: PostgresLocation,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Never are both of use; typed again, everything is there."""
    source, destination = (sqlite_place, postgres_place) if kinds == "to postgres" else (postgres_place, sqlite_place)
    store = source.open()
    fill(store)
    store.close()
    real = getattr(moving, step)

    def dies(*given, **more):
        if step == "_fill":
            real(*given, **more)
        raise _DiesError

    with monkeypatch.context() as patched:
        patched.setattr(moving, step, dies)
        with pytest.raises(_DiesError):
            moved(source, destination)
    usable = []
    for place in (source, destination):
        try:
            store = place.open()
        except DatabaseMoved:
            continue
        usable += [place] if store.read(lambda tx: tx.tasks.ids_like("", 1)) else []
        store.close()
    assert usable == ([] if step == "_open_up" else [source])
    answer = moved(source, destination)
    assert answer.finished_earlier == (step == "_open_up")
    assert answer.counts["task"] == MANY + 3
    store = destination.open()
    assert store.read(lambda tx: tx.waits.audit()) == []
    store.close()


def test_every_table_is_moved(sqlite_place: SqliteLocation, postgres_place: PostgresLocation) -> None:
    """A table that a later version adds has to be named."""
    sqlite, postgres = sqlite_place.open(), postgres_place.open()
    ours = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    theirs = "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'watchkeeper' AND table_type = 'BASE TABLE'"
    found = {str(row[0]) for row in sqlite.read(lambda tx: tx.rows.query(ours))}
    assert found - {"migration"} == set(TABLES)
    found = {str(row[0]) for row in postgres.read(lambda tx: tx.rows.query(theirs))}
    assert found - {"migration", "counter"} == set(TABLES)
    sqlite.close()
    postgres.close()
