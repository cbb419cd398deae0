"""`wk run`: what becomes of a task's text, its options, and what is said before it starts."""

import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from watchkeeper.cli.render import Terminal
from watchkeeper.daemon import client
from watchkeeper.domain.model import OnLost, TaskState
from watchkeeper.errors import DaemonError
from watchkeeper.workspaces import git_program

if TYPE_CHECKING:
    from support.cli import Wk


def test_it_prints_the_id_and_nothing_else_on_standard_output(wk: "Wk") -> None:
    """So that `id=$(wk run …)` works; what the agent may do is said beside it, before."""
    answer = wk("run", "--harness", "demo", "say hello")
    assert answer.code == 0
    assert wk.task(answer.out.strip()).spec.prompt == "say hello"
    assert "demo" in answer.err and "as you" in answer.err and str(wk.cwd) in answer.err
    assert wk.ensured == [str(wk.home)]


def test_the_task_is_on_record_with_who_allowed_what(wk: "Wk") -> None:
    """R1: the line that was shown is the line that is kept."""
    answer = wk("run", "--harness", "demo", "say hello")
    approval = wk.parts.store.read(lambda tx: tx.outcomes.authorisation(answer.out.strip()))
    assert approval is not None
    assert approval.kind == "person" and approval.detail in answer.err


