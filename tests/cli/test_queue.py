"""`wk queue`, `wk why`, `wk add`, `wk edit`, `wk cancel`: the queue as a person uses it."""

import json
import subprocess
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.shell_completion import ShellComplete
from support.sqlite_inside import inside
from support.zones import in_zone

from watchkeeper.app.hand_over import HandOverRequest
from watchkeeper.cli import daemon
from watchkeeper.cli.main import wk as group
from watchkeeper.cli.types import from_now, until_now
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.lanes import HarnessState
from watchkeeper.domain.model import TaskState
from watchkeeper.errors import Exit
from watchkeeper.ports.service import DaemonInfo

if TYPE_CHECKING:
    from support.cli import Wk

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


def repository(wk: "Wk") -> None:
    subprocess.run(["git", "init", "-q"], cwd=wk.cwd, check=True)


def words(wk: "Wk", task_id: str) -> list[str]:
    """Why it waits, by the words of the list."""
    return [reason["wait"] for reason in wk("why", task_id, "--json").json["reasons"]]


def kinds(wk: "Wk", task_id: str) -> list[str]:
    """The kinds of the journal's entries of a task, with the word of a wait."""
    found = wk.parts.store.read(lambda tx: tx.journal.after(0, 1000, task_id))
    return [f"{each.kind} {each.data['wait']}" if "wait" in each.data else each.kind for each in found]


# Options of a task


def test_every_wish_reaches_the_task(wk: "Wk") -> None:
    repository(wk)
    first = wk.add("first")
    answer = wk(
        *("run", "--harness", "demo", "--after", first[:6], "--not-before", "+2h", "--priority", "7", "--label", "a b"),
        *("--label", "x", "--label", "x", "--project", "Shop", "do it"),
    )
    assert answer.code == 0, answer.err
    task = wk.task(answer.out.strip())
    spec = task.spec
    assert (spec.after, spec.priority, spec.labels, spec.project) == ((first,), 7, ("a b", "x"), "Shop")
    assert spec.checkout == str(wk.cwd.resolve()) and spec.not_before == task.wake_at
    assert spec.not_before is not None and timedelta(hours=1.9) < spec.not_before - task.created_at < timedelta(hours=2)
    assert "It waits: dependency" in answer.err
    assert words(wk, task.id) == ["dependency", "not before"]


def test_by_default_a_task_has_its_checkout_for_itself(wk: "Wk") -> None:
    repository(wk)
    (wk.cwd / "deep").mkdir()
    task = wk.task(wk.add("do it", "--cwd", "deep"))
    assert (task.spec.checkout, task.spec.project, task.spec.cwd) == (str(wk.cwd.resolve()), "work", f"{wk.cwd}/deep")
    assert wk.task(wk.add("do it", "--shared")).spec.checkout is None


def test_outside_git_tasks_work_beside_each_other(wk: "Wk") -> None:
    spec = wk.task(wk.add()).spec
    assert (spec.checkout, spec.project) == (None, "")


