"""What a launch is made of: the stored profile, the program at its path, and nothing of the daemon's."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support.cli import Wk
from support.launching import prepare_next

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import TaskState
from watchkeeper.domain.wait import Wait
from watchkeeper.harnesses.demo import Demo
from watchkeeper.ports.store import Authorisation


def agent(folder: Path, version: str = "1.0") -> Path:
    """A stand-in for Claude Code."""
    folder.mkdir(exist_ok=True)
    program = folder / "claude"
    _ = program.write_text(f"#!/bin/sh\necho {version}\n", encoding="utf-8")
    program.chmod(0o755)
    return program


@pytest.fixture
def program(wk: Wk) -> Path:
    """The one that is on the PATH."""
    wk.environ["PATH"] = f"{wk.home.parent / 'bin'}:/usr/bin:/bin"
    return agent(wk.home.parent / "bin")


def test_the_daemons_path_and_program_setting_have_no_say(wk: Wk, program: Path) -> None:
    _ = wk("add", "--harness", "claude", "x")
    other = agent(wk.home.parent / "other")
    _ = wk("config", "set", "harness.claude.program", str(other))
    prepared = prepare_next(wk, {**wk.environ, "PATH": f"{other.parent}:/usr/bin:/bin"})
    assert prepared.spec["argv"][0] == str(program)


def test_an_upgraded_program_is_launched_and_shown(wk: Wk, program: Path) -> None:
    task_id = wk("add", "--harness", "claude", "x").out.strip()
    _ = agent(program.parent, "2.0.1")
    assert prepare_next(wk).spec["argv"][0] == str(program)
    shown = wk("show", task_id)
    assert "version   2.0.1; it was 1.0 when allowed" in shown.out
    run = wk("show", task_id, "--json").json["runs"][0]
    assert (run["program_version"], run["allowed"]["profile"]["program_version"]) == ("2.0.1", "1.0")


def test_what_an_earlier_run_was_allowed_is_shown_part_by_part(wk: Wk, program: Path) -> None:
    """Also where the line on it is the same."""
    old = agent(program.parent.parent / "old")
    task_id = wk("add", "--harness", "claude", "--option", f"program={old}", "--option", "max_turns=3", "x").out.strip()
    assert f"options     max_turns=3, program={old}" in wk("show", task_id).out
    _ = prepare_next(wk)
    assert f"program claude ({old})" not in wk("show", task_id).out
    old.unlink()
    retried = wk("retry", task_id)
    assert retried.code == 0, retried.err
    shown = wk("show", task_id).out
    assert f"program     {program} 1.0" in shown
    assert f"program claude ({old})" in shown and f"options max_turns=3, program={old}" in shown


def test_a_program_that_is_gone_is_waited_for_and_nothing_else_is_started(wk: Wk, program: Path) -> None:
    """Although there is another one on the PATH."""
    task_id = wk("add", "--harness", "claude", "x").out.strip()
    other = agent(wk.home.parent / "other")
    program.unlink()
    prepared = prepare_next(wk, {**wk.environ, "PATH": f"{other.parent}:/usr/bin:/bin"})
    assert (prepared.spec, prepared.run.kind) == ({}, FailureKind.PROGRAM_MISSING)
    assert str(program) in prepared.run.reason
    assert wk.task(task_id).state is TaskState.QUEUED
    reasons = wk("why", task_id, "--json").json["reasons"]
    assert {reason["wait"] for reason in reasons} & {Wait.HARNESS_MISSING.value, Wait.RETRY_AT.value}
    edited = wk("edit", task_id, "--option", f"program={other}")
    assert edited.code == 0 and f"({other})" in edited.err


def test_a_command_is_the_program_that_was_shown(wk: Wk, program: Path) -> None:
    """Although another one of that name is earlier on its PATH by now."""
    later = program.parent.parent / "earlier"
    later.mkdir()
    wk.environ["PATH"] = f"{later}:{wk.environ['PATH']}"
    _ = wk("add", "--", "claude", "x")
    _ = agent(later)
    assert prepare_next(wk).spec["argv"] == [str(program), "x"]


def of_an_older_version(wk: Wk, task_id: str, detail: str) -> None:
    """Leave an authorisation without a profile, as versions before profiles did."""
    parts = wk.parts
    old = Authorisation(
        id=parts.ids.execution(), task_id=task_id, kind="person", by="ada", detail=detail, at=parts.clock.now()
    )
    parts.store.transact("old", lambda tx: tx.outcomes.authorise(old))


OLD_LINE = (
    "claude 0.9 in {cwd}: may edit files there and run any command and read the web, as you; never asks, so it can reach all that you can; "
    "takes the project's instructions and none of its settings, nothing of your configuration; network: yours; sandbox: none."
)
"""The sentence of an older version."""


@pytest.mark.usefixtures("program")
def test_a_task_of_an_older_version_is_launched_if_its_rights_are_still_the_same(wk: Wk) -> None:
    task_id = wk("add", "--harness", "claude", "x").out.strip()
    of_an_older_version(wk, task_id, OLD_LINE.format(cwd=wk.cwd))
    assert prepare_next(wk).spec["argv"]


@pytest.mark.usefixtures("program")
def test_other_rights_than_an_older_version_allowed_need_a_person(wk: Wk) -> None:
    task_id = wk("add", "--harness", "claude", "x").out.strip()
    of_an_older_version(wk, task_id, OLD_LINE.format(cwd=wk.cwd))
    _ = wk("config", "set", "harness.claude.allowed_tools", "Bash")
    assert prepare_next(wk).spec == {}
    task = wk.task(task_id)
    assert (task.state, task.kind) == (TaskState.NEEDS_INPUT, FailureKind.PERMISSION_DENIED)
    assert f"`wk retry {task_id}` approves it anew" in task.reason
    told = wk("retry", task_id)
    assert "uses Bash" in told.err or "runs any command" in told.err
    assert prepare_next(wk).spec["argv"]


def test_another_home_under_an_accounts_name_is_not_used(wk: Wk) -> None:
    """The account was removed, and another one was added by its name."""
    first, second = (wk.home.parent / name for name in ("first", "second"))
    for home in (first, second):
        home.mkdir()
        _ = (home / "signed-in").write_text("yes", encoding="utf-8")
    assert wk("account", "add", "demo", "work", "--home", str(first)).code == 0
    task_id = wk("add", "--harness", "demo", "--account", "demo:work", "x").out.strip()
    parts = wk.parts
    was = parts.store.read(lambda tx: tx.accounts.all())[0]

    def swap(tx: object) -> None:
        tx.accounts.remove(was.id)  # pyright: ignore[reportAttributeAccessIssue]
        tx.accounts.add(replace(was, home=str(second)))  # pyright: ignore[reportAttributeAccessIssue]

    parts.store.transact("swap", swap)
    prepared = prepare_next(wk)
    assert (prepared.spec, prepared.run.kind) == ({}, FailureKind.SIGNED_OUT)
    assert f"It was allowed with {first}" in wk.task(task_id).reason
    shutil.rmtree(second)


def handed_over_elsewhere(wk: Wk, task_id: str) -> None:
    """As if another machine that shares the queue had accepted it."""
    parts = wk.parts
    was = wk.task(task_id)
    parts.store.transact("elsewhere", lambda tx: tx.tasks.save(replace(was, environment_machine="m9"), was))


def test_on_another_machine_only_the_programs_place_is_its_own(wk: Wk, program: Path) -> None:
    """Its settings have no say in the rights."""
    task_id = wk("add", "--harness", "claude", "--rights", "read", "--option", "max_turns=3", "x").out.strip()
    allowed = wk("show", task_id, "--json").json["authorisation"]["profile"]
    handed_over_elsewhere(wk, task_id)
    other = agent(wk.home.parent / "other", "3.0")
    _ = wk("config", "set", "harness.claude.program", str(other))
    _ = wk("config", "set", "harness.claude.permission_mode", "acceptEdits")
    _ = wk("config", "set", "stop.grace", "1s")
    spec = prepare_next(wk).spec
    assert spec["argv"] == [str(other), *allowed["argv"][1:]]
    assert spec["grace_s"] == allowed["grace_s"]
    program.unlink()


def test_what_comes_to_other_rights_on_another_machine_is_not_launched(wk: Wk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a Watchkeeper version whose harness says something else."""
    task_id = wk("add", "--harness", "demo", "x").out.strip()
    handed_over_elsewhere(wk, task_id)
    rights = Demo.rights
    monkeypatch.setattr(Demo, "rights", lambda *given: replace(rights(*given), sandbox="some"))
    assert prepare_next(wk).spec == {}
    task = wk.task(task_id)
    assert (task.state, task.kind) == (TaskState.NEEDS_INPUT, FailureKind.PERMISSION_DENIED)
    assert "other rights than were allowed (its sandbox)" in task.reason


@pytest.mark.usefixtures("program")
def test_requests_that_would_go_elsewhere_now_need_a_person(wk: Wk) -> None:
    """The program reads this file by itself, when it is launched."""
    task_id = wk("add", "--harness", "claude", "--isolation", "user", "x").out.strip()
    settings = Path(wk.environ["HOME"]) / ".claude" / "settings.json"
    settings.parent.mkdir()
    _ = settings.write_text('{"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}}', encoding="utf-8")
    assert prepare_next(wk).spec == {}
    task = wk.task(task_id)
    assert (task.state, task.kind) == (TaskState.NEEDS_INPUT, FailureKind.PERMISSION_DENIED)
    assert "would go to 127.0.0.1:9 now; api.anthropic.com was allowed" in task.reason
    told = wk("retry", task_id)
    assert "Requests go to 127.0.0.1:9" in told.err or "requests   go to 127.0.0.1:9" in told.err
    assert prepare_next(wk).spec["argv"]
    _ = settings.write_text("{", encoding="utf-8")
    assert wk("add", "--harness", "claude", "--isolation", "project", "y").code != 0
