"""A record that cannot be read is named where people look, keeps nothing else from being shown, and is repaired on a person's word."""

from dataclasses import replace
from pathlib import Path

import apsw
import pytest
from support.cli import Wk
from support.records import NOON

from watchkeeper.app.damage import Damaged
from watchkeeper.domain.effects import ForgetEnvironment
from watchkeeper.domain.message import Message, MessageState, Turn
from watchkeeper.domain.model import TaskState
from watchkeeper.domain.notice import SinkName, SinkState
from watchkeeper.domain.side_command import CommandKind, CommandState, SideCommand
from watchkeeper.errors import Exit
from watchkeeper.ports.store import Tx


def tear(wk: Wk, sql: str) -> None:
    """Change the database as a failing disk might."""
    raw = apsw.Connection(str(wk.home / "wk.db"))
    raw.execute("PRAGMA foreign_keys=OFF; PRAGMA ignore_check_constraints=ON")
    raw.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    raw.execute(sql)
    raw.close()


def keep(wk: Wk) -> None:
    """What the daemon's loop does."""
    parts = wk.parts
    _ = Damaged(store=parts.store, clock=parts.clock).search()
    parts.store.close()


@pytest.fixture
def torn(wk: Wk) -> str:
    """The id of a task whose order is torn, beside a whole one."""
    task_id, _ = wk.add("torn"), wk.add("whole")
    tear(wk, f"UPDATE spec SET body = '{{' WHERE task_id = '{task_id}'")
    return task_id


def test_a_torn_task_keeps_no_list_from_being_shown(wk: Wk, torn: str) -> None:
    for command in (("ls", "--all"), ("ls", "--json"), ("events",), ("queue", "show"), ("status",)):
        answer = wk(*command)
        assert answer.code == 0, (command, answer.err)
    assert "whole" in wk("ls", "--all").out
    assert torn in wk("ls").err
    assert "wk store repair" in wk("ls").err


def test_a_look_at_the_torn_task_says_what_and_what_to_do(wk: Wk, torn: str) -> None:
    answer = wk("show", torn)
    assert answer.code == Exit.STATE
    assert f"The task '{torn}' in the database cannot be read" in answer.err
    assert "wk store repair" in answer.err


def test_status_and_doctor_name_it(wk: Wk, torn: str) -> None:
    keep(wk)
    assert "database ok, 1 record unreadable" in wk("status").out
    assert f"task:{torn}" in wk("status").out
    found = wk("status", "--json").json
    assert (found["database"], found["damage"][0]["record"]) == ("ok", f"task:{torn}")
    checks = {check["name"]: check for check in wk("doctor", "--json").json["checks"]}
    assert (checks["database"]["level"], checks["records"]["level"]) == ("ok", "note")
    assert checks["records"]["damage"][0]["task"] == torn


def test_the_next_task_has_its_turn(wk: Wk, torn: str) -> None:
    """And the torn one is set aside, and told in the history."""
    assert not wk.claim().startswith(torn)
    assert any(entry["kind"] == "record.torn" and entry["task"] == torn for entry in wk("events", "--json").lines)


def test_a_task_that_contradicts_itself_is_set_aside_and_said_to_wait(wk: Wk) -> None:
    """Its authorisation is gone: nothing is unreadable, and it kept every other from being claimed."""
    first, second = wk.add("first"), wk.add("second")
    tear(wk, f"DELETE FROM authorisation WHERE task_id = '{first}'")
    assert wk.claim().startswith(second)
    waits = {row["id"]: row["waits"] for row in wk("ls", "--json").json}
    assert waits[first] == {"wait": "record torn", "detail": "wk store repair"}
    assert f"start:{first}" in wk("why", first).out


