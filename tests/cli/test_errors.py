"""What is said when something is wrong, and with which exit code."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from watchkeeper.cli.commands import ls as ls_module
from watchkeeper.cli.task_rest import CODES
from watchkeeper.domain.model import RESTING_TASK_STATES, TaskState
from watchkeeper.errors import Exit, NoSuchTask

if TYPE_CHECKING:
    from support.cli import Wk

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_exit_codes_is_complete() -> None:
    """Every code, with its name, and no other but that of a broken pipe."""
    page = (DOCS / "exit-codes.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\d+) \| ([a-z ]*) ?\|", page, re.MULTILINE))
    expected = {str(int(code)): code.name.lower().replace("_", " ") for code in Exit}
    assert {code: name.strip() for code, name in rows.items()} == {**expected, "141": ""}


def test_every_way_of_coming_to_rest_has_a_code() -> None:
    """A new state must choose one."""
    assert set(CODES) == RESTING_TASK_STATES


def test_a_sentence_and_a_hint(wk: "Wk") -> None:
    """And no traceback."""
    wk.add()
    answer = wk("show", "0l1")
    assert answer.err == f"wk: There is no task '0l1'.\n    {NoSuchTask.hint}\n"


def test_json_errors_are_one_object(wk: "Wk") -> None:
    """On standard error, so that standard output is only ever the answer."""
    wk.add()
    answer = wk("show", "0l1", "--json")
    assert answer.out == ""
    assert json.loads(answer.err) == {
        "error": "NoSuchTask",
        "message": "There is no task '0l1'.",
        "hint": NoSuchTask.hint,
        "exit_code": 3,
    }
    usage = wk("show", "--json")
    assert usage.code == 2
    assert json.loads(usage.err)["error"] == "UsageError"


def test_an_unknown_command_comes_with_a_suggestion(wk: "Wk") -> None:
    """Exit code 2."""
    answer = wk("shwo", "x")
    assert answer.code == 2
    assert "Did you mean 'show'?" in answer.err


def test_a_fault_of_ours_is_one_sentence(wk: "Wk", monkeypatch: pytest.MonkeyPatch) -> None:
    """With the traceback only where it is asked for, before or after the command's name."""
    wk.add()
    from watchkeeper.app.views import rows

    def broken(*_: object) -> None:
        raise RuntimeError("a fault \x1b[2J")

    monkeypatch.setattr(rows, "listing", broken)
    answer = wk("ls")
    assert answer.code == 70
    assert "RuntimeError: a fault ␛[2J" in answer.err and "daemon.log" in answer.err
    assert "Traceback" not in answer.err
    for arguments in (["--debug", "ls"], ["ls", "--debug"]):
        assert "Traceback" in wk(*arguments).err
    assert ls_module.command.name == "ls"


def test_a_state_directory_that_is_none(wk: "Wk") -> None:
    """Is said, and left alone."""
    wk.home.write_text("a file", encoding="utf-8")
    for command in (["ls"], ["run", "--harness", "demo", "x"], ["doctor"]):
        answer = wk(*command)
        assert answer.code == 6, command
    assert wk.home.read_text(encoding="utf-8") == "a file"


def test_a_damaged_database_is_said_and_left_alone(tmp_path: Path) -> None:
    """By every command; `doctor` says so too, with the same code."""
    home = tmp_path / "state"
    # Processes of their own: SQLite shares what it knows of a file between all connections of one process.
    make = "from watchkeeper.compose import Watchkeeper; import os, pathlib; Watchkeeper.open(pathlib.Path('/'), os.environ, writes=True).store"
    environ = {**os.environ, "WATCHKEEPER_HOME": str(home)}
    subprocess.run([sys.executable, "-c", make], env=environ, check=True, timeout=60)
    for name in ("wk.db-wal", "wk.db-shm"):
        (home / name).unlink(missing_ok=True)
    (home / "wk.db").write_bytes(b"this is no database " * 500)
    before = (home / "wk.db").read_bytes()
    for command in (["ls"], ["run", "--harness", "demo", "x"], ["doctor"], ["stop", "x"], ["wait", "x"]):
        answer = _wk(home, *command)
        assert answer.returncode == 6, (command, answer)
        assert b"Traceback" not in answer.stderr
    assert (home / "wk.db").read_bytes() == before


