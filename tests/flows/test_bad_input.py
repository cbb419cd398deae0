"""What people type wrong, or strange: one sentence, a documented exit code, nothing lost, and everything else continues."""

import json
import os
from pathlib import Path

import pytest
from support.flow_words import healthy, let_go, refused, working
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.model import TaskState
from watchkeeper.errors import Exit

STRANGE = {
    "a megabyte": ("fix é🙂 it\n" * 80_000).encode()[: 1024 * 1024 - 3] + b"end",
    "a dash": b"-rf --help is what it says",
    "two dashes": b"-- nothing",
    "NUL": b"before\0after\0",
    "lines": b"\r\nfirst\r\n\n\tsecond\x0b\x0c\n\n",
    "emoji": "👩‍🚀 naïve \u200b\u202e\ufeff 한국어".encode(),
    "escapes": b"\x1b[2J\x07 and \x7f",
}


@pytest.mark.parametrize("name", STRANGE)
def test_a_prompt_arrives_byte_for_byte(rig: Rig, name: str) -> None:
    """Whatever it holds: by standard input and by a file, into the agent's standard input and into its prompt file."""
    prompt, there = STRANGE[name], rig.root / "there"
    (rig.root / "task.txt").write_bytes(prompt)
    rig.wk("run", "--wait", "-", "--", "sh", "-c", f"cat >'{there}'", given=prompt)
    assert there.read_bytes() == prompt
    rig.wk("run", "--wait", "-f", str(rig.root / "task.txt"), "--", "cp", "{prompt_file}", f"{there}2")
    assert Path(f"{there}2").read_bytes() == prompt
    listed = json.loads(rig.wk("ls", "--all", "--json").stdout)
    assert [each["state"] for each in listed] == ["done", "done"]
    assert b"\x1b" not in rig.wk("ls", "--all").stdout + rig.wk("show", listed[0]["id"]).stdout


