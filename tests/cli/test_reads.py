"""Commands that only look: `ls`, `status`, `show`, `wait`, `events`, `config`, `version`, `completion`."""

import json
import os
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from watchkeeper.app.record import apply_run
from watchkeeper.app.views import live
from watchkeeper.cli import render
from watchkeeper.domain.model import DirectoryIdentity, StopHow, StopRequest, TaskState
from watchkeeper.domain.run_events import (
    AgentSeen,
    Answered,
    Prepared,
    RunEvent,
    Stalled,
)
from watchkeeper.domain.samples import AGENT
from watchkeeper.errors import Exit

if TYPE_CHECKING:
    from support.cli import Wk

    from watchkeeper.ports.store import Tx


_ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp\u2066.exe"


@pytest.mark.parametrize(
    "command", [["ls"], ["status"], ["events"], ["ls", "--json"], ["status", "--json"], ["doctor"]]
)
def test_looking_creates_nothing(wk: "Wk", command: list[str]) -> None:
    """Where nothing was ever written there is nothing to see, and that is not an error."""
    answer = wk(*command)
    assert answer.code == 0
    assert not wk.home.exists()
    assert answer.err == ""


def test_a_newcomer_is_told_how_to_begin(wk: "Wk") -> None:
    """An empty list is a friendly sentence."""
    assert "wk demo" in wk("ls").out


@pytest.mark.parametrize(
    "command",
    [
        ["show", "0l1"],
        ["logs", "0l1"],
        ["env", "0l1"],
        ["wait", "0l1"],
        ["stop", "0l1"],
        ["kill", "0l1"],
        ["retry", "0l1"],
        ["events", "--task", "0l1"],
    ],
)
def test_an_unknown_id_is_said(wk: "Wk", command: list[str]) -> None:
    """Before there is a database and after."""
    assert wk(*command).code == 3
    assert not wk.home.exists()
    wk.add()
    answer = wk(*command)
    assert answer.code == 3
    assert "'0l1'" in answer.err


def test_ids_may_be_abbreviated(wk: "Wk") -> None:
    """As long as they mean one task; upper case makes no difference."""
    task_id = wk.add()
    assert wk("show", task_id[:4].upper()).out.startswith(task_id)


def test_an_ambiguous_id_names_what_it_may_mean(wk: "Wk", monkeypatch: pytest.MonkeyPatch) -> None:
    """With candidates, also for programs."""
    from watchkeeper.runtimes.system import RandomIds

    names = iter(["abcd2345", "abcd6789"])
    monkeypatch.setattr(RandomIds, "task", lambda _: next(names))
    wk.add()
    wk.add()
    answer = wk("show", "abc")
    assert answer.code == 3
    assert "abcd2345" in answer.err and "abcd6789" in answer.err
    said = json.loads(wk("show", "abc", "--json").err)
    assert sorted(said["candidates"]) == ["abcd2345", "abcd6789"]
    assert said["error"] == "AmbiguousId" and said["exit_code"] == 3 and said["more_candidates"] is False
    assert wk("show", "abcd2345").code == 0


def test_candidates_that_are_left_out_are_told(wk: "Wk", monkeypatch: pytest.MonkeyPatch) -> None:
    from watchkeeper.runtimes.system import RandomIds

    names = iter(f"abcd{number:04d}" for number in range(9))
    monkeypatch.setattr(RandomIds, "task", lambda _: next(names))
    for _ in range(9):
        wk.add()
    said = json.loads(wk("show", "abc", "--json").err)
    assert len(said["candidates"]) == 8 and said["more_candidates"] is True
    assert "abcd0001 and more." in said["message"]


