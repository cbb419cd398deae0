"""Every way in which the real programs fail gets its right name and its right number of tries: the rows of `docs/harnesses/failures.md`, one by one."""

import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support import claude_code, codex
from support.claude_code import ClaudeRig
from support.codex import CodexRig, provider
from support.failure_table import PAGE, Cell, cells, with_table
from support.real_agent import AgentRig
from support.waiting import wait_until

from watchkeeper.domain.failure import FailureKind
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.boot import boot_id

PATIENCE_S = 120.0
BROKEN_SANDBOX = """#!/bin/sh
[ "$1" = --version ] && exec {program} --version
exec unshare --user --map-root-user sh -c '
    echo 0 > /proc/sys/user/max_user_namespaces
    echo 0 > /proc/sys/user/max_mnt_namespaces
    exec "$@"' sh {program} "$@"
"""
"""A Codex that may make no namespaces, as in many containers."""

_FIRST = {"text": "I write.", "tools": [{"do": "write", "path": "{{cwd}}/a.txt", "content": "a\n"}]}
SCENARIOS: dict[str, Any] = {
    "nothing": {"turns": [{"text": ""}]},
    "talk": {"turns": [{"text": "Everything is done."}]},
    "asks": {"turns": [_FIRST, {"text": "I looked around. Which file do you mean?\n\nThanks!"}]},
    "elsewhere": {
        "turns": [
            {"text": "I write.", "tools": [{"do": "write", "path": "/elsewhere/note.txt", "content": "x"}]},
            {"text": "I was not allowed to."},
        ]
    },
    "held_kill": {"turns": [_FIRST, {"text": "Done.", "hold": "kill"}]},
    "held_term": {"turns": [_FIRST, {"text": "Done.", "hold": "terminate"}]},
}
"""Beside those that the stub has."""

CLAUDE = {"WATCHKEEPER_HARNESS_CLAUDE_MAX_RETRIES": "1", "WATCHKEEPER_HARNESS_CLAUDE_MAX_TURNS": "6"}
"""For all cells: one further try of its own, so that both kinds of trying are seen."""
MANY = {"WATCHKEEPER_QUEUE_LIMIT": "3"}
SIGN_INS: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("claude", "key"): claude_code.KEY,
    ("claude", "subscription"): claude_code.SUBSCRIPTION,
    ("claude", "nobody"): claude_code.NOBODY,
    ("codex", "key"): codex.KEY,
    ("codex", "nobody"): codex.NOBODY,
}

pytestmark = pytest.mark.timeout(1200)  # the first of these tests may have to fetch the program


@pytest.fixture(autouse=True)
def scenarios(request: pytest.FixtureRequest) -> None:
    """Make the further scenarios known."""
    request.getfixturevalue("stub").board.add(SCENARIOS)


def _give(rig: AgentRig, cell: Cell, cwd: Path | None = None) -> str:
    sign_in = SIGN_INS[rig.harness, cell.sign_in]
    options = ("--retries", "1", *cell.options)
    if isinstance(rig, CodexRig):
        return rig.give(cell.scenario, *options, sign_in=sign_in, cwd=cwd)
    assert isinstance(rig, ClaudeRig)
    if cell.scenario == "(nobody)":
        rig.service = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", **sign_in}
        return rig.hand_over(*options, cwd=cwd)
    return rig.give(cell.scenario, *options, sign_in=sign_in, cwd=cwd)


def _act(rig: AgentRig, cell: Cell, task_id: str) -> None:
    """Do to the agent, while it waits for its model, what the cell says."""
    rig.wait_held(cell.act)
    agent = wait_until(lambda: rig.runs(task_id)[-1].agent, what="the agent is on record")
    number = {"kill": signal.SIGKILL, "terminate": signal.SIGTERM}[cell.act]
    _ = proc.signal_checked(agent.pid, agent.start_ticks, boot_id(), number)


def _came_to(rig: AgentRig, cell: Cell, task_id: str) -> tuple[list[FailureKind | None], int | None, str]:
    """Kinds of its runs, how often the model was asked in all, and the cell's words if they were said."""
    kinds = rig.wait_over(task_id, within_s=PATIENCE_S)
    if cell.kind is None and set(kinds[:-1]) == {FailureKind.NETWORK}:
        # On a busy machine a program may give up what it overcomes by itself elsewhere. It is tried again, and then overcomes it.
        kinds = kinds[-1:]
    asked = len(rig.requests(cell.scenario)) if cell.asks is not None else None
    reason = rig.last_outcome(task_id).reason
    return kinds, asked, cell.looks if cell.kind is None or cell.looks in reason else reason


def _expected(cell: Cell) -> tuple[list[FailureKind | None], int | None, str]:
    return [cell.kind] * cell.runs, None if cell.asks is None else cell.asks * cell.runs, cell.looks


def _all_at_once(rig: AgentRig) -> None:
    """Give every cell that disturbs no other to one daemon, each in a repository of its own, and then look."""
    known = cells(rig.harness, alone=False)
    given: dict[str, tuple[Cell, str]] = {}
    for number, (what, cell) in enumerate(known):
        given[what] = cell, _give(rig, cell, rig.another_repository(f"place-{number}"))
    for cell, task_id in given.values():
        if cell.act:
            _act(rig, cell, task_id)
    got = {what: _came_to(rig, cell, task_id) for what, (cell, task_id) in given.items()}
    assert got == {what: _expected(cell) for what, cell in known}
    assert rig.survivors() == []


def _alone(rig: AgentRig, cell: Cell) -> None:
    assert _came_to(rig, cell, _give(rig, cell)) == _expected(cell)
    assert rig.survivors() == []


@pytest.mark.claude
def test_claude_code_fails_as_the_table_says(rig: ClaudeRig) -> None:
    """The cells of Claude Code that need no installation for themselves."""
    rig.settings = {**CLAUDE, **MANY}
    _all_at_once(rig)


@pytest.mark.codex
def test_codex_fails_as_the_table_says(codex_rig: CodexRig) -> None:
    """The cells of Codex that need no installation for themselves."""
    codex_rig.settings = MANY
    _all_at_once(codex_rig)


def _named(program: str) -> Callable[[Any], Any]:
    """Parameters for the cells of a program that need an installation for themselves."""
    return pytest.mark.parametrize(
        "cell", [pytest.param(cell, id=what.replace(" ", "-")) for what, cell in cells(program, alone=True)]
    )


@pytest.mark.claude
@_named("claude")
def test_claude_code_alone_fails_as_the_table_says(rig: ClaudeRig, cell: Cell) -> None:
    """After which its account can do nothing more, or with settings of its own."""
    more = {f"WATCHKEEPER_HARNESS_CLAUDE_{name.upper()}": value for name, value in cell.settings}
    rig.settings = {**CLAUDE, **more}
    _alone(rig, cell)


@pytest.mark.codex
@_named("codex")
def test_codex_alone_fails_as_the_table_says(codex_rig: CodexRig, cell: Cell) -> None:
    """After which its account can do nothing more, or with settings of its own."""
    settings = dict(cell.settings)
    if "program" in settings:
        boxed = codex_rig.root / settings["program"]
        boxed.write_text(BROKEN_SANDBOX.format(program=codex_rig.program), encoding="utf-8")
        boxed.chmod(0o755)
        codex_rig.configure(program=str(boxed))
    if "base_url" in settings:
        codex_rig.configure(provider(settings["base_url"]))
    _alone(codex_rig, cell)


def test_the_page_says_what_is_tested() -> None:
    """The table is not written by hand."""
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_table(page), "`python tests/support/failure_table.py` writes it anew"
