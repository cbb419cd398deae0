"""Variables that agents would need and do not get are named once, and where requests go is part of what is shown."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.cli import Wk

from watchkeeper.cli.not_passed import COLUMNS, line
from watchkeeper.errors import Exit

TOLD = "Not passed to the agent: GH_TOKEN, PYTHONPATH.\n`--env NAME` passes one; `wk config set environment.names NAME` always does.\n"


@pytest.fixture
def shell(wk: Wk) -> Wk:
    """`wk` in a shell that has two variables which agents do not get."""
    return replace(wk, environ={**wk.environ, "GH_TOKEN": "hidden-1", "PYTHONPATH": "hidden-2"})


@pytest.mark.parametrize("verb", ["run", "add"])
def test_they_are_named_when_a_task_is_handed_over(wk: Wk, shell: Wk, verb: str) -> None:
    """On standard error, without their values, and in lines of 80 columns; what is passed is not named."""
    said = shell(verb, "--", "true")
    assert said.code == 0
    assert TOLD in said.err
    assert "hidden" not in said.err + said.out
    assert all(len(each) <= COLUMNS for each in TOLD.splitlines())
    assert "Not passed" not in shell(verb, "--env", "GH_TOKEN", "--env", "PYTHONPATH", "--", "true").err
    assert "Not passed" not in wk(verb, "--", "true").err
    assert "Not passed" not in shell(verb, "--harness", "demo", "do it").err


@pytest.mark.parametrize("verb", ["run", "add"])
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_json_has_them_and_nothing_is_printed_beside_it(wk: Wk, shell: Wk, verb: str, more: tuple[str, ...]) -> None:
    """Together with where requests go."""
    said = shell(verb, "--json", *more, "--", "true")
    assert said.json["not_passed"] == ["GH_TOKEN", "PYTHONPATH"]
    assert (said.json["host"], said.json["host_source"]) == (None, None)
    assert "Not passed" not in said.err
    assert wk(verb, "--json", *more, "--", "true").json["not_passed"] == []


def test_a_batch_names_them_once(shell: Wk) -> None:
    """However many tasks there are; in JSON each task has its own."""
    tasks = [{"argv": ["true"]}, {"argv": ["true"], "env": ["GH_TOKEN"]}, {"prompt": "do it", "harness": "demo"}]
    text = "\n".join(json.dumps(each) for each in tasks).encode()
    said = shell("add", "--json-lines", stdin=text)
    assert said.code == 0
    assert said.err.count("Not passed") == 1
    assert TOLD in said.err
    found = shell("add", "--json-lines", "--json", stdin=text).lines
    assert [each["not_passed"] for each in found] == [["GH_TOKEN", "PYTHONPATH"], ["PYTHONPATH"], []]


def test_many_names_are_counted() -> None:
    """The line keeps to its columns, and says how many it leaves out."""
    names = [f"VARIABLE_{number}" for number in range(30)]
    said = line(names)
    assert len(said) <= COLUMNS
    assert said.startswith("Not passed to the agent: VARIABLE_0, VARIABLE_1,")
    shown = said.count("VARIABLE_")
    assert said.endswith(f" and {30 - shown} more.")
    assert line(["X" * 100, "Y"]) == "Not passed to the agent: 2 variables that look needed."


def program(directory: Path, name: str) -> None:
    """A program by this name that says a version."""
    directory.mkdir(exist_ok=True)
    made = directory / name
    _ = made.write_text(f"#!/bin/sh\necho {name} 9.9.9\n", encoding="utf-8")
    made.chmod(0o755)


@pytest.fixture
def configured(wk: Wk, tmp_path: Path) -> Wk:
    """Codex and Claude Code are installed; Codex has a provider of its own."""
    for name in ("codex", "claude"):
        program(tmp_path / "bin", name)
    wk.environ["PATH"] = f"{tmp_path / 'bin'}:{wk.environ['PATH']}"
    home = Path(wk.environ["HOME"]) / ".codex"
    home.mkdir()
    _ = (home / "config.toml").write_text(
        'model_provider = "mine"\n[model_providers.mine]\nname = "M"\nbase_url = "http://10.0.0.7:8080/v1"\nenv_key = "MY_KEY"\n'
    )
    return wk


def test_where_requests_go_is_said_before_a_task_starts(configured: Wk) -> None:
    """Where it is not the vendor's host; in JSON always."""
    options = ("run", "--harness", "codex", "--env", "MY_KEY", "--dry-run", "do it")
    said = configured(*options, MY_KEY="k")
    assert "requests   go to 10.0.0.7:8080, by your Codex configuration (model_provider 'mine')" in said.err
    told = configured(*options, "--json", MY_KEY="k").json
    assert (told["host"], told["host_source"]) == (
        "10.0.0.7:8080",
        "your Codex configuration (model_provider 'mine')",
    )
    plain = configured("run", "--harness", "claude", "--dry-run", "do it")
    assert "Requests go" not in plain.err
    assert configured("run", "--harness", "claude", "--dry-run", "--json", "do it").json["host"] == "api.anthropic.com"


def test_a_way_that_cannot_be_taken_over_is_refused(configured: Wk) -> None:
    """Nothing is kept, and the command that helps is named."""
    said = configured("run", "--harness", "codex", "do it")
    assert said.code == Exit.BAD_TASK
    assert "MY_KEY" in said.err
    assert "--env MY_KEY" in said.err
    assert "hand" in configured("ls").out + configured("ls").err
    assert not (configured.home / "environments").exists()


def test_the_doctor_says_where_requests_of_each_program_go(configured: Wk) -> None:
    """With what decides it, or what stands in the way."""
    checks = {each["name"]: each for each in configured("doctor", "--json").json["checks"]}
    claude, codex = checks["harness claude"], checks["harness codex"]
    assert (claude["host"], claude["host_source"], claude["level"]) == ("api.anthropic.com", "the default", "ok")
    assert claude["detail"].endswith("requests go to api.anthropic.com (the default)")
    assert codex["level"] == "note"
    assert "MY_KEY" in codex["detail"]
    assert "--env MY_KEY" in codex["hint"]
    assert configured("config", "set", "environment.names", "MY_KEY").code == 0
    checks = {each["name"]: each for each in configured("doctor", "--json", MY_KEY="k").json["checks"]}
    assert checks["harness codex"]["host"] == "10.0.0.7:8080"


def test_an_account_has_the_way_of_its_own_home(configured: Wk) -> None:
    """The configuration of the user's own home is not that of the account's."""
    assert configured("account", "add", "codex", "work").code == 0
    told = configured("run", "--harness", "codex", "--account", "work", "--dry-run", "--json", "do it").json
    assert told["host"] == "api.openai.com or chatgpt.com"