@pytest.mark.parametrize(
    ("options", "code", "detail"),
    [
        (["--after", "zzzz"], 3, "There is no task 'zzzz'"),
        (["--not-before", "yesterday"], 2, "no time to come"),
        (["--not-before", "2001-01-01T00:00"], 5, "has passed already"),
        (["--not-before", "+0s"], 2, "no time to come"),
        (["--not-before", "25:00"], 2, "no time to come"),
        (["--not-before", "9999-12-31T23:59:59-23:59"], 2, "no time to come"),
        (["--machine", "nowhere"], 3, "nowhere"),
        (["--account", "nobody"], 3, "There is no account 'demo:nobody'"),
        (["--label", "x" * 10240], 5, "10240 characters"),
        (["--label", ""], 5, "cannot be a label"),
        (["--label", "a\tb"], 5, "cannot be a label"),
        (["--project", "x" * 65], 5, "65 characters"),
        (["--priority", "many"], 2, "many"),
        (["--priority", "1001"], 2, "1001"),
        ([f"--label=l{n}" for n in range(21)], 5, "21 labels"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("verb", ["run", "add"])
def test_bad_wishes_are_refused_and_nothing_is_added(
    wk: "Wk", verb: str, options: list[str], code: int, detail: str
) -> None:
    answer = wk(verb, "--harness", "demo", *options, "do it")
    assert answer.code == code and detail in answer.err, answer.err
    assert answer.err.count("wk: ") == 1 and len(answer.err) < 1000
    assert wk("ls", "--json").json == []


def test_an_id_that_fits_several_is_ambiguous(wk: "Wk") -> None:
    ids = [wk.add() for _ in range(33)]
    common = next(each[0] for each in ids if sum(other[0] == each[0] for other in ids) > 1)
    answer = wk("add", "--harness", "demo", "--after", common, "do it")
    assert answer.code == 3 and "fits several tasks" in answer.err


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("+90", NOW + timedelta(seconds=90)),
        ("+1h30m", NOW + timedelta(minutes=90)),
        ("2026-03-02T08:00Z", NOW + timedelta(hours=20)),
        ("2026-03-02T08:00+02:00", NOW + timedelta(hours=18)),
        ("x", None), ("+x", None), ("", None), ("12", None), ("+9999999w", None), ("7:5", None),
    ],
)  # fmt: skip
def test_times_to_come(text: str, means: datetime | None) -> None:
    assert from_now(text, NOW) == means


def test_a_time_of_day_is_the_next_one() -> None:
    """In the caller's own zone."""
    now = datetime(2026, 3, 1, 12, 0).astimezone()
    assert from_now("14:30", now.astimezone(UTC)) == now + timedelta(hours=2.5)
    assert from_now("9:00", now.astimezone(UTC)) == now + timedelta(hours=21)
    assert from_now("12:00", now.astimezone(UTC)) == now + timedelta(days=1)


@pytest.mark.parametrize(
    ("zone", "wish", "means"),
    [
        ("Europe/Berlin", "2027-03-28T02:30", "2027-03-28T01:00"),
        ("Europe/Berlin", "2027-10-31T02:30", "2027-10-31T01:30"),
        ("Australia/Lord_Howe", "2027-10-03T02:10", "2027-10-02T15:30"),
        ("Asia/Beirut", "2027-03-28", "2027-03-27T22:00"),
    ],
)
def test_a_task_never_starts_before_the_time_that_was_asked_for(wk: "Wk", zone: str, wish: str, means: str) -> None:
    """Also where the clocks change: by option, by line and by edit."""
    wanted = datetime.fromisoformat(f"{means}+00:00")
    with in_zone(zone):
        first = wk.add("do it", "--not-before", wish)
        line = json.dumps({"prompt": "do it", "harness": "demo", "not_before": wish})
        second = wk("add", "--json-lines", stdin=line.encode()).out.strip()
        third = wk.add()
        assert wk("edit", third, "--not-before", wish).code == 0
    assert [wk.task(each).wake_at for each in (first, second, third)] == [wanted] * 3


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("90", NOW - timedelta(seconds=90)), ("15m", NOW - timedelta(minutes=15)),
        ("2026-02-28T08:00Z", NOW - timedelta(hours=28)), ("11:30", NOW - timedelta(minutes=30)),
        ("12:30", NOW - timedelta(hours=23.5)), ("12:00", NOW),
        ("soon", None), ("25:00", None), ("", None), ("9999999w", None),
    ],
)  # fmt: skip
def test_times_that_have_passed(text: str, means: datetime | None) -> None:
    with in_zone("UTC"):
        assert until_now(text, NOW) == means


# wk add


def test_add_starts_no_daemon(wk: "Wk") -> None:
    answer = wk("add", "--harness", "demo", "do it")
    assert answer.code == 0 and wk.task(answer.out.strip()).state is TaskState.QUEUED
    assert wk.ensured == [] and "No daemon runs" in answer.err


def test_add_takes_a_command_line(wk: "Wk") -> None:
    answer = wk("add", "--label", "x", "--", "env", "--label", "y")
    spec = wk.task(answer.out.strip()).spec
    assert (spec.argv, spec.labels) == (("env", "--label", "y"), ("x",))


def test_lines_are_tasks(wk: "Wk") -> None:
    answer = wk("add", "--lines", "--harness", "demo", "--label", "todo", "--json", stdin=b"one\n\n  two \n")
    assert [(each["title"], each["labels"]) for each in answer.lines] == [("one", ["todo"]), ("two", ["todo"])]
    assert [each["title"] for each in wk("queue", "show", "--json").json["waiting"]] == ["one", "two"]