@pytest.mark.parametrize(("choice", "state"), [("fail", TaskState.FAILED), ("forget", None)])
def test_a_person_ends_or_forgets_it(wk: Wk, torn: str, choice: str, state: TaskState | None) -> None:
    listed = wk("store", "repair", "--json").json["damage"]
    assert [each["record"] for each in listed] == [f"task:{torn}"]
    assert set(listed[0]["choices"]) == {"fail", "forget"}
    answer = wk("store", "repair", torn, "--do", choice)
    assert answer.code == 0, answer.err
    assert wk("store", "repair").out == "Every record can be read.\n"
    assert wk("store", "check", "--thorough").code == 0
    if state is None:
        assert wk("show", torn).code == Exit.NOT_FOUND
    else:
        assert wk.task(torn).state is state
    assert any(entry["kind"] == "record.repaired" for entry in wk("events", "--json").lines)


def test_a_task_whose_words_are_lost_is_not_run_again(wk: Wk, torn: str) -> None:
    """Nothing is run in its place, and nothing says that it could be."""
    assert wk("store", "repair", torn, "--do", "fail").code == 0
    answer = wk("retry", torn)
    assert answer.code == Exit.REFUSED
    assert f"Task {torn} cannot be run again: what it was to do could not be read." in answer.err
    assert "Hand it over anew with `wk run`." in answer.err
    assert "wk retry" not in wk("why", torn).out + wk("show", torn).out
    assert wk("retry", "--state", "failed", "--yes").code == 0
    assert wk.task(torn).state is TaskState.FAILED


def test_a_torn_run_is_ended_and_releases_what_it_holds(wk: Wk) -> None:
    task_id = wk.add("torn")
    run_id = wk.claim()
    tear(wk, f"UPDATE run SET claimed_at = 4611686018427387904 WHERE id = '{run_id}'")
    assert wk("store", "repair", f"run:{run_id}", "--do", "fail").code == 0
    assert wk.task(task_id).state is TaskState.FAILED
    assert wk.parts.store.read(lambda tx: tx.runs.live()) == []
    assert wk("store", "check", "--thorough").code == 0


BESIDE = {
    "message": "UPDATE message SET body = '{}'",
    "turn": "UPDATE turn SET body = '{}'",
    "side_command": "UPDATE side_command SET body = '{}'",
}


@pytest.mark.parametrize("choice", ["fail", "forget"])
@pytest.mark.parametrize("table", BESIDE)
def test_a_torn_record_beside_a_run_is_let_go_of_with_its_task(wk: Wk, table: str, choice: str) -> None:
    """What of the other records can be read stays, and no message waits for a task that has ended."""
    task_id = wk.add("torn")
    run_id = wk.claim()
    parts = wk.parts
    said = Message(task_id=task_id, number=1, text="And?", by="ada", at=NOON)
    check = SideCommand(
        run_id=run_id,
        task_id=task_id,
        kind=CommandKind.CHECK,
        number=1,
        line="true",
        execution_id="k1",
        state=CommandState.RESERVED,
    )

    def put(tx: Tx) -> None:
        tx.messages.add(replace(said, state=MessageState.TAKEN, run_id=run_id))
        tx.messages.add(replace(said, number=2))
        tx.messages.add_turn(Turn(run_id=run_id, task_id=task_id, session=None, numbers=(1,)))
        tx.commands.reserve([check])

    parts.store.transact("put", put)
    parts.store.close()
    tear(wk, f"{BESIDE[table]} WHERE rowid = (SELECT min(rowid) FROM {table})")
    (listed,) = wk("store", "repair", "--json").json["damage"]
    assert listed["table"] == table and set(listed["choices"]) == {"fail", "forget"}
    answer = wk("store", "repair", listed["record"], "--do", choice)
    assert answer.code == 0, answer.err
    assert wk("store", "repair", "--json").json["damage"] == []
    assert wk("store", "check", "--thorough").code == 0
    if choice == "fail":
        assert wk.task(task_id).state is TaskState.FAILED
        left = wk.parts.store.read(lambda tx: tx.messages.of_task(task_id))
        assert [each.number for each in left] == ([2] if table == "message" else [1, 2])
        assert {each.state for each in left} == {MessageState.FAILED}