@pytest.mark.parametrize(
    ("command", "code", "detail"),
    [
        (("run", "--harness", "nosuch", "hello"), Exit.HARNESS, "nosuch"),
        (("run", "--cwd", "/no/such/place", "hello", "--", "cat"), Exit.BAD_TASK, "does not exist"),
        (("run", "--cwd", "/etc/passwd", "hello", "--", "cat"), Exit.BAD_TASK, "is not a directory"),
        (("run", "--harness", "demo", ""), Exit.BAD_TASK, "empty"),
        (("run", "--harness", "demo", " \n\t "), Exit.BAD_TASK, "empty"),
        (("run", "--harness", "demo", "-"), Exit.BAD_TASK, "empty"),
        (("run", "--", "-x"), Exit.USAGE, "is not a program"),
        (("run", "-x", "--", "cat"), Exit.USAGE, "-x"),
        (("run", "--", ""), Exit.BAD_TASK, "command line"),
        (("run", "--deadline", "soon", "hello", "--", "cat"), Exit.USAGE, "deadline"),
        (("run", "--title", "x" * 300, "hello", "--", "cat"), Exit.BAD_TASK, "title"),
        (("run", "-f", "/no/such/file", "--", "cat"), Exit.BAD_TASK, "/no/such/file"),
        (("stop", "nosuchtask"), Exit.NOT_FOUND, "nosuchtask"),
        (("kill", "nosuchtask"), Exit.NOT_FOUND, "nosuchtask"),
        (("retry", "nosuchtask"), Exit.NOT_FOUND, "nosuchtask"),
        (("show", "nosuchtask"), Exit.NOT_FOUND, "nosuchtask"),
        (("logs", "nosuchtask"), Exit.NOT_FOUND, "nosuchtask"),
        (("wait", "nosuchtask"), Exit.NOT_FOUND, "nosuchtask"),
        (("show", "../../etc/passwd"), Exit.NOT_FOUND, "passwd"),
        (("show", "%"), Exit.NOT_FOUND, "%"),
        (("nosuchcommand",), Exit.USAGE, "nosuchcommand"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_what_cannot_be_is_refused_in_one_sentence(rig: Rig, command: tuple[str, ...], code: Exit, detail: str) -> None:
    """Where there is nothing yet, and nothing is added."""
    refused(rig, *command, code=code, detail=detail)
    assert not rig.tasks() and not list((rig.state / "environments").glob("*"))


def test_mistakes_leave_their_neighbours_alone(rig: Rig) -> None:
    """While a daemon and an agent work, mistakes are refused, and both continue."""
    task_id, _ = working(rig)
    refused(rig, "run", "--cwd", "/no/such/place", "hello", "--", "cat", code=Exit.BAD_TASK, detail="does not exist")
    refused(rig, "run", "--harness", "nosuch", "hello", code=Exit.HARNESS, detail="nosuch")
    refused(rig, "stop", "nosuchtask", code=Exit.NOT_FOUND, detail="nosuchtask")
    mixed = rig.wk("stop", "nosuchtask", task_id, check=False)
    assert mixed.returncode == Exit.NOT_FOUND and f"{task_id}  stopped".encode() in mixed.stdout
    healthy(rig)


def test_a_text_that_is_none(rig: Rig) -> None:
    """Bytes that are not UTF-8, and more than is accepted."""
    refused(rig, "run", "-", "--", "cat", code=Exit.BAD_TASK, detail="UTF-8", given=b"\xff\xfe\x00")
    refused(rig, "run", "-", "--", "cat", code=Exit.BAD_TASK, detail="MB long", given=b"x" * (9 * 1024 * 1024))
    refused(rig, "run", "-", "--", "cat", "{prompt}", code=Exit.BAD_TASK, detail="argument", given=b"x\0y")
    refused(rig, "run", "-", "--", "cat", "{prompt}", code=Exit.BAD_TASK, detail="argument", given=b"x" * 200_000)
    assert not rig.tasks()


def test_a_program_that_is_missing(rig: Rig) -> None:
    """Named by the settings or by the task, it is refused at once, by name."""
    rig.settings = {"WATCHKEEPER_HARNESS_CLAUDE_PROGRAM": str(rig.root / "nosuch")}
    refused(rig, "run", "--harness", "claude", "hello", code=Exit.HARNESS, detail="nosuch")
    refused(
        rig, "run", "--", "nosuchtool", "x", code=Exit.HARNESS, detail="The program 'nosuchtool' is not on your PATH."
    )
    (rig.repo / "tool").write_text("#!/bin/sh\nexit 0\n")
    refused(rig, "run", "--", "./tool", code=Exit.HARNESS, detail="may not be executed")
    refused(rig, "run", "--", "bin/tool", code=Exit.HARNESS, detail="There is no program 'bin/tool'.")
    refused(rig, "run", "--", "./", code=Exit.HARNESS, detail="is a directory")
    lines = b'{"argv": ["true"], "title": "one"}\n{"argv": ["nosuchtool"], "title": "two"}\n'
    refused(rig, "add", "--json-lines", code=Exit.HARNESS, detail="nosuchtool", given=lines)
    assert not rig.tasks()


def hand_over(rig: Rig, *argv: str) -> str:
    """A command that works beside others."""
    return str(json.loads(rig.wk("run", "--json", "--shared", "--", *argv).stdout)["id"])


def test_a_program_that_goes_missing_later(rig: Rig) -> None:
    """Its task waits, is not launched, and keeps no other command from running; when the program is back it continues by itself."""
    rig.settings = {
        "WATCHKEEPER_QUEUE_LIMIT": "1",
        "WATCHKEEPER_QUEUE_RETRY_BASE": "0.2s",
        "WATCHKEEPER_QUEUE_RETRY_CAP": "1s",
    }
    first, _ = working(rig)
    tool = rig.repo / "tool"
    tool.write_text("#!/bin/sh\nexit 0\n")
    tool.chmod(0o755)
    waits = hand_over(rig, "./tool")
    away = tool.rename(rig.root / "away")
    let_go(rig)
    assert rig.wait_resting(first).state is TaskState.DONE
    _ = wait_until(lambda: rig.task(waits).runs > 1, what="it was looked for")
    assert rig.wait_resting(hand_over(rig, "true")).state is TaskState.DONE
    task = rig.task(waits)
    assert (task.attempts, task.state in {TaskState.QUEUED, TaskState.RUNNING}) == (0, True)
    assert all(run.directory is None for run in rig.runs(waits)), "nothing was prepared for it"
    told = wait_until(
        lambda: [each["wait"] for each in json.loads(rig.wk("why", waits, "--json").stdout)["reasons"]], what="it waits"
    )
    assert told == ["harness missing"]
    away.rename(tool)
    assert rig.wait_resting(waits).state is TaskState.DONE
    healthy(rig)


def test_a_directory_that_goes_before_the_launch(rig: Rig) -> None:
    """A task that waited is distinguished from one that failed: it needs a person, and others continue."""
    rig.settings = {"WATCHKEEPER_QUEUE_LIMIT": "1"}
    first, _ = working(rig)
    place = rig.root / "place"
    place.mkdir()
    second = rig.run("exit", "0", options=("--cwd", str(place)))
    place.rmdir()
    let_go(rig)
    assert rig.wait_resting(first).state is TaskState.DONE
    assert rig.wait_resting(second).state is TaskState.NEEDS_INPUT
    assert "directory" in rig.task(second).reason
    healthy(rig)


def test_ids_that_fit_several(rig: Rig) -> None:
    """The candidates are named, and a few more letters are enough."""
    ids = [rig.run("exit", "0", options=("--shared",)) for _ in range(40)]
    firsts = [task_id[0] for task_id in ids]
    common = next(letter for letter in firsts if firsts.count(letter) > 1)
    refused(rig, "show", common, code=Exit.NOT_FOUND, detail="fits several tasks", hint=True)
    answer = rig.wk("show", common, "--json", check=False)
    told = json.loads(answer.stderr)
    assert told["exit_code"] == Exit.NOT_FOUND and set(told["candidates"]) <= set(ids)
    assert rig.wk("show", ids[0]).returncode == 0


def test_a_prompt_beyond_what_a_command_line_holds(rig: Rig) -> None:
    """The kernel takes no argument of a megabyte; what it does take arrives."""
    prompt = "y" * (os.sysconf("SC_PAGE_SIZE") * 30)
    rig.wk("run", "--wait", prompt, "--", "sh", "-c", f"cat >'{rig.root}/there'")
    assert (rig.root / "there").read_text(encoding="utf-8") == prompt


def test_wrong_settings_are_refused(rig: Rig) -> None:
    """By a variable and by the user's own file: exit code 9, the place and the key in the sentence."""
    rig.settings = {"WATCHKEEPER_QUEUE_LIMIT": "many"}
    refused(rig, "run", "hello", "--", "cat", code=Exit.SETTINGS, detail="WATCHKEEPER_QUEUE_LIMIT", hint=False)
    rig.settings = {}
    own = rig.root / "home" / ".config" / "watchkeeper" / "config.toml"
    own.parent.mkdir(parents=True)
    for text, detail in (
        ("[queue]\nlimit = 0\n", "queue.limit"),
        ("[queue]\nlimti = 3\n", "Did you mean"),
        ("[queue\n", "are not valid TOML"),
        ("\0", "are not valid TOML"),
    ):
        own.write_text(text, encoding="utf-8")
        refused(rig, "run", "hello", "--", "cat", code=Exit.SETTINGS, detail=detail, hint=False)
        refused(rig, "daemon", "run", code=Exit.SETTINGS, detail=detail, hint=False)
    own.unlink()
    healthy(rig)


def test_an_agent_may_neither_start_tasks_nor_daemons(rig: Rig) -> None:
    """Inside an agent `wk run` is refused with 8 and `wk daemon start` with 13; looking is free."""
    healthy(rig)
    rig.wk("daemon", "stop")
    rig.settings = {"WATCHKEEPER_RUN": "somebody.1"}
    refused(rig, "run", "hello", "--", "cat", code=Exit.REFUSED, detail="An agent may not")
    refused(rig, "stop", rig.tasks()[0].id, code=Exit.REFUSED, detail="An agent may not")
    refused(rig, "daemon", "start", code=Exit.INSIDE_AGENT, detail="inside an agent")
    refused(rig, "daemon", "run", code=Exit.INSIDE_AGENT, detail="inside an agent")
    assert rig.wk("ls").returncode == 0
    assert len(rig.tasks()) == 1