def test_doctor_names_what_it_looked_at(wk: "Wk") -> None:
    """Each with its level; what is foreign is named and left alone."""
    wk.add()
    (wk.home / "executions" / "abcdefgh23456789").mkdir()
    said = wk("doctor", "--json").json
    checks = {check["name"]: check for check in said["checks"]}
    assert said["ok"] is True
    assert checks["executions"]["foreign"] == ["abcdefgh23456789"]
    expected = "python, kernel, settings, state directory, database, daemon, disk, git, tmux, harness demo, open doors"
    assert set(expected.split(", ")) <= set(checks)
    assert checks["harness claude"]["level"] == "note" and checks["harness claude"]["hint"]
    assert (wk.home / "executions" / "abcdefgh23456789").is_dir()
    assert "Work can be done." in wk("doctor").out


def test_doctor_lists_the_open_doors(wk: "Wk") -> None:
    """In one sentence."""
    assert "your ssh-agent" in wk("doctor", SSH_AUTH_SOCK="/run/agent").out


def _wk(home: Path, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    environ = {**os.environ, "WATCHKEEPER_HOME": str(home)}
    return subprocess.run(
        [sys.executable, "-m", "watchkeeper", *arguments], env=environ, check=False, capture_output=True, timeout=60
    )


def test_a_reader_that_goes_away_is_quiet(tmp_path: Path) -> None:
    """As with `wk … | head`."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        process = subprocess.run(
            [sys.executable, "-m", "watchkeeper", "--help"],
            env={**os.environ, "WATCHKEEPER_HOME": str(tmp_path / "state")},
            stdout=gone,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    assert process.stderr == b""
    assert process.returncode == 141


def test_a_disk_that_takes_no_output_is_said(tmp_path: Path) -> None:
    """Never a success with half an answer."""
    with Path("/dev/full").open("wb") as full:
        process = subprocess.run(
            [sys.executable, "-m", "watchkeeper", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    assert process.returncode not in {0, 1}
    assert b"Traceback" not in process.stderr and process.stderr


def test_a_terminal_without_our_letters(tmp_path: Path) -> None:
    """Shows something else for them, and no error."""
    answer = subprocess.run(
        [sys.executable, "-m", "watchkeeper", "ls"],
        env={**os.environ, "WATCHKEEPER_HOME": str(tmp_path / "state"), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (answer.returncode, answer.stderr) == (0, b"")


def test_a_directory_that_was_deleted(tmp_path: Path) -> None:
    """Is nothing to a command that needs none."""
    gone = tmp_path / "gone"
    gone.mkdir()
    code = (
        "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.executable, [sys.executable, '-m', 'watchkeeper', 'ls'])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "WATCHKEEPER_HOME": str(tmp_path / "state")},
        cwd=gone,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert answer.returncode == 0, answer.stderr


def test_looking_imports_nothing_heavy(tmp_path: Path) -> None:
    """`wk ls` starts quickly because it loads little."""
    script = """
import json, os, sys
from watchkeeper.cli.main import main
code = main(["ls"], os.environ)
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
sys.exit(code)
"""
    assert _wk(tmp_path / "state", "run", "--dry-run", "--harness", "demo", "x").returncode == 0
    answer = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "WATCHKEEPER_HOME": str(tmp_path / "state")},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert answer.returncode == 0
    loaded = set(json.loads(answer.stderr.splitlines()[-1]))
    heavy = "anyio asyncio rich mcp starlette psycopg textual subprocess importlib.metadata email watchkeeper.daemon.service"
    assert loaded & set(heavy.split()) == set()


def test_state_values_that_a_choice_offers_are_all_there() -> None:
    """`--state` takes every state there is."""
    option = next(param for param in ls_module.command.params if param.name == "states")
    assert list(option.type.choices) == [state.value for state in TaskState]  # pyright: ignore[reportAttributeAccessIssue]
