"""Rights on the command line: chosen for one task, said once, stored, edited, kept by a retry."""

import json
import shutil
from pathlib import Path

import pytest
from support.cli import Wk

from watchkeeper.domain.model import TaskState
from watchkeeper.domain.profile import WIDTH


@pytest.fixture
def agents(wk: Wk) -> Path:
    """Stand-ins for the agent programs on the PATH."""
    folder = wk.home.parent / "bin"
    folder.mkdir()
    for name in ("claude", "codex"):
        _ = (folder / name).write_text("#!/bin/sh\necho 1.0\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    wk.environ["PATH"] = f"{folder}:/usr/bin:/bin"
    return folder


@pytest.mark.usefixtures("agents")
@pytest.mark.parametrize("harness", ["claude", "codex"])
@pytest.mark.parametrize("rights", [[], ["--rights", "read"], ["--rights", "edit"]])
def test_the_line_fits_and_is_said_in_full_once_in_a_directory(wk: Wk, harness: str, rights: list[str]) -> None:
    first = wk("add", "--harness", harness, *rights, "one").err.splitlines()
    assert len(first[0]) <= WIDTH
    assert [line.split()[0] for line in first[1:4]] == ["sandbox", "network", "rights"]
    again = wk("add", "--harness", harness, *rights, "two").err.splitlines()
    assert again[0] == first[0] and "sandbox " not in again[1]
    in_full = wk("add", "--harness", harness, *rights, "-v", "three").err.splitlines()
    assert in_full[: len(first)] == first


@pytest.mark.usefixtures("agents")
def test_other_rights_are_said_in_full_again(wk: Wk) -> None:
    _ = wk("add", "--harness", "claude", "one")
    other = wk("add", "--harness", "claude", "--rights", "read", "two").err
    assert "rights     read: may read files and the web, and change nothing" in other


@pytest.mark.usefixtures("agents")
def test_a_batch_says_each_line_once_with_a_count(wk: Wk) -> None:
    _ = wk("add", "--harness", "claude", "before")
    said = wk("add", "--lines", "--harness", "claude", stdin="\n".join(f"task {n}" for n in range(260)).encode()).err
    lines = [line for line in said.splitlines() if "sandbox" in line]
    assert lines == ["No sandbox, your network: claude 1.0 edits here, runs any command (×260)."]


@pytest.mark.usefixtures("agents")
def test_a_line_of_json_has_rights_and_options(wk: Wk) -> None:
    line = {"prompt": "x", "harness": "claude", "rights": "read", "options": {"max_turns": 7}}
    answer = wk(
        "add",
        "--json-lines",
        "--json",
        "--option",
        "max_turns=9",
        "--option",
        "max_retries=1",
        stdin=json.dumps(line).encode(),
    )
    profile = answer.lines[0]["profile"]
    assert profile["rights"] == "read"
    assert (profile["options"]["max_turns"], profile["options"]["max_retries"]) == ("7", "1")
    bad = wk("add", "--json-lines", stdin=json.dumps({**line, "options": [1]}).encode())
    assert bad.code == 5 and "Line 1: 'options' must be an object" in bad.err


def test_each_line_of_json_has_the_program_that_it_names(wk: Wk, agents: Path) -> None:
    other = agents.parent / "other"
    _ = shutil.copy(agents / "claude", other)
    lines = [{"prompt": "a", "options": {"program": str(other)}}, {"prompt": "b"}, {"prompt": "c", "rights": "read"}]
    text = "\n".join(map(json.dumps, lines)).encode()
    answer = wk("add", "--json-lines", "--json", "--harness", "claude", stdin=text)
    assert [each["program"] for each in answer.lines] == [str(other), *[str(agents / "claude")] * 2]
    gone = wk("add", "--json-lines", "--harness", "claude", stdin=text.replace(b"/other", b"/gone"))
    assert gone.code != 0 and "Line 1: " in gone.err


@pytest.mark.usefixtures("agents")
def test_equal_lines_that_stand_for_different_rights_are_said_apart(wk: Wk) -> None:
    options = [{"allowed_tools": f"Read,Glob,Grep,WebFetch,WebSearch,NotebookEdit,Bash({x}:*)"} for x in ("ls", "rm")]
    text = "\n".join(json.dumps({"prompt": "x", "options": each}) for each in options).encode()
    said = wk("add", "--json-lines", "--harness", "claude", stdin=text).err
    assert "Bash(ls:*)" in said and "Bash(rm:*)" in said and "×2" not in said
    turns = "\n".join(json.dumps({"prompt": "x", "options": {"max_turns": n}}) for n in (3, 4)).encode()
    assert "×2" in wk("add", "--json-lines", "--harness", "claude", stdin=turns).err
    in_full = wk("add", "--json-lines", "-v", "--harness", "claude", stdin=turns).err
    assert "max_turns=3" in in_full and "max_turns=4" in in_full


@pytest.mark.usefixtures("agents")
def test_an_edit_of_rights_is_a_new_approval_and_keeps_everything_else(wk: Wk) -> None:
    """Whatever the settings say by then."""
    _ = wk("config", "set", "harness.claude.max_turns", "5")
    task_id = wk("add", "--harness", "claude", "--rights", "read", "x").out.strip()
    _ = wk("config", "set", "harness.claude.max_turns", "500")
    _ = wk("config", "set", "harness.claude.permission_mode", "bypassPermissions")
    before = wk("show", task_id, "--json").json["authorisation"]
    answer = wk("edit", task_id, "--priority", "3", "--json")
    assert answer.json["changed"] == ["priority"]
    assert wk("show", task_id, "--json").json["authorisation"] == before
    answer = wk("edit", task_id, "--prompt", "y", "--json")
    after = wk("show", task_id, "--json").json["authorisation"]
    assert after["at"] != before["at"] and after["profile"] == before["profile"]
    answer = wk("edit", task_id, "--rights", "edit", "--json")
    assert answer.json["changed"] == ["rights", "options"]
    assert "edits here, runs any command" in answer.err
    profile = wk("show", task_id, "--json").json["authorisation"]["profile"]
    assert (profile["rights"], profile["options"]) == ("edit", {"max_turns": "5"})


def test_a_retry_keeps_what_was_allowed(wk: Wk, agents: Path) -> None:
    """A program that is gone is looked for anew, which is said."""
    task_id = wk("add", "--harness", "claude", "--rights", "read", "x").out.strip()
    before = wk("show", task_id, "--json").json["authorisation"]["profile"]
    _ = wk("config", "set", "harness.claude.permission_mode", "acceptEdits")
    _ = wk.become(task_id, TaskState.FAILED)
    quiet = wk("retry", task_id)
    assert "sandbox" not in quiet.err
    assert wk("show", task_id, "--json").json["authorisation"]["profile"] == before
    moved = agents.parent / "other"
    _ = shutil.move(agents, moved)
    wk.environ["PATH"] = f"{moved}:/usr/bin:/bin"
    _ = wk.become(task_id, TaskState.FAILED)
    told = wk("retry", task_id)
    assert told.code == 0 and f"program    claude 1.0 ({moved}/claude)" in told.err
    after = wk("show", task_id, "--json").json["authorisation"]["profile"]
    assert after["program"] == f"{moved}/claude"
    assert after["rights"] == "read"


@pytest.mark.parametrize(
    ("words", "detail"),
    [
        (["--harness", "demo", "--rights", "read", "x"], "cannot be held to the rights 'read'"),
        (["--harness", "demo", "--option", "speed=1", "x"], "has no option 'speed'"),
        (["--rights", "edit", "--", "true"], "cannot be held to the rights 'edit'"),
    ],
)
def test_rights_that_cannot_be_had_are_refused(wk: Wk, words: list[str], detail: str) -> None:
    answer = wk("add", *words)
    assert answer.code == 5 and detail in answer.err
    assert wk("ls", "--json").json == []


def test_an_option_without_a_value_is_refused(wk: Wk) -> None:
    answer = wk("add", "--harness", "demo", "--option", "pace", "x")
    assert answer.code == 2 and "not an option and its value" in answer.err