def test_json_lines_are_tasks_that_can_wait_for_each_other(wk: "Wk") -> None:
    lines: list[dict[str, Any]] = [
        {"prompt": "build", "name": "build", "priority": 3, "deadline": "15m", "retries": 0},
        {"argv": ["env", "test"], "after": ["build"], "labels": ["slow"], "shared": True, "title": "Test"},
        {"prompt": "tell", "after": "build", "not_before": "+1h", "harness": "demo"},
    ]
    (wk.cwd / "plan.jsonl").write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    answer = wk("add", "--json-lines", "-f", "plan.jsonl", "--label", "all", WATCHKEEPER_RUN_HARNESS="demo")
    assert answer.code == 0, answer.err
    build, test, tell = (wk.task(each) for each in answer.out.split())
    assert (build.spec.priority, build.spec.deadline_s, build.spec.max_attempts) == (3, 900.0, 1)
    assert (test.spec.argv, test.spec.after, test.spec.labels) == (("env", "test"), (build.id,), ("all", "slow"))
    assert (test.spec.title, tell.spec.after, tell.spec.labels) == ("Test", (build.id,), ("all",))
    assert words(wk, tell.id) == ["dependency", "not before"]


@pytest.mark.parametrize(
    ("line", "code", "detail"),
    [
        ("nonsense", 5, "Line 2: this is not JSON"),
        ("[]", 5, "Line 2: this is not a JSON object"),
        ('{"promt": "x"}', 5, "Line 2: there is no 'promt'"),
        ('{"prompt": 7}', 5, "'prompt' must be a text"),
        ('{"prompt": "x", "labels": [1]}', 5, "'labels' must be a list"),
        ('{"prompt": "x", "priority": true}', 5, "'priority' must be a whole number"),
        ('{"prompt": "x", "priority": 5000}', 5, "Line 2: The priority 5000"),
        ('{"prompt": "x", "deadline": "soon"}', 5, "'deadline' must be"),
        ('{"prompt": "x", "isolation": "none"}', 2, "has no isolation 'none'"),
        ('{"prompt": "x", "not_before": "soon"}', 5, "'not_before' must be"),
        ('{"prompt": "x", "shared": "no"}', 5, "'shared' must be"),
        ('{"prompt": "x", "after": "later"}', 3, "Line 2: There is no task 'later'"),
        ('{"prompt": "x", "harness": "dmeo"}', 4, "Line 2:"),
        ('{"prompt": "x", "retries": 99}', 9, "Line 2:"),
        ('{"prompt": "x", "name": "a"}', 5, "two lines are named 'a'"),
        ('{"prompt": "x", "name": "b", "after": ["b"]}', 5, "Line 2: no line before it is named 'b'"),
        ('{"prompt": "x", "title": "a", "title": "b"}', 5, "Line 2: this is not JSON ('title' is there twice)"),
        ('{"prompt": ""}', 5, "Line 2: The task is empty"),
        ('{"prompt": "x", "harness": "demo", "argv": ["true"]}', 5, "command line"),
    ],
)
def test_a_bad_line_keeps_them_all_out(wk: "Wk", line: str, code: int, detail: str) -> None:
    given = f'{{"prompt": "fine", "name": "a"}}\n{line}\n'.encode()
    answer = wk("add", "--json-lines", "--harness", "demo", stdin=given)
    if '"harness": "demo", "argv"' in line or '"argv"' not in line:
        assert answer.code == code and detail in answer.err, answer.err
    assert wk("ls", "--json").json == []


def test_every_field_of_a_request_is_a_key(wk: "Wk") -> None:
    """A new one is a key of a line without a change of the parser."""
    names = {each.name for each in fields(HandOverRequest)} - {"not_before_typed"}
    answer = wk("add", "--json-lines", "--harness", "demo", stdin=b'{"wrong": 1}')
    listed = answer.err.split("Known keys: ")[1].strip().rstrip(".").replace("\n", " ")
    assert {word.strip() for word in listed.split(",")} == names | {"name"}


