"""Records that can be read and cannot be so: each is named by `wk store repair`, with a choice that mends it, and stops nothing beside it."""

import apsw
import pytest
from support.cli import Wk

from watchkeeper.domain.model import TaskState
from watchkeeper.errors import Exit
from watchkeeper.store.contradictions import checks

BIG = (1 << 63) - 1


def tear(wk: Wk, sql: str) -> None:
    """Change the database as a failing disk might."""
    raw = apsw.Connection(str(wk.home / "wk.db"))
    raw.execute("PRAGMA foreign_keys=OFF; PRAGMA ignore_check_constraints=ON")
    raw.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    raw.execute(sql)
    raw.close()


def listed(wk: Wk) -> dict[str, set[str]]:
    """What `wk store repair` names, with its choices."""
    answer = wk("store", "repair", "--json")
    assert answer.code == 0, answer.err
    return {each["record"]: set(each["choices"]) for each in answer.json["damage"]}


def mended(wk: Wk, record: str, choice: str) -> None:
    """Do it; nothing is torn afterwards, and the next task is handed over and claimed."""
    answer = wk("store", "repair", record, "--do", choice)
    assert answer.code == 0, answer.err
    assert listed(wk) == {}
    check = wk("store", "check", "--thorough")
    assert (check.code, "sound." in check.out) == (0, True), check
    next_one = wk.add("next", "--priority", "9")
    assert wk.claim().startswith(next_one)


def test_a_count_that_cannot_be_stops_nothing(wk: Wk) -> None:
    tear(wk, "UPDATE tally SET tasks = -3") if wk.add() else None
    assert wk.add("another")
    assert "-3" not in wk("status").out
    assert set(listed(wk)) == {f"tally:{state.value}" for state in TaskState}
    assert wk("store", "check").code == Exit.STATE
    mended(wk, "tally:running", "mend")


def test_a_count_that_is_not_that_of_the_tasks_is_named(wk: Wk) -> None:
    _ = wk.add()
    tear(wk, "UPDATE tally SET tasks = 7 WHERE state = 'queued'")
    assert listed(wk) == {"tally:queued": {"mend"}}
    assert "sound" not in wk("store", "check").out.replace("sound but for 1 record", "")
    mended(wk, "tally:queued", "mend")


@pytest.mark.parametrize(
    ("sql", "record", "choice"),
    [
        ("UPDATE meta SET fence = 0", "meta:1", "mend"),
        ("UPDATE meta SET fence = -5", "meta:1", "mend"),
        (f"UPDATE meta SET fence = {BIG}", "meta:1", "mend"),
        ("UPDATE meta SET database_id = ''", "meta:1", "mend"),
        ("DELETE FROM meta", "meta:1", "mend"),
        ("INSERT INTO queue_rule VALUES ('all', '', 0, 0, 'x', 0)", "queue_rule:all", "drop"),
        (f"UPDATE machine SET incarnation = {BIG}", "machine:m", "drop"),
        (f"UPDATE journal SET seq = {BIG} WHERE seq = 1", "number:journal", "mend"),
        (f"UPDATE task SET seq = {BIG}", "number:task", "mend"),
        (f"UPDATE sqlite_sequence SET seq = {BIG}", "number:task", "mend"),
    ],
)
def test_a_torn_record_of_the_whole_database_is_named_and_mended(wk: Wk, sql: str, record: str, choice: str) -> None:
    _ = wk.add("first")
    _ = wk.claim()
    tear(wk, sql)
    assert listed(wk)[record] == {choice}
    mended(wk, record, choice)


def test_fences_go_on_behind_those_on_record(wk: Wk) -> None:
    _ = wk.add("first")
    run = wk.claim()
    before = wk.parts.store.read(lambda tx: tx.runs.get(run)).fence
    tear(wk, "UPDATE meta SET fence = 0")
    mended(wk, "meta:1", "mend")
    assert max(each.fence for each in wk.parts.store.read(lambda tx: tx.runs.live())) > before + 1


@pytest.mark.parametrize("table", ["task", "journal"])
def test_numbers_that_are_used_up_are_no_full_disk(wk: Wk, table: str) -> None:
    _ = wk.add()
    tear(wk, f"UPDATE {table} SET seq = {BIG} WHERE seq = 1")
    answer = wk("run", "--harness", "demo", "more")
    assert (answer.code, f"table '{table}'" in answer.err, "full" in answer.err) == (Exit.STATE, True, False), answer
    assert f"number:{table}" in answer.err


