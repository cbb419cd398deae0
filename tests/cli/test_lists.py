"""What lists hold and in which order: whole for programs, nothing forgotten for people."""

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.records import make_task

from watchkeeper.cli.commands import queue as queue_command
from watchkeeper.domain.model import TaskState
from watchkeeper.errors import DatabaseBusy
from watchkeeper.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from support.cli import Wk


def _add_many(wk: "Wk", number: int, state: TaskState = TaskState.QUEUED, **fields: Any) -> list[str]:
    """Many tasks in one state, recorded at once."""
    ids = [f"{state.value[:2]}{each:06d}" for each in range(number)]
    at = wk.parts.clock.now()
    ended = {} if state is TaskState.QUEUED else {"ended_at": at}
    spec = wk.task(wk.add("first of all")).spec

    def work(tx: Any) -> None:
        for task_id in ids:
            task = make_task(task_id, spec=spec, state=state, created_at=at, updated_at=at, **ended, **fields)
            tx.tasks.add(task)

    wk.parts.store.transact("test", work)
    return ids


def _listed(wk: "Wk", *options: str) -> list[str]:
    """The ids in the list for people."""
    lines = wk("ls", *options).out.splitlines()
    return [line.split()[0] for line in lines[1:] if len(line.split()[0]) == 8]


def test_a_list_for_programs_is_whole(wk: "Wk") -> None:
    """Of several pages, in the order of handing over, and the same text as one document would be."""
    ids = [*_add_many(wk, 600), *_add_many(wk, 15, TaskState.DONE)]
    answer = wk("ls", "--json")
    assert [row["id"] for row in answer.json if row["title"] != "x" and row["id"] in ids] == ids
    assert len(answer.json) == 617 and answer.out == json.dumps(answer.json, indent=2, ensure_ascii=False) + "\n"
    assert len(wk("ls", "--json", "--state", "queued").json) == 602
    assert wk("ls", "--json", "--state", "held").out == "[]\n"
    assert "401 more tasks" not in answer.out + answer.err


def test_the_other_lists_for_programs_are_whole(wk: "Wk", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_command, "_LIMIT", 3)
    asking = _add_many(wk, 30, TaskState.FAILED)
    waiting = _add_many(wk, 250)
    queue = wk("queue", "show", "--json").json
    assert (len(queue["waiting"]), queue["left_out"]) == (252, 0)
    assert len(wk("queue", "show", "--json", "--limit", "3").json["waiting"]) == 3
    assert "249 more tasks: wk queue show --limit N" in wk("queue", "show").out
    status = wk("status", "--json").json
    assert [row["id"] for row in status["needs_you"]] == asking
    wk("edit", waiting[0], "--not-before", "+1h")
    assert wk("status", "--json").json["waits"] == {"not before": 1}
    for number in range(60):
        assert wk("rename", waiting[0], f"title {number}").code == 0
    lines = wk("events", "--json").lines
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1)) and len(lines) > 60
    assert len(wk("events").out.splitlines()) == 50


def test_a_list_stands_in_the_order_of_handing_over(wk: "Wk") -> None:
    """By groups: what needs a person, what is queued, what has ended; a batch in the order of its lines."""
    text = "".join(f"task {number}\n" for number in range(20)).encode()
    batch = wk("add", "--lines", "--harness", "demo", stdin=text).out.split()
    assert _listed(wk) == batch
    for task_id in batch[3:6]:
        wk.become(task_id, TaskState.DONE)
    for task_id, state in ((batch[9], TaskState.FAILED), (batch[15], TaskState.NEEDS_INPUT)):
        wk.become(task_id, state)
    waiting = [each for each in batch if each not in {*batch[3:6], batch[9], batch[15]}]
    assert _listed(wk) == [batch[9], batch[15], *waiting, *batch[3:6]]
    assert wk("pin", batch[19]).code == 0
    assert _listed(wk)[0] == batch[19] and len(_listed(wk)) == 20