def test_the_name_of_a_later_line_is_no_beginning_of_another_task_s_id(wk: "Wk") -> None:
    """It would wait for whatever task happened to be called so, and start too early or never."""
    old = wk("add", "--harness", "demo", "an old one").out.strip()
    lines = [{"prompt": "tell", "after": [old[:3]]}, {"prompt": "build", "name": old[:3]}]
    given = "\n".join(json.dumps(line) for line in lines).encode()
    answer = wk("add", "--json-lines", "--harness", "demo", stdin=given)
    assert answer.code == 5 and f"Line 1: no line before it is named '{old[:3]}'" in answer.err
    assert [each["id"] for each in wk("ls", "--json").json] == [old]
    given = "\n".join(json.dumps(line) for line in reversed(lines)).encode()
    build, tell = wk("add", "--json-lines", "--harness", "demo", stdin=given).out.split()
    assert wk.task(tell).spec.after == (build,)


def test_no_lines_and_too_many_are_refused(wk: "Wk") -> None:
    assert "no task in the file" in wk("add", "--lines", "--harness", "demo", stdin=b"\n\n").err
    answer = wk("add", "--lines", "--harness", "demo", stdin=b"x\n" * 1001)
    assert answer.code == 5 and "1001 tasks are too many" in answer.err
    assert wk("add", "--lines", "--json-lines", "--harness", "demo", stdin=b"x").code == 2
    assert wk("add", "--lines", "--harness", "demo", "a task").code == 2


def test_a_dry_run_adds_nothing(wk: "Wk") -> None:
    assert wk("add", "--dry-run", "--lines", "--harness", "demo", stdin=b"a\nb\n").code == 0
    assert wk("ls", "--json").json == []


def test_an_agent_may_do_none_of_it(wk: "Wk") -> None:
    task_id = wk.add()
    for arguments in (["add", "--harness", "demo", "x"], ["edit", task_id, "--priority", "9"], ["cancel", task_id],
                      ["queue", "pause"], ["queue", "resume"], ["queue", "limit", "3"]):  # fmt: skip
        answer = wk(*arguments, WATCHKEEPER_RUN="t.1")
        assert answer.code == 8 and "An agent may not" in answer.err, arguments
    assert words(wk, task_id) == []


# wk why


def test_what_works_and_what_ended_is_said_plainly(wk: "Wk") -> None:
    task_id = wk.add()
    assert "Nothing stands in its way" in wk("why", task_id).out
    wk.claim()
    assert "it is running" in wk("why", task_id).out
    ended = wk.add()
    wk.become(ended, TaskState.FAILED, reason="It broke.")
    answer = wk("why", ended)
    assert (
        "It does not wait: it failed" in answer.out and "It broke." in answer.out and f"wk retry {ended}" in answer.out
    )


def test_that_nobody_would_start_it_is_a_note(wk: "Wk", monkeypatch: pytest.MonkeyPatch) -> None:
    task_id = wk.add()
    answer = wk("why", task_id)
    assert "No daemon runs" in answer.err and answer.code == 0
    info = DaemonInfo(1, 1, "b", NOW, 1, "v", "w", ending="drain")
    monkeypatch.setattr(daemon, "running", lambda _: info)
    assert "ending (drain)" in wk("why", task_id).err
    assert wk("why", task_id, "--json").json["notes"] == [
        "The daemon is ending (drain) and starts nothing more; the next one does: wk daemon start"
    ]


def test_a_failed_dependency_says_what_to_do(wk: "Wk") -> None:
    first = wk.add("first")
    second = wk.add("second", "--after", first)
    wk.become(first, TaskState.FAILED, reason="It broke.")
    answer = wk("why", second)
    assert f"task {first} failed and must be done first: it will never start by itself" in " ".join(answer.out.split())
    assert f"wk retry {first}" in answer.out and f"wk edit {second} --after none" in answer.out
    assert f"waits: dependency, task {first} failed" in wk("ls").out
    assert wk("status").out.startswith("no daemon · database ok · 1 queued (1 dependency) · 1 failed")
    assert "dependency: task" in wk("show", second).out