def test_ls_shows_what_goes_on_and_what_ended_lately(wk: "Wk") -> None:
    """And says how many it leaves out."""
    ended = [wk.add(f"old {number}") for number in range(12)]
    for task_id in ended:
        wk.become(task_id, TaskState.DONE)
    going = wk.add("going on")
    answer = wk("ls")
    assert going in answer.out and answer.out.count("old") == 10
    assert "2 more tasks: wk ls --all" in answer.out
    assert len(wk("ls", "--all", "--json").json) == 13
    assert [row["id"] for row in wk("ls", "--all", "--json", "--limit", "1").json] == [going]
    assert [row["id"] for row in wk("ls", "--state", "queued", "--json").json] == [going]
    assert len(wk("ls", "--state", "queued", "--state", "done", "--json").json) == 13


def test_ls_says_on_the_side_when_nothing_acts(wk: "Wk") -> None:
    """Only if something waits for a daemon: what to type on the side, and the reason behind each title."""
    task_id = wk.add()
    answer = wk("ls")
    assert "No daemon runs" in answer.err and "1 task waits for it" in answer.err
    assert "wk daemon start" in answer.err
    assert "do it (waits: no daemon runs)" in answer.out
    assert "No daemon runs" in wk("status").err
    wk.become(task_id, TaskState.DONE)
    assert wk("ls").err == ""