def test_many_waiting_tasks_hide_nothing_that_matters(wk: "Wk") -> None:
    """What needs a person, and what runs, has room before what waits."""
    first = wk.add()
    failed = wk.add()
    wk.claim()
    wk.become(failed, TaskState.FAILED)
    _add_many(wk, 300)
    listed = _listed(wk)
    assert listed[:2] == [failed, first] and len(listed) == 200


def test_a_failure_is_listed_until_somebody_looks(wk: "Wk") -> None:
    """However many tasks ended since; a look as JSON or by an agent does not count."""
    failed = wk.add("breaks")
    wk.become(failed, TaskState.FAILED, reason="It broke.")
    _add_many(wk, 15, TaskState.DONE)
    for look in (lambda: wk("show", "--json", failed), lambda: wk("show", failed, WATCHKEEPER_RUN="x.1")):
        assert look().code == 0
        assert _listed(wk)[0] == failed and "1 failure not looked at yet" in wk("ls").out
        assert f"{failed}  breaks: failed: It broke." in wk("status").out
        assert [row["id"] for row in wk("status", "--json").json["needs_you"]] == [failed]
    before = wk.task(failed)
    assert wk("show", failed).code == 0
    assert failed not in wk("ls").out and failed not in wk("status").out and "not looked at" not in wk("ls").out
    assert wk("status", "--json").json["needs_you"] == []
    after = wk.task(failed)
    assert after.seen_at is not None and (after.version, after.updated_at) == (before.version, before.updated_at)


@pytest.mark.parametrize("command", [("logs",), ("logs", "--raw")], ids=" ".join)
def test_reading_the_output_is_a_look(wk: "Wk", command: tuple[str, ...]) -> None:
    failed = wk.add()
    wk.become(failed, TaskState.FAILED)
    assert wk(*command, failed).code == 0 and wk.task(failed).seen_at is not None


def test_all_failures_are_marked_at_once(wk: "Wk") -> None:
    """Not by an agent."""
    _add_many(wk, 30, TaskState.FAILED)
    assert "30 failures not looked at yet" in wk("ls").out
    assert "and more: wk ls" in wk("status").out
    assert wk("ls", "--seen", WATCHKEEPER_RUN="x.1").code == 8
    answer = wk("ls", "--seen")
    assert "30 failures are marked as looked at." in answer.err and "not looked at yet" not in answer.out
    assert len(_listed(wk)) == 11 and wk("status", "--json").json["needs_you"] == []


def test_a_retry_makes_a_failure_new_again(wk: "Wk") -> None:
    failed = wk.add()
    wk.become(failed, TaskState.FAILED)
    assert wk("show", failed).code == 0
    assert wk("retry", failed).code == 0 and wk.task(failed).seen_at is None
    wk.become(failed, TaskState.FAILED)
    assert "1 failure not looked at yet" in wk("ls").out


def test_a_look_at_an_older_failure_is_none_at_the_new_one(wk: "Wk") -> None:
    failed = wk.add()
    shown = wk.become(failed, TaskState.FAILED)
    wk.become(failed, TaskState.FAILED, reason="Again.")
    store = wk.parts.store
    assert store.transact("test", lambda tx: tx.tasks.see(shown, wk.parts.clock.now())) is False
    assert wk.task(failed).seen_at is None


def test_a_look_never_fails_because_it_cannot_be_recorded(wk: "Wk", monkeypatch: pytest.MonkeyPatch) -> None:
    failed = wk.add()
    wk.become(failed, TaskState.FAILED)

    def busy(*_: object, **__: object) -> None:
        raise DatabaseBusy("held")

    monkeypatch.setattr(SqliteStore, "transact", busy)
    answer = wk("show", failed)
    assert answer.code == 0 and failed in answer.out and "held" not in answer.err


def test_what_can_never_start_needs_a_person(wk: "Wk") -> None:
    """Because what it waits for failed, also after that was looked at."""
    first = wk.add("breaks")
    child = wk.add("waits", "--after", first)
    wk.become(first, TaskState.FAILED)
    assert wk("show", first).code == 0
    _add_many(wk, 300)
    assert f"{child}  waits: cannot start: task {first} failed" in wk("status").out
    assert [row["id"] for row in wk("status", "--json").json["needs_you"]] == [child]
    assert _listed(wk)[0] == child