def test_a_person_is_needed_for_what_the_kind_says(wk: "Wk") -> None:
    task_id = wk.add()
    for kind, word in ((FailureKind.PERMISSION_DENIED, "approval"), (FailureKind.CRASH, "question"),
                       (FailureKind.ENVIRONMENT_UNKNOWN, "environment unknown")):  # fmt: skip
        wk.become(task_id, TaskState.NEEDS_INPUT, kind=kind, reason="Because.")
        assert words(wk, task_id) == [word]


# wk queue


def test_a_pause_keeps_and_a_resume_lets_go(wk: "Wk") -> None:
    task_id = wk.add()
    assert "The queue is paused" in wk("queue", "pause").out
    assert "paused already" in wk("queue", "pause").out
    assert words(wk, task_id) == ["paused"]
    assert "paused: the queue (wk queue show)" in wk("status").out
    assert "It waits: paused" in wk("run", "--harness", "demo", "x").err
    assert "The queue goes on" in wk("queue", "resume").out
    assert "was not paused" in wk("queue", "resume").out
    assert words(wk, task_id) == []


@pytest.mark.parametrize(
    "part", [("--harness", "demo"), ("--account", "demo:own"), ("--project", "shop"), ("--machine", None)]
)
def test_a_part_is_paused_by_itself(wk: "Wk", part: tuple[str, str | None]) -> None:
    name = part[1] or wk.parts.host_name
    inside, outside = wk.add("a", "--project", "shop"), wk("add", "--", "true").out.strip()
    assert wk("queue", "pause", part[0], name).code == 0
    assert words(wk, inside) == ["paused"]
    assert words(wk, outside) == (["paused"] if part[0] == "--machine" else [])
    rule = wk("queue", "show", "--json").json["rules"][0]
    assert (rule["scope"], rule["paused"]) == (part[0].removeprefix("--"), True)
    assert wk("queue", "resume", part[0], name).code == 0
    assert wk("queue", "show", "--json").json["rules"] == []


def test_every_pause_that_concerns_it_is_a_reason(wk: "Wk") -> None:
    task_id = wk.add()
    wk("queue", "pause")
    wk("queue", "pause", "--harness", "demo")
    assert words(wk, task_id) == ["paused", "paused"]


def test_a_limit_stands_until_it_is_taken_away(wk: "Wk") -> None:
    first, second = wk.add("a"), wk.add("b")
    wk.claim()
    answer = wk("queue", "limit", "1", "--harness", "demo")
    assert "harness demo: at most 1 agent at once" in answer.out
    assert words(wk, first) == [] and words(wk, second) == ["limit"]
    assert "as before" in wk("queue", "limit", "1", "--harness", "demo").out
    wk("queue", "pause", "--harness", "demo")
    assert words(wk, second) == ["paused", "limit"]
    wk("queue", "resume", "--harness", "demo")
    assert "no limit of its own" in wk("queue", "limit", "none", "--harness", "demo").out
    assert words(wk, second) == []


@pytest.mark.parametrize(
    ("arguments", "code", "detail"),
    [
        (["limit", "0"], 2, "wk queue pause"),
        (["limit", "-1"], 2, "-1"),
        (["limit", "many"], 2, "not a concurrency limit"),
        (["limit"], 2, "N|none"),
        (["pause", "--harness", "dmeo"], 4, "dmeo"),
        (["pause", "--account", "demo"], 3, "HARNESS:NAME"),
        (["pause", "--account", "demo:nobody"], 3, "demo:nobody"),
        (["pause", "--machine", "nowhere"], 3, "nowhere"),
        (["pause", "--project", " "], 2, "empty"),
        (["pause", "--harness", "demo", "--project", "x"], 2, "one part"),
    ],
)
def test_rules_that_cannot_be(wk: "Wk", arguments: list[str], code: int, detail: str) -> None:
    wk.add()
    answer = wk("queue", *arguments)
    assert answer.code == code and detail in answer.err, answer.err
    assert wk("queue", "show", "--json").json["rules"] == []