def test_a_torn_place_of_a_sink_is_forgotten(wk: Wk) -> None:
    _ = wk.add()
    parts = wk.parts
    parts.store.transact("put", lambda tx: tx.notices.put(SinkState(machine="m", sink=SinkName.WEBHOOK, seq=1)))
    parts.store.close()
    tear(wk, "UPDATE notice_sink SET since = 4611686018427387904")
    (listed,) = wk("store", "repair", "--json").json["damage"]
    assert wk("store", "repair", listed["record"], "--do", "drop").code == 0
    assert wk("store", "repair", "--json").json["damage"] == []


@pytest.mark.parametrize(
    ("table", "sql"),
    [
        ("outbox", "UPDATE outbox SET payload = '{'"),
        ("journal", "UPDATE journal SET data = '[' WHERE seq = 1"),
        ("tally", "UPDATE tally SET state = 'gone_mad' WHERE state = 'held'"),
    ],
)
def test_a_torn_record_of_no_task_is_dropped_or_said(wk: Wk, table: str, sql: str) -> None:
    _ = wk.add()
    parts = wk.parts
    parts.store.transact("put", lambda tx: tx.outbox.put([ForgetEnvironment(environment_id="e")], parts.clock.now()))
    parts.store.close()
    tear(wk, sql)
    (listed,) = wk("store", "repair", "--json").json["damage"]
    assert listed["table"] == table
    if "drop" in listed["choices"]:
        assert wk("store", "repair", listed["record"], "--do", "drop").code == 0
        assert wk("store", "repair", "--json").json["damage"] == []


def test_what_cannot_be_done_is_refused(wk: Wk, torn: str) -> None:
    assert wk("store", "repair", torn, "--do", "drop").code == Exit.USAGE
    assert wk("store", "repair", torn, "--do", "nonsense").code == Exit.USAGE
    assert wk("store", "repair", "outbox:99", "--do", "drop").code == Exit.NOT_FOUND
    assert wk("store", "repair", "--do", "drop").code == Exit.USAGE
    assert wk("store", "repair", torn, "--do", "fail", WATCHKEEPER_RUN="x").code == Exit.REFUSED


def test_what_the_daemon_says_of_the_whole_database_is_shown(wk: Wk) -> None:
    _ = wk.add()
    wk.parts.state.report_damage("The database is damaged: page 7.")
    assert "page 7. `wk restore FILE`" in wk("status").out.replace("\n", " ")
    assert wk("status", "--json").json["database_says"] == "The database is damaged: page 7."
    assert wk("doctor").code == Exit.STATE
    wk.parts.state.report_damage("")
    assert "database ok" in wk("status").out


def test_commands_work_in_a_directory_that_was_deleted(wk: Wk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that need none; one that does says so in a sentence."""
    task_id = wk.add()
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for command in (("ls",), ("show", task_id), ("status",), ("events",), ("stop", task_id), ("doctor",)):
        answer = wk(*command)
        assert answer.code == 0, (command, answer.err)
    refused = wk("run", "--harness", "demo", "do it")
    assert (refused.code, "was deleted" in refused.err) == (Exit.USAGE, True)


def test_a_deleted_database_is_never_made_anew(wk: Wk) -> None:
    _ = wk.add()
    for name in ("wk.db", "wk.db-wal", "wk.db-shm"):
        (wk.home / name).unlink(missing_ok=True)
    for command in (("ls",), ("status",), ("run", "--harness", "demo", "do it")):
        answer = wk(*command)
        assert (answer.code, "so there was one" in answer.err) == (Exit.STATE, True), (command, answer)
    assert not (wk.home / "wk.db").exists()


def test_logs_of_a_removed_task_say_who_removed_it_and_when(wk: Wk) -> None:
    task_id = wk.add()
    assert wk("stop", task_id).code == 0
    assert wk("rm", task_id).code == 0
    answer = wk("logs", task_id)
    assert answer.code == Exit.NOT_FOUND
    assert f"Task {task_id} was removed by" in answer.err