def test_a_git_that_does_not_answer_is_named(wk: "Wk", monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One line, while it is waited for. This git answers when that line was printed."""
    program, gate, note = tmp_path / "git", tmp_path / "gate", Terminal.note

    def note_and_release(terminal: Terminal, text: str, *, hang: int | None = None) -> None:
        note(terminal, text, hang=hang)
        if "Waiting for git" in text:
            gate.write_text("answer\n")

    os.mkfifo(gate)
    program.write_text(f"#!/bin/sh\nread answer < {gate}\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(git_program, "SLOW_S", 0.05)
    monkeypatch.setattr(Terminal, "note", note_and_release)
    answer = wk("run", "--harness", "demo", "say hello")
    assert answer.code == 0
    assert answer.err.count(f"wk: Waiting for git in {wk.cwd} (at most 30 s).") == 1


@pytest.mark.parametrize(
    "prompt",
    [
        "--force everything",
        "-x",
        "a\0b",
        "two\nlines\n",
        "🧙 naïve ☃",
        "'quoted' \"twice\" $HOME `x` \\",
        " \t spaces \t ",
        "x" * 1_000_000,
    ],
    ids=["dashes", "dash", "nul", "lines", "emoji", "quotes", "spaces", "long"],
)
def test_any_text_arrives_as_it_is(wk: "Wk", prompt: str) -> None:
    """By standard input, by a file, and after `--` with a named harness."""
    by_stdin = wk("run", "--harness", "demo", "-", stdin=prompt.encode())
    assert wk.task(by_stdin.out.strip()).spec.prompt == prompt
    unasked = wk("run", "--harness", "demo", stdin=prompt.encode())
    assert wk.task(unasked.out.strip()).spec.prompt == prompt
    (wk.cwd / "task.md").write_bytes(prompt.encode())
    by_file = wk("run", "--harness", "demo", "-f", "task.md")
    assert wk.task(by_file.out.strip()).spec.prompt == prompt
    if "\0" not in prompt:
        by_argument = wk("run", "--harness", "demo", "--", prompt)
        assert wk.task(by_argument.out.strip()).spec.prompt == prompt


def test_every_option_reaches_the_task(wk: "Wk", tmp_path: Path) -> None:
    """None is taken and dropped."""
    (tmp_path / "there").mkdir()
    answer = wk(
        *("run", "--harness", "demo", "--model", "m1", "--cwd", "../there", "--title", "A title", "--env", "TOKEN"),
        *("--deadline", "1h30m", "--retries", "0", "--on-lost", "fail", "--leftovers", "wait", "do it"),
        TOKEN="secret",
    )
    assert answer.code == 0, answer.err
    spec = wk.task(answer.out.strip()).spec
    assert (spec.harness, spec.model, spec.cwd, spec.title) == ("demo", "m1", str(tmp_path / "there"), "A title")
    assert (spec.environment_names, spec.deadline_s, spec.max_attempts) == (("TOKEN",), 5400.0, 1)
    assert (spec.on_lost, spec.leftovers) == (OnLost.FAIL, "wait")
    kept = wk.parts.environments.get(wk.task(answer.out.strip()).environment_id)
    assert kept is not None and kept["TOKEN"] == "secret"


def test_what_follows_two_dashes_is_a_command_line(wk: "Wk") -> None:
    """Without a harness it is the command harness, and needs no text; options after `--` are the command's."""
    bare = wk("run", "--", "env", "--json", "-f", "x")
    spec = wk.task(bare.out.strip()).spec
    assert (spec.harness, spec.argv, spec.prompt) == ("command", ("env", "--json", "-f", "x"), "")
    assert spec.title == "env --json -f x"
    asked = wk("run", "--harness", "command", "look", "--", "echo", "--ask", "{prompt}")
    spec = wk.task(asked.out.strip()).spec
    assert (spec.argv, spec.prompt, spec.title) == (("echo", "--ask", "{prompt}"), "look", "look")


def test_a_bare_command_line_does_not_eat_standard_input(wk: "Wk") -> None:
    """A cron job's or a loop's standard input is not a task's text unless `-` says so."""
    answer = wk("run", "--", "true", stdin=b"not for us")
    assert wk.task(answer.out.strip()).spec.prompt == ""


def test_the_title_is_the_first_line_shortened(wk: "Wk") -> None:
    """And shows no control characters."""
    answer = wk("run", "--harness", "demo", stdin=b"\n\n  Fix \x1b[31mit\t now  \nmore")
    assert wk.task(answer.out.strip()).spec.title == "Fix ␛[31mit now"
    answer = wk("run", "--harness", "demo", "x" * 200)
    assert wk.task(answer.out.strip()).spec.title == "x" * 59 + "…"


@pytest.mark.parametrize(
    ("arguments", "code", "detail"),
    [
        (["run", "--harness", "demo", "--title", "t", ""], 5, "empty"),
        (["run", "--harness", "demo", "two", "words"], 2, "quotes"),
        (["run", "--harness", "demo", "-f", "task.md", "text"], 2, "twice"),
        (["run", "--harness", "demo", "-f", "nowhere.md"], 5, "cannot be read"),
        (["run", "--harness", "demo", "--cwd", "nowhere", "x"], 5, "does not exist"),
        (["run", "--harness", "dmeo", "x"], 4, "demo"),
        (["run", "--harness", "command", "x"], 5, "command line"),
        (["run", "--"], 2, "no command line"),
        (["run", "--", "-x"], 2, "is not a program"),
        (["run", "--harness", "demo", "--env", "NOT_SET", "x"], 5, "NOT_SET"),
        (["run", "--harness", "demo", "--deadline", "soon", "x"], 2, "length of time"),
        (["run", "--harness", "demo", "--retries", "-1", "x"], 2, "-1"),
        (["run", "--harness", "demo", "--on-lost", "cry", "x"], 2, "cry"),
        (["run", "--harness", "demo", "--nonsense", "x"], 2, "--nonsense"),
    ],
)
def test_what_is_off_is_said_and_adds_nothing(wk: "Wk", arguments: list[str], code: int, detail: str) -> None:
    """One sentence, the right exit code, and no task."""
    answer = wk(*arguments)
    assert answer.code == code
    assert detail in answer.err and "Traceback" not in answer.err
    assert answer.out == ""
    assert wk("ls", "--json").json == []


def test_text_that_is_no_utf8_is_refused(wk: "Wk") -> None:
    """What cannot be kept as it is, is not kept."""
    assert wk("run", "--harness", "demo", stdin=b"caf\xe9").code == 5
    assert wk("run", "--harness", "demo", "caf\udce9").code == 5


def test_a_text_that_is_too_long_is_refused(wk: "Wk") -> None:
    """With its limit, and without reading all of an endless pipe."""
    answer = wk("run", "--harness", "demo", stdin=b"x" * (9 * 1024 * 1024))
    assert answer.code == 5
    assert "8 MiB" in answer.err


def test_dry_run_checks_and_creates_nothing(wk: "Wk") -> None:
    """Not even the state directory."""
    answer = wk("run", "--harness", "demo", "--dry-run", "say hello")
    assert answer.code == 0
    assert "as you" in answer.err
    assert answer.err.endswith("\nNothing was handed over.\n") and not answer.out
    assert not wk.home.exists()
    planned = wk("run", "--harness", "demo", "--dry-run", "--json", "say hello").json
    assert (
        planned["dry_run"] is True and "script says" in planned["rights"] and "as you" in planned["profile"]["permits"]
    )


def test_json_says_what_was_added(wk: "Wk") -> None:
    """One object with the row and the rights."""
    answer = wk("run", "--harness", "demo", "--json", "say hello")
    said = answer.json
    assert said["state"] == "queued" and said["title"] == "say hello" and said["rights"] in answer.err
    assert wk.task(said["id"]).spec.prompt == "say hello"


def test_without_a_harness_and_a_terminal_the_choices_are_listed(wk: "Wk") -> None:
    """Neither the demonstration nor a bare command is ever guessed."""
    answer = wk("run", "say hello")
    assert answer.code == 2
    assert "--harness" in answer.err and "demo" in answer.err


def test_the_only_installed_agent_is_taken(wk: "Wk") -> None:
    """A program named `claude` on the caller's PATH is one."""
    program = wk.cwd / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 2.1.9\n", encoding="utf-8")
    program.chmod(0o755)
    answer = wk("run", "say hello", PATH=f"{program.parent}:/usr/bin:/bin")
    assert answer.code == 0, answer.err
    assert wk.task(answer.out.strip()).spec.harness == "claude"


def test_the_configured_harness_is_taken(wk: "Wk") -> None:
    """A flag wins over it."""
    answer = wk("run", "say hello", WATCHKEEPER_RUN_HARNESS="demo")
    assert wk.task(answer.out.strip()).spec.harness == "demo"


def test_an_agent_may_not_start_tasks(wk: "Wk") -> None:
    """It acts as its run, not as the person."""
    answer = wk("run", "--harness", "demo", "say hello", WATCHKEEPER_RUN="abc.1")
    assert answer.code == 8
    assert "agent" in answer.err
    assert not wk.home.exists()


def test_a_task_stays_added_when_no_daemon_could_be_started(wk: "Wk", monkeypatch: pytest.MonkeyPatch) -> None:
    """And both are said."""

    def ensure(*_: object, **__: object) -> None:
        raise DaemonError("The daemon ended while it started.", hint="Its log is there.")

    monkeypatch.setattr(client, "ensure", ensure)
    answer = wk("run", "--harness", "demo", "say hello")
    assert answer.code == 7
    assert wk.task(answer.out.strip()).state is TaskState.QUEUED
    assert "waits for its turn" in answer.err and "ended while it started" in answer.err


def test_standard_input_that_was_closed_is_no_task(wk: "Wk", monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing came, so nothing is added."""
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert wk("run", "--harness", "demo").code == 5


DASHED = ["- [ ] do it", "-x fix the tests", "--- a/file\n+++ b/file", "--harness is an option, explain it"]


@pytest.mark.parametrize("verb", ["run", "add"])
@pytest.mark.parametrize("text", DASHED)
def test_a_task_that_begins_with_a_dash_is_told_where_to_go(wk: "Wk", verb: str, text: str) -> None:
    """And each of the ways that are named works."""
    refused = wk(verb, "--harness", "demo", text)
    assert refused.code == 2 and "begins with a dash" in refused.err, refused.err
    for way in (f"wk {verb} -- '{text.splitlines()[0]}", "-f FILE", f"wk {verb} -)"):
        assert way in refused.err
    (wk.cwd / "task.md").write_text(text, encoding="utf-8")
    ways = ((("--", text), b""), (("-f", "task.md"), b""), (("-",), text.encode()))
    for words, stdin in ways:
        for harness in (("--harness", "demo"), ()):
            answer = wk(verb, *harness, *words, stdin=stdin, WATCHKEEPER_RUN_HARNESS="demo")
            assert answer.code == 0, answer.err
            task = wk.task(answer.out.strip())
            assert (task.spec.prompt, task.spec.harness) == (text, "demo")


def test_an_option_that_is_misspelt_is_not_taken_for_a_task(wk: "Wk") -> None:
    assert "Did you mean" in wk("run", "--harnes", "demo", "do it").err
    assert "No such option '-x'" in wk("run", "-x", "do it").err
    assert "is not a program" in wk("run", "--", "-x", "y").err


@pytest.mark.parametrize("command", [("rename", "x", "- y z"), ("ls", "- y z")], ids=" ".join)
def test_other_commands_say_where_a_text_goes(wk: "Wk", command: tuple[str, ...]) -> None:
    answer = wk(*command)
    assert answer.code == 2 and "'- y z' begins with a dash" in answer.err and "`--`" in answer.err