def test_a_machine_is_named_by_the_beginning_of_its_id(wk: "Wk") -> None:
    """As the hint prints it. A beginning that fits several is refused, with the names of both."""
    wk.add()
    parts = wk.parts
    others = ("aaaa1111", "aaaa2222")

    def begin(tx: Any) -> None:
        for number, machine in enumerate(others):
            _ = tx.machines.begin_incarnation(machine, "boot", NOW, name=f"host{number}")

    parts.store.transact("test", begin)
    refused = wk("queue", "pause", "--machine", "aaaa", "--json")
    assert refused.code == Exit.NOT_FOUND
    assert "host0 is aaaa1111, host1 is aaaa2222" in refused.err
    for typed, meant in (("aaaa1", others[0]), ("host1", others[1]), (parts.state.node()[:6], parts.state.node())):
        answer = wk("queue", "pause", "--machine", typed, "--json")
        assert answer.code == 0 and answer.json["name"] == meant, answer.err or answer.out


def test_what_waits_is_shown_in_the_order_of_the_claim(wk: "Wk") -> None:
    repository(wk)
    first, second, best = wk.add("first"), wk.add("second"), wk.add("best", "--priority", "5", "--shared")
    found = wk("queue", "show", "--json").json
    assert [each["id"] for each in found["waiting"]] == [best, first, second]
    assert [reason["wait"] for reason in found["waiting"][2]["reasons"]] == ["checkout busy"]
    assert found["waiting"][2]["reasons"][0]["tasks"] == [first]
    assert found["lanes"] == [
        {"machine": None, "harness": "demo", "account": "demo:own", "project": "work", "waiting": 3, "reasons": []}
    ]
    text = wk("queue", "show").out
    assert text.index(best) < text.index(first) < text.index(second)
    assert "0 of 4 agents at work" in text and f"task {first} stands before it" in text
    assert wk("queue", "show", "--limit", "1", "--json").json["left_out"] == 2


def test_before_anything_there_is_an_empty_queue(wk: "Wk") -> None:
    assert wk("queue", "show", "--json").json["waiting"] == []
    assert "No tasks yet" in wk("queue", "show").out
    assert not Path(wk.home).exists()


# wk edit


def test_what_waits_can_be_edited(wk: "Wk") -> None:
    first, task_id = wk.add("first"), wk.add("do it", "--label", "old")
    answer = wk(
        *(
            "edit",
            task_id,
            "--title",
            "New",
            "--priority",
            "9",
            "--after",
            first,
            "--not-before",
            "+1h",
            "--label",
            "new",
        ),
        *("--no-label", "old", "--deadline", "10m", "--retries", "0", "--model", "m2", "--json"),
    )
    assert answer.code == 0, answer.err
    spec = wk.task(task_id).spec
    assert (spec.title, spec.priority, spec.after, spec.labels) == ("New", 9, (first,), ("new",))
    assert (spec.deadline_s, spec.max_attempts, spec.model) == (600.0, 1, "m2")
    assert "priority" in answer.json["changed"]
    assert words(wk, task_id) == ["dependency", "not before"]
    assert (
        wk("edit", task_id, "--after", "none", "--not-before", "none", "--deadline", "none", "--model", "none").code
        == 0
    )
    spec = wk.task(task_id).spec
    assert (spec.after, spec.not_before, spec.deadline_s, spec.model) == ((), None, None, None)
    assert words(wk, task_id) == []
    assert kinds(wk, task_id)[-4:] == ["task.edited", "task.waiting dependency", "task.edited", "task.ready"]
    assert "changed: its title" in wk("events", "--task", task_id).out


def test_another_text_is_another_approval(wk: "Wk") -> None:
    task_id = wk.add("do it")

    def approvals() -> int:
        rows = wk.parts.store.read(lambda tx: tx.outcomes.authorisation(task_id))
        assert rows is not None
        return hash(rows.id)

    before = approvals()
    assert wk("edit", task_id, "--priority", "3").code == 0
    assert approvals() == before
    answer = wk("edit", task_id, "--prompt", "do something else")
    assert answer.code == 0 and "as you" in answer.err
    assert approvals() != before
    spec = wk.task(task_id).spec
    assert (spec.prompt, spec.title) == ("do something else", "do something else")
    (wk.cwd / "new.md").write_text("from a file\n", encoding="utf-8")
    assert wk("edit", task_id, "--prompt-file", "new.md").code == 0
    assert wk.task(task_id).spec.prompt == "from a file\n"