def test_ls_says_when_there_is_no_room(wk: "Wk", monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the tasks that take it are not listed; a task whose back-off is over waits for room as well."""
    from watchkeeper.cli import daemon

    monkeypatch.setattr(daemon, "running", lambda _: "one")
    wk.add("works")
    wk.claim()
    waits = wk.add("waits")
    wk.become(waits, TaskState.QUEUED, wake_at=wk.parts.clock.now() - timedelta(seconds=1), reason="It was busy.")
    answer = wk("ls", "--state", "queued", WATCHKEEPER_QUEUE_LIMIT="1")
    assert "waits (waits: limit, 1 of 1 agents are running)" in answer.out
    assert "waits: " not in wk("ls").out


def test_a_line_of_ls_is_bounded_where_no_person_looks(wk: "Wk") -> None:
    """One task a line, whatever its reason is."""
    task_id = wk.add()
    wk.become(task_id, TaskState.FAILED, reason="why\n" * 200)
    head, line, hint = wk("ls").out.splitlines()
    assert head.startswith("ID") and line.startswith(task_id)
    assert 195 < len(line) <= 200
    assert hint == "1 failure not looked at yet: wk show ID, or wk ls --seen for all"


def test_a_broken_file_of_the_repository_keeps_nobody_from_looking_or_ending(wk: "Wk") -> None:
    """A user or an agent that works there can write it; only what starts work there looks at it."""
    task_id, done = wk.add(), wk.add()
    wk.become(done, TaskState.DONE)
    for written in ("no toml", "[queue]\nlimit = 100\n"):
        (wk.cwd / ".watchkeeper.toml").write_text(written, encoding="utf-8")
        for command in (
            ["ls"],
            ["status"],
            ["show", task_id],
            ["logs", task_id],
            ["wait", done],
            ["events"],
            ["daemon", "status"],
            ["stop", "--dry-run", task_id],
        ):
            answer = wk(*command)
            assert answer.code == (7 if command[0] == "daemon" else 0), (command, answer.err)
        for command in (["run", "--harness", "demo", "x"], ["config", "show"], ["doctor"]):
            answer = wk(*command)
            assert answer.code == 9 and ".watchkeeper.toml" in answer.out + answer.err, command
    assert "BAD   settings" in wk("doctor").out
    assert wk("stop", task_id).code == 0
    (wk.cwd / ".watchkeeper.toml").unlink()
    assert wk.task(task_id).state is TaskState.STOPPED


def test_ls_says_why_and_when_again(wk: "Wk") -> None:
    """A task that waits for its back-off tells how long."""
    task_id = wk.add("flaky")
    soon = wk.parts.clock.now() + timedelta(seconds=90)
    wk.become(task_id, TaskState.QUEUED, wake_at=soon, reason="The service was overloaded.")
    answer = wk("ls")
    assert "flaky (waits: not before, in 1m" in answer.out and "overloaded" in answer.out


def test_control_codes_never_reach_the_terminal(wk: "Wk") -> None:
    """Not from a title, a text, a directory, a reason; in no form for people."""
    task_id = wk.add(f"{_ESCAPES}\nsecond {_ESCAPES}", "--title", f"t {_ESCAPES}")
    wk.become(task_id, TaskState.NEEDS_INPUT, reason=f"because {_ESCAPES}")
    for command in (
        ["ls"],
        ["status"],
        ["show", task_id],
        ["events"],
        ["wait", task_id],
        ["stop", "--dry-run", task_id],
    ):
        answer = wk(*command)
        for bad in "\x1b\x07\x9b\u202e\u2066":
            assert bad not in answer.out + answer.err, command
    assert wk("show", task_id, "--json").json["prompt"] == f"{_ESCAPES}\nsecond {_ESCAPES}"


def test_status_names_what_needs_a_person(wk: "Wk") -> None:
    """One line of health, then the tasks."""
    asked = wk.add("asks")
    wk.become(asked, TaskState.NEEDS_INPUT, reason="The agent program is not signed in.")
    wk.add("waits")
    answer = wk("status")
    first = answer.out.splitlines()[0]
    assert first == "no daemon · database ok · 1 queued · 1 needs you"
    assert f"{asked}  asks: The agent program is not signed in." in answer.out
    said = wk("status", "--json").json
    assert said["daemon"]["running"] is False and said["counts"] == {"queued": 1, "needs_input": 1}
    assert [row["id"] for row in said["needs_you"]] == [asked]
    keys = (
        "daemon database counts answered stalled live_runs outbox_pending journal_last needs_you "
        "accounts_closed machines waits paused damage database_says notices_fail"
    )
    assert set(said) == set(keys.split())


def test_rows_have_their_keys(wk: "Wk") -> None:
    """Programs rely on them: a key may be added, none may go."""
    task_id = wk.add()
    row = wk("ls", "--json").json[0]
    keys = "expect priority account machine project checkout after not_before labels pinned_at seen_at waits"
    keys += " scratch worktree id title state shown why reason kind harness model cwd created_at updated_at ended_at wake_at"
    keys += " run_count attempts max_attempts stop run result verdict"
    assert set(row) == set(keys.split())
    more = "teardown prompt argv checks check_deadline_s setup environment_names deadline_s silence_s on_lost leftovers authorisation evidence runs takeover "
    more += "reasons key"
    assert set(wk("show", task_id, "--json").json) == set(keys.split()) | set(more.split())


def test_show_tells_what_was_allowed_and_what_to_do(wk: "Wk") -> None:
    """Also of a task that never ran."""
    task_id = wk.add("first\nsecond", "--deadline", "90m")
    answer = wk("show", task_id)
    for part in ("queued", "as you", "deadline 1h 30m", "first", "second", f"wk stop {task_id}", str(wk.cwd)):
        assert part in answer.out


def test_show_tells_who_stopped_it(wk: "Wk") -> None:
    """The wish is on the task."""
    task_id = wk.add()
    stop = StopRequest(how=StopHow.STOP, by="somebody", at=wk.parts.clock.now())
    wk.become(task_id, TaskState.STOPPED, stop=stop)
    assert "stop, asked by somebody" in wk("show", task_id).out


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (TaskState.DONE, 0),
        (TaskState.FAILED, 1),
        (TaskState.NEEDS_INPUT, 10),
        (TaskState.HELD, 10),
        (TaskState.STOPPED, 11),
    ],
)
def test_wait_tells_by_its_exit_code(wk: "Wk", state: TaskState, code: int) -> None:
    """One code for each way of coming to rest."""
    task_id = wk.add()
    wk.become(task_id, state, reason="a reason")
    answer = wk("wait", task_id)
    assert answer.code == code
    assert answer.out.startswith(task_id)
    assert [row["id"] for row in wk("wait", "--json", task_id).json] == [task_id]


def test_wait_gives_up_in_time(wk: "Wk") -> None:
    """With its own code, and says that nothing acts."""
    task_id = wk.add()
    answer = wk("wait", "--timeout", "0.2", task_id)
    assert answer.code == 12
    assert "not come to rest" in answer.err and "No daemon runs" in answer.err
    assert wk("wait", "--timeout", "never", task_id).code == 2


def test_whoever_waits_is_told_again_that_nothing_acts(wk: "Wk", monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon may end while a user waits, and the first word of it scrolls away."""
    from watchkeeper.cli import daemon

    monkeypatch.setattr(daemon, "_FIRST_LOOK_S", 0.01)
    monkeypatch.setattr(daemon, "_SAY_AGAIN_S", 0.01)
    answer = wk("wait", "--timeout", "2", wk.add())
    assert answer.err.count("No daemon runs") >= 3


def test_wait_for_any_and_for_all(wk: "Wk") -> None:
    """The worst counts; `--any` returns with the first."""
    done, failed, going = wk.add(), wk.add(), wk.add()
    wk.become(done, TaskState.DONE)
    wk.become(failed, TaskState.FAILED)
    assert wk("wait", done, failed).code == 1
    assert wk("wait", done, done, done[:7]).code == 0
    assert wk("wait", "--any", going, done).code == 0
    assert wk("wait", "--timeout", "0.2", going, done).code == 12


def test_events_are_a_cursor(wk: "Wk") -> None:
    """What was read is not read again, and nothing is missed."""
    first, second = wk.add("one"), wk.add("two")
    everything = wk("events", "--json", "--after", "0").lines
    assert [entry["task"] for entry in everything] == [first, second]
    assert set(everything[0]) == {"seq", "at", "kind", "task", "run", "fence", "data"}
    assert wk("events", "--json", "--after", str(everything[0]["seq"])).lines == everything[1:]
    assert wk("events", "--json", "--task", first).lines == everything[:1]
    assert wk("events", "--after", str(everything[1]["seq"])).out == ""
    assert "handed over by" in wk("events").out


def test_config_shows_where_each_value_came_from(wk: "Wk") -> None:
    """The table for people, the values for programs."""
    answer = wk("config", "show", WATCHKEEPER_STOP_GRACE="3s")
    assert "environment WATCHKEEPER_STOP_GRACE" in answer.out
    rows = {row["key"]: row for row in wk("config", "show", "--json", WATCHKEEPER_STOP_GRACE="3s").json}
    assert rows["stop.grace"]["value"] == 3.0
    assert rows["queue.limit"]["origin"] == "default"
    assert wk("config", "show", WATCHKEEPER_STOP_GRACE="soon").code == 9


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_ask_us(wk: "Wk", shell: str) -> None:
    """Each names our variable."""
    assert "_WK_COMPLETE" in wk("completion", shell).out


def test_completion_offers_ids_and_harnesses(wk: "Wk", monkeypatch: pytest.MonkeyPatch) -> None:
    """From the database, with titles; and nothing where there is none."""
    from watchkeeper.cli.completions import harness_names, ids

    monkeypatch.setenv("WATCHKEEPER_HOME", str(wk.home))
    assert ids("", 5) == []
    task_id = wk.add("a title")
    assert ids(task_id[:2], 5) == [(task_id, "a title")]
    assert "demo" in harness_names()


def test_version(wk: "Wk") -> None:
    """For people and programs."""
    from watchkeeper import __version__

    assert wk("version").out == f"watchkeeper {__version__}\n"
    assert wk("version", "--json").json == {"version": __version__}
    assert wk("--version").out == f"watchkeeper {__version__}\n"


def test_logs_of_a_task_that_never_ran(wk: "Wk") -> None:
    """Nothing, and why."""
    task_id = wk.add()
    answer = wk("logs", task_id)
    assert (answer.code, answer.out) == (0, "")
    assert "has not been started" in answer.err
    assert wk("logs", "--run", "1", task_id).code == 3
    for options in (["--raw", "--json"], ["--raw", "--since", "5m"], ["--since", "soon"], ["--tail", "-1"]):
        assert wk("logs", task_id, *options).code == 2, options
    assert wk("logs", task_id, "--since", "14:00").code == 0


def test_a_shell_is_offered_what_fits(wk: "Wk", monkeypatch: pytest.MonkeyPatch) -> None:
    """By the protocol that the completion scripts speak."""
    monkeypatch.setenv("WATCHKEEPER_HOME", str(wk.home))
    task_id = wk.add("a title")
    for words, offered in (("wk sh", "show"), (f"wk show {task_id[:3]}", task_id), ("wk run --harness de", "demo")):
        monkeypatch.setenv("_WK_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        answer = wk()
        assert answer.out == f"plain,{offered}\n"


def test_sizes_are_shown_as_they_are_written(wk: "Wk") -> None:
    """64M, not 67.1 MB."""
    assert "64M " in wk("config", "show").out
    assert "10m " in wk("config", "show").out
    assert "forever " in wk("config", "show").out


def test_settings_are_looked_at_before_they_are_written(wk: "Wk") -> None:
    """Options of a harness too, whether or not its program is there; and what was not set is not said to be changed."""
    wrong = wk("config", "set", "harness.codex.sandbox", "nonsense")
    assert wrong.code == 9
    assert "workspace-write" in wrong.err
    assert wk("config", "set", "harness.codex.sandbox", "read-only").code == 0
    assert "is not set any more" in wk("config", "unset", "harness.codex.sandbox").out
    assert "nothing was changed" in wk("config", "unset", "harness.codex.sandbox").out
    assert wk("config", "unset", "harness.codex.sandbox", "--json").json["value"] is None


@pytest.mark.parametrize(("written", "seconds"), [("1h30m", 5400.0), ("1w", 604800.0)])
def test_a_deadline_is_written_alike_in_a_setting_a_variable_and_an_option(
    wk: "Wk", written: str, seconds: float
) -> None:
    def deadline(*options: str, variables: dict[str, str] | None = None) -> float | None:
        answer = wk("add", "--harness", "demo", "--json", *options, "x", also=variables)
        return wk.task(answer.json["id"]).spec.deadline_s

    assert deadline("--deadline", written) == seconds
    assert deadline(variables={"WATCHKEEPER_RUN_DEADLINE": written}) == seconds
    assert wk("config", "set", "run.deadline", written).code == 0
    assert deadline() == seconds


def test_what_is_no_deadline_is_refused_in_one_sentence(wk: "Wk") -> None:
    refused = wk("config", "set", "run.deadline", "1h 30")
    assert refused.code == 9
    assert "is '1h 30'; it must be a duration such as 90s, 15m, 1h30m or 1d." in refused.err
    assert wk("add", "--harness", "demo", "x", WATCHKEEPER_RUN_DEADLINE="1h 30").code == 9


def _printed(wk: "Wk", stdout: bytes, stderr: bytes) -> str:
    """A task whose agent has printed this."""
    task_id = wk.add()
    run_id = wk.claim()
    executions = wk.parts.runtime.executions()
    run = wk.parts.store.read(lambda tx: tx.runs.get(run_id))
    executions.path(run).mkdir(parents=True)
    for stream, data in (("stdout", stdout), ("stderr", stderr)):
        executions.log(run, stream).write_bytes(data)
    return task_id


def test_what_was_printed_on_standard_error_is_not_missed(wk: "Wk") -> None:
    """It is not mixed in, and it is said that it is there and how to see it."""
    task_id = _printed(wk, b"", b"cannot\nwork")
    assert f"2 lines on standard error: wk logs --stderr {task_id}" in wk("logs", task_id).err
    assert f"2 lines on standard error: wk logs --stderr --run 1 {task_id}" in wk("logs", "--run", "1", task_id).err
    assert "standard error" not in wk("logs", "--stderr", task_id).err
    assert "standard error" not in wk("logs", _printed(wk, b"fine\n", b"")).err


def test_of_a_run_that_printed_nothing_that_is_said(wk: "Wk") -> None:
    """Whatever is asked for; and not where something stands on standard error."""
    task_id = _printed(wk, b"", b"")
    for options in ([], ["--raw"], ["--json"]):
        answer = wk("logs", *options, task_id)
        assert (answer.code, answer.out) == (0, "") and "It has printed nothing yet." in answer.err
    assert "It has printed nothing yet on standard error." in wk("logs", "--stderr", task_id).err
    assert "printed nothing" not in wk("logs", _printed(wk, b"", b"cannot\n")).err
    assert "printed nothing" not in wk("logs", _printed(wk, b"fine\n", b"")).err


def test_the_count_of_others_says_which_states_they_are_in(wk: "Wk") -> None:
    """With `--state` those that are left out are in others."""
    wk.become(wk.add(), TaskState.DONE)
    for _ in range(2):
        wk.add()
    assert "1 task in other states: wk ls --all" in wk("ls", "--state", "queued").out


def test_a_secret_in_place_of_a_label_is_not_repeated(wk: "Wk") -> None:
    secret = "sk-ant-api03-" + "Ab1Cd2Ef3" * 4
    assert secret[7:] not in wk("ls", "--label", secret).out


@pytest.mark.parametrize(
    ("key", "value", "detail"),
    [
        ("run.harness", "sk-ant-api03-" + "ab1cd2ef3" * 4, "secret"),
        ("run.model", "ghp_" + "Ab1Cd2Ef3" * 4, "secret"),
        ("run.harness", "nope", "There is no harness 'nope'"),
        ("store", "URL", "wk config show"),
    ],
)
def test_what_cannot_be_a_setting_is_not_written(wk: "Wk", key: str, value: str, detail: str) -> None:
    """Nor repeated, where it is a secret."""
    answer = wk("config", "set", key, value)
    assert answer.code == Exit.SETTINGS and detail in answer.err and (detail != "secret" or value not in answer.err)
    assert value not in wk("config", "show").out


def test_an_empty_task_is_refused_before_an_agent_is_looked_for(wk: "Wk") -> None:
    for verb in ("run", "add"):
        assert "The task is empty." in wk(verb, "   ").err


def test_a_pipe_in_place_of_a_log_is_named(wk: "Wk") -> None:
    """To open it would wait for a writer."""
    task_id = _printed(wk, b"", b"")
    path = wk.parts.runtime.executions().log(wk.parts.store.read(lambda tx: tx.runs.of_task(task_id))[-1], "stdout")
    path.unlink()
    os.mkfifo(path)
    answer = wk("logs", task_id)
    assert answer.code == Exit.NOT_FOUND
    assert "The output of run 1 cannot be read: stdout.log is a named pipe." in answer.err


def test_the_limit_of_a_list_is_for_all_of_it(wk: "Wk") -> None:
    """Running and ended tasks together: the newest, in the order of handing over; programs learn what is left out."""
    ids = [wk.add(f"number {number}") for number in range(6)]
    for task_id in ids[::2]:
        wk.become(task_id, TaskState.DONE)
    answer = wk("ls", "--json", "--limit", "3")
    assert [row["id"] for row in answer.json] == ids[3:]
    assert "3 more tasks beyond the limit; leave --limit away for all of them." in answer.err
    assert "3 more tasks" in wk("ls", "--limit", "3").out


def test_an_empty_list_says_what_there_is_not(wk: "Wk") -> None:
    """And how much there is otherwise."""
    wk.become(wk.add(), TaskState.DONE)
    for command in (("ls", "--state", "failed"), ("ls", "-a", "--state", "failed")):
        assert wk(*command).out == "No task is failed; 1 task in other states: wk ls --all\n"
    assert "No task is held or in need of you" in wk("ls", "--state", "held", "--state", "needs_input").out


def test_the_size_of_the_database_has_its_log(wk: "Wk") -> None:
    """What was written last is there and nowhere else."""
    from watchkeeper.cli.checks import _size_of_database

    wk.add()
    path = wk.parts.state.database
    reader = wk.parts.store  # as long as it is open the log stays
    assert path.with_name("wk.db-wal").exists()
    assert _size_of_database(path) > path.stat().st_size
    del reader


def test_a_command_that_reports_nothing_is_not_said_to_have_called_no_tool() -> None:
    """Only a program that tells what it does can be believed to have done nothing."""
    from watchkeeper.cli.commands.show import _usage
    from watchkeeper.domain.model import Usage

    assert _usage(Usage(), None, 0, None) == "tokens unknown · cost unknown"
    assert "0 tool calls" in _usage(Usage(input_tokens=1, output_tokens=2), 1, 0, None)
    assert "3 tool calls" in _usage(Usage(), None, 3, None)


def _at_work(wk: "Wk", monkeypatch: pytest.MonkeyPatch, event: RunEvent) -> str:
    """A task whose agent works, as far as can be seen, and of which something was seen meanwhile."""
    monkeypatch.setattr(live, "_judge", lambda *_: (None, ""))
    task_id = wk.add("count")
    run_id = wk.claim()

    def work(tx: "Tx") -> None:
        for each in (Prepared(directory=DirectoryIdentity(device=1, inode=1)), AgentSeen(agent=AGENT), event):
            _ = apply_run(tx, tx.runs.get(run_id), each, wk.parts.clock.now())

    wk.parts.store.transact("test", work)
    return task_id


def test_a_program_that_has_answered_and_goes_on_is_told(wk: "Wk", monkeypatch: pytest.MonkeyPatch) -> None:
    task_id = _at_work(wk, monkeypatch, Answered(since=wk.parts.clock.now()))
    assert "answered, still running" in wk("ls").out
    assert "running: answered, still running" in wk("show", task_id).out
    assert "answered, still running" in wk("why", task_id).out
    assert wk("why", "--json", task_id).json["seen"] == "answered, still running"
    assert "1 answered, still running" in wk("status").out
    assert wk("show", "--json", task_id).json["run"]["answered_at"]
    assert [run["id"] for run in wk("status", "--json").json["answered"]] == [f"{task_id}.1"]


def test_a_run_without_progress_is_told_and_for_how_long(wk: "Wk", monkeypatch: pytest.MonkeyPatch) -> None:
    task_id = _at_work(wk, monkeypatch, Stalled(since=wk.parts.clock.now() - timedelta(minutes=12, seconds=5)))
    for command in ("ls", "show", "why"):
        assert "no progress for 12m 0" in wk(command, *([] if command == "ls" else [task_id])).out
    assert "1 without progress" in wk("status").out
    (stalled,) = wk("status", "--json").json["stalled"]
    assert stalled["id"] == f"{task_id}.1" and stalled["stalled_since"]


def test_a_run_that_counts_as_no_try_yet_is_no_riddle(wk: "Wk") -> None:
    """Run 1 is shown below, and a try is counted when its end is known."""
    task_id = wk.add()
    assert "0 of 3 tries used" in wk("show", task_id).out
    _ = wk.claim()
    assert "no try counted yet (3 allowed)" in wk("show", task_id).out


def test_a_wished_start_is_told_as_a_wish(wk: "Wk") -> None:
    task_id = wk.add("do it", "--not-before", "+2h")
    at = wk.task(task_id).wake_at
    assert at is not None and f"  not before {render.clock(at)}, as you asked" in wk("why", task_id).out


def test_doctor_is_not_sure_of_what_is_not_known(wk: "Wk") -> None:
    """What cannot be asked is a note."""
    wk.add("do it", "--harness", "demo")
    checks = {each["name"]: each for each in wk("doctor", "--json").json["checks"]}
    accounts = [each for name, each in checks.items() if name.startswith("account ")]
    assert accounts and all(each["level"] == "note" for each in accounts if each["sign_in"] == "unknown")
    assert checks["queue"]["detail"] == "waiting reasons are consistent"