def test_numbers_that_were_lost_are_no_lost_log(wk: Wk) -> None:
    _ = wk.add()
    tear(wk, "UPDATE sqlite_sequence SET seq = 0")
    assert "number:journal" in listed(wk)
    assert wk.add("another")


def test_a_task_that_contradicts_itself_is_ended(wk: Wk) -> None:
    task_id = wk.add()
    _ = wk.become(task_id, TaskState.DONE)
    tear(wk, f"UPDATE task SET state = 'running', ended_at = NULL WHERE id = '{task_id}'")
    assert {"fail", "forget"} == listed(wk)[f"task:{task_id}"]
    mended(wk, f"task:{task_id}", "fail")
    assert wk.task(task_id).state is TaskState.FAILED


@pytest.mark.parametrize("sql", ["unmet = 2", "blocked = 1, checkout = '/x'", "lane = 99", "priority = 77"])
def test_what_is_kept_of_a_wait_is_found_out_anew(wk: Wk, sql: str) -> None:
    task_id = wk.add()
    tear(wk, f"UPDATE task SET {sql} WHERE id = '{task_id}'")
    assert listed(wk)[f"wait:{task_id}"] == {"mend"}
    mended(wk, f"wait:{task_id}", "mend")


def test_a_claim_without_its_task_is_dropped(wk: Wk) -> None:
    task_id = wk.add()
    _ = wk.claim()
    tear(wk, f"DELETE FROM task WHERE id = '{task_id}'")
    found = listed(wk)
    assert found[f"claim:{task_id}"] == {"drop"}
    answer = wk("store", "repair", f"claim:{task_id}", "--do", "fail")
    assert (answer.code, "Choose drop." in answer.err) == (Exit.USAGE, True)
    mended(wk, f"claim:{task_id}", "drop")


def test_a_run_without_its_execution_is_ended(wk: Wk) -> None:
    task_id = wk.add()
    run = wk.claim()
    tear(wk, "DELETE FROM execution")
    assert f"run:{run}" in listed(wk)
    mended(wk, f"run:{run}", "fail")
    assert wk.task(task_id).state is TaskState.FAILED


def test_a_step_of_an_unknown_kind_can_be_dropped(wk: Wk) -> None:
    _ = wk.add()
    tear(wk, "INSERT INTO outbox (kind, payload, attempts, not_before, put_at) VALUES ('dance', '{}', 0, 0, 0)")
    ((record, choices),) = listed(wk).items()
    assert (record[:7], choices) == ("outbox:", {"drop"})
    mended(wk, record, "drop")


def test_one_torn_record_is_no_damaged_database(wk: Wk) -> None:
    """Doctor, status and the check agree, and call it by the name that the repair knows."""
    torn, _ = wk.add(), wk.add("whole")
    tear(wk, f"UPDATE spec SET body = '{{' WHERE task_id = '{torn}'")
    doctor = wk("doctor")
    assert (doctor.code, f"1 cannot be read: task:{torn}" in doctor.out) == (0, True), doctor
    check = wk("store", "check")
    assert (check.code, f"task:{torn}: what was asked for is not valid JSON (line 1, column 2)" in check.out) == (
        Exit.STATE, True,
    ), check  # fmt: skip
    assert "more task" not in wk("ls", "--all").out + wk("ls").out + wk("queue", "show").out


def test_what_a_repair_says(wk: Wk) -> None:
    torn = wk.add()
    tear(wk, f"UPDATE spec SET body = '{{' WHERE task_id = '{torn}'")
    detail = wk("store", "repair").out
    assert detail.startswith(f"task:{torn}: what was asked for is not valid JSON (line 1, column 2)\n")
    assert f"wk store repair task:{torn} --do fail" in detail
    refused = wk("store", "repair", torn, "--do", "drop").err
    assert f"'drop' is no choice for task:{torn}." in refused
    assert "Choose fail or forget." in refused
    assert "No unreadable record is called 'foo'." in wk("store", "repair", "foo").err
    assert wk("store", "repair", torn, "--do", "fail").out == f"task:{torn}: its task was ended as failed.\n"


def test_the_rules_of_a_table_are_found_in_its_text() -> None:
    assert checks("a TEXT CHECK (a IN ('x', 'y')), CHECK (\n (a IS NULL) = (b IS NULL)\n)") == [
        "a IN ('x', 'y')", "(a IS NULL) = (b IS NULL)",
    ]  # fmt: skip