@pytest.mark.parametrize(
    ("options", "code", "detail"),
    [
        ([], 2, "Nothing was said"),
        (["--prompt", ""], 5, "empty"),
        (["--prompt", "a", "--prompt-file", "b"], 2, "twice"),
        (["--title", " "], 2, "title"),
        (["--title", "x" * 201], 5, "title"),
        (["--label", "x" * 65], 5, "65 characters"),
        (["--account", "nobody"], 3, "demo:nobody"),
        (["--account", "claude:own"], 2, "claude:own"),
        (["--after", "zzzz"], 3, "zzzz"),
        (["--not-before", "2001-01-01"], 5, "passed already"),
        (["--machine", "nowhere"], 3, "nowhere"),
    ],
)
def test_bad_edits_change_nothing(wk: "Wk", options: list[str], code: int, detail: str) -> None:
    task_id = wk.add()
    was = wk.task(task_id)
    answer = wk("edit", task_id, *options)
    assert answer.code == code and detail in answer.err, answer.err
    assert wk.task(task_id) == was


def test_a_circle_is_refused_and_shown(wk: "Wk") -> None:
    first = wk.add("first")
    second = wk.add("second", "--after", first)
    third = wk.add("third", "--after", second)
    answer = wk("edit", first, "--after", third)
    assert answer.code == 5 and f"{first} waits for {third} waits for {second} waits for {first}" in answer.err
    assert "wait for itself" in wk("edit", first, "--after", first).err
    assert wk.task(first).spec.after == ()


def test_only_what_waits_can_be_edited(wk: "Wk") -> None:
    task_id = wk.add()
    wk.claim()
    answer = wk("edit", task_id, "--priority", "3")
    assert answer.code == 8 and "only one that waits" in answer.err


def test_an_edit_of_something_else_keeps_a_time_that_has_passed(wk: "Wk") -> None:
    task_id = wk.add("do it", "--not-before", "+1h")
    task = wk.task(task_id)
    assert task.wake_at is not None
    wk.become(task_id, TaskState.QUEUED, wake_at=None, wake_for=None)
    assert wk("edit", task_id, "--priority", "3").code == 0
    assert wk.task(task_id).wake_at is None


# wk cancel


def test_what_never_ran_is_cancelled(wk: "Wk") -> None:
    first, second = wk.add("a"), wk.add("b")
    answer = wk("cancel", first, "zzzz", second)
    assert answer.code == 3 and "zzzz" in answer.err
    assert f"{first}  cancelled" in answer.out and f"{second}  cancelled" in answer.out
    assert wk.task(first).state is wk.task(second).state is TaskState.STOPPED
    again = wk("cancel", first)
    assert again.code == 8 and "cancelled already" in again.err


def test_what_has_run_is_stopped_instead(wk: "Wk") -> None:
    task_id = wk.add()
    wk.claim()
    answer = wk("cancel", task_id)
    assert answer.code == 8 and f"wk stop {task_id}" in answer.err
    between = wk.add()
    wk.become(between, TaskState.QUEUED, runs=1)
    assert wk("cancel", between).code == 8
    done = wk.add()
    wk.become(done, TaskState.DONE)
    assert "has ended" in wk("cancel", done).err


def test_labels_machines_and_accounts_are_completed(wk: "Wk", monkeypatch: pytest.MonkeyPatch) -> None:
    wk.add("do it", "--label", "chores", "--label", "chat")
    wk.claim()
    for name, value in wk.environ.items():
        monkeypatch.setenv(name, value)

    def offered(arguments: list[str], incomplete: str) -> list[str]:
        found = ShellComplete(group, {}, "wk", "_WK_COMPLETE").get_completions(arguments, incomplete)
        return [item.value for item in found]

    assert offered(["run", "--label"], "ch") == ["chat", "chores"]
    assert offered(["edit", "x", "--no-label"], "cho") == ["chores"]
    assert offered(["queue", "pause", "--machine"], "") != []
    assert offered(["queue", "pause", "--harness"], "de") == ["demo"]
    assert len(offered(["run", "--after"], "")) == 1


def test_labels_find_tasks(wk: "Wk") -> None:
    """Also those that ended, and with several labels those that have all of them."""
    both, one = wk.add("a", "--label", "x", "--label", "y"), wk.add("b", "--label", "x")
    wk.add("c")
    wk.become(one, TaskState.DONE)

    def found(*options: str) -> list[str]:
        return [each["id"] for each in wk("ls", "--json", *options).json]

    assert found("--label", "x") == [both, one]
    assert found("--label", "x", "--label", "y") == [both]
    assert found("--label", "x", "--state", "done") == [one]
    assert found("--label", "z") == [] and "No task is labelled z." in wk("ls", "--label", "z").out


def test_doctor_audits_what_is_kept_of_waits(wk: "Wk") -> None:
    first = wk.add()
    second = wk.add("second", "--after", first)

    def queue() -> dict[str, Any]:
        return next(each for each in wk("doctor", "--json").json["checks"] if each["name"] == "queue")

    assert queue()["level"] == "ok"
    wk("queue", "pause", "--harness", "demo")
    assert "1 part paused" in queue()["detail"]
    wk("queue", "pause")
    assert (queue()["level"], queue()["hint"]) == ("note", "`wk queue resume` resumes it.")
    store = wk.parts.store
    inside(store).query("UPDATE task SET unmet = 0 WHERE id = :id", {"id": second})  # pyright: ignore[reportArgumentType] - it is SQLite's here
    assert queue()["level"] == "note" and second in queue()["detail"] and queue()["faults"]


def test_an_accounts_variables_go_to_no_other_account(wk: "Wk") -> None:
    """They are in the environment that was kept, which an edit does not change."""
    wk.environ["WORK_GATEWAY"] = "somewhere"
    assert wk("account", "add", "demo", "work", "--env", "GATEWAY=WORK_GATEWAY").code == 0
    assert wk("account", "add", "demo", "other").code == 0
    task_id = wk.add("do it", "--account", "work")
    for name in ("other", "own"):
        answer = wk("edit", task_id, "--account", name)
        assert answer.code == Exit.BAD_TASK and "GATEWAY of account demo:work" in answer.err
    assert wk.task(task_id).spec.account == "work"


@pytest.mark.parametrize(
    ("variables", "detail"),
    [(("A=B", "A=C"), "named twice"), (("WATCHKEEPER_HOME=B",), "cannot set"), (("DEMO_HOME=B",), "cannot set")],
)
def test_an_account_names_a_variable_once_and_none_that_is_ours(
    wk: "Wk", variables: tuple[str, ...], detail: str
) -> None:
    """It would be another one's value, or never start."""
    answer = wk("account", "add", "demo", "x", *(word for each in variables for word in ("--env", each)))
    assert answer.code == Exit.USAGE and detail in answer.err


def test_a_home_that_everybody_may_write_to_is_refused(wk: "Wk", tmp_path: Path) -> None:
    """Another user could put their own sign-in there."""
    home = tmp_path / "open"
    home.mkdir()
    home.chmod(0o777)
    answer = wk("account", "add", "demo", "x", "--home", str(home))
    assert answer.code == Exit.USAGE and "chmod o-w" in answer.err
    home.chmod(0o755)
    assert wk("account", "add", "demo", "x", "--home", str(home)).code == 0


def test_a_rule_of_the_queue_holds_no_secret(wk: "Wk") -> None:
    """Its name is stored, too."""
    wk.environ["A_TOKEN"] = "q7Hn4kZx2Lw9Rt5vPb8m"
    for verb in (("pause",), ("limit", "2")):
        answer = wk("queue", *verb, "--project", "q7Hn4kZx2Lw9Rt5vPb8m")
        assert answer.code == Exit.BAD_TASK and "A_TOKEN" in answer.err


def test_a_program_is_looked_for_however_long_the_queue_is(wk: "Wk") -> None:
    """The task that waits for it is old, and hundreds were handed over since."""
    first = wk.add()
    parts = wk.parts
    state = HarnessState(
        harness="demo", machine=parts.state.node(), present=False, detail="it is gone", at=parts.clock.now()
    )
    parts.store.transact("test", lambda tx: tx.accounts.record_harness(state))
    lines = (json.dumps({"argv": ["true"]}) + "\n") * (501)
    assert wk("add", "--json-lines", stdin=lines.encode()).code == 0
    sign_ins = wk.parts.sign_ins
    (lack,) = sign_ins.lacks()
    assert lack.lender is not None and lack.lender.id == first
    assert sign_ins.check_again(lack) is not None and not sign_ins.lacks()
