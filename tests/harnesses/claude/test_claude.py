"""The command line and the environment that Claude Code is started with."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from support.odd_prompts import ODD_PROMPTS, REFUSED_PROMPTS

from watchkeeper.domain.model import TaskSpec
from watchkeeper.errors import BadTask, ProgramMissing
from watchkeeper.harnesses.claude import INSTRUCTIONS, NO_HOOKS, Claude
from watchkeeper.ports.harness import CommandPlan, LaunchRequest, Program


def spec(prompt: str = "Do it", model: str | None = None, cwd: str = "/project") -> TaskSpec:
    """A task for Claude Code."""
    return TaskSpec(prompt=prompt, title="", harness="claude", model=model, cwd=cwd)


def plan(
    options: dict[str, str] | None = None,
    environment: dict[str, str] | None = None,
    model: str | None = None,
    prompt: str = "Do it",
) -> CommandPlan:
    """What the adapter makes of these."""
    request = LaunchRequest(
        spec=spec(prompt, model=model),
        program=Program(path="/bin/claude", version="2.1.332"),
        environment=environment or {},
        directory="/execution",
        options=options or {},
    )
    return Claude().plan(request)


def test_the_default_edits_and_runs_commands_isolated_from_the_user() -> None:
    """The whole command line, so that every change of it is seen; the prompt is not part of it."""
    assert plan(model="sonnet").argv == (
        "/bin/claude", "-p", "--output-format", "stream-json", "--verbose",
        "--permission-mode", "acceptEdits", "--allowedTools", "Bash,WebFetch,WebSearch",
        "--model", "sonnet", "--strict-mcp-config", "--setting-sources", "", "--add-dir", ".", "--settings", NO_HOOKS,
    )  # fmt: skip
    assert plan().prompt_by == "stdin"


@pytest.mark.parametrize(
    ("isolation", "end"),
    [
        ("strict", ("--strict-mcp-config", "--setting-sources", "")),
        ("project", ("--strict-mcp-config", "--setting-sources", "", "--add-dir", ".", "--settings", NO_HOOKS)),
        (
            "user",
            ("acceptEdits", "--allowedTools", "Bash,WebFetch,WebSearch", "--setting-sources", "user,project,local"),
        ),
    ],
)
def test_isolation_decides_what_comes_from_outside(isolation: str, end: tuple[str, ...]) -> None:
    """Nothing, the project's, or the user's too."""
    argv = plan({"isolation": isolation}).argv
    assert argv[-len(end) :] == end


def test_a_tasks_own_isolation_wins_over_the_settings() -> None:
    """And the rights say which it is."""
    task = replace(spec(), isolation="strict")
    request = LaunchRequest(
        spec=task, program=Program(path="/c", version=None), environment={}, directory="/e",
        options={"isolation": "user"},
    )  # fmt: skip
    assert Claude().plan(request).argv[-3:] == ("--strict-mcp-config", "--setting-sources", "")
    assert Claude().rights(task, {"isolation": "user"}).reads.endswith("nothing of your or the project's configuration")


def test_the_callers_sign_in_passes_and_the_programs_patience_is_bounded() -> None:
    """Nothing of the caller is copied or dropped but what says that we run inside Claude Code."""
    caller = {"HOME": "/home/user", "CLAUDE_CONFIG_DIR": "/c", "ANTHROPIC_API_KEY": "sk-test-local", "CLAUDECODE": "1"}
    assert plan(environment=caller).environment == {
        "HOME": "/home/user",
        "CLAUDE_CONFIG_DIR": "/c",
        "ANTHROPIC_API_KEY": "sk-test-local",
        "DISABLE_AUTOUPDATER": "1",
        INSTRUCTIONS: "1",
        "CLAUDE_CODE_MAX_RETRIES": "7",
    }


def test_the_callers_bound_wins_over_ours_and_an_option_over_both() -> None:
    """The order of who decides."""
    caller = {"CLAUDE_CODE_MAX_RETRIES": "3"}
    options = {"max_retries": "0", "request_timeout_s": "1.5"}
    assert plan(environment=caller).environment["CLAUDE_CODE_MAX_RETRIES"] == "3"
    decided = plan(options, caller).environment
    assert (decided["CLAUDE_CODE_MAX_RETRIES"], decided["API_TIMEOUT_MS"]) == ("0", "1500")


def test_limits_become_flags() -> None:
    """Turns and money."""
    argv = plan({"max_turns": "5", "max_budget_usd": "0.5"}).argv
    assert argv[argv.index("--max-turns") + 1] == "5"
    assert argv[argv.index("--max-budget-usd") + 1] == "0.5"


@pytest.mark.parametrize(
    "options",
    [
        {"isolaton": "strict"},
        {"isolation": "none"},
        {"permission_mode": "default"},
        {"max_turns": "many"},
        {"max_turns": "0"},
        {"max_turns": "1.5"},
        {"max_budget_usd": "nan"},
        {"max_budget_usd": "inf"},
        {"request_timeout_s": "1e400"},
        {"max_retries": "-1"},
        {"request_timeout_s": ""},
    ],
)
def test_an_option_that_cannot_be_is_refused(options: dict[str, str]) -> None:
    """Before anything is started, and with what can be said instead."""
    with pytest.raises(BadTask) as refused:
        plan(options)
    assert refused.value.hint


def test_an_empty_prompt_is_refused() -> None:
    """The program itself would end at once with an error."""
    with pytest.raises(BadTask):
        Claude().check(spec(prompt=" \n"))
    Claude().check(spec())


@pytest.mark.parametrize(
    ("options", "detail"),
    [
        (
            {},
            "may edit files there and run any command and read the web, as you; never asks, so it can reach all",
        ),
        ({"allowed_tools": "Read"}, "may edit files there and use Read, as you; never asks"),
        ({"permission_mode": "dontAsk", "allowed_tools": "Bash"}, "may use Bash, as you; never asks, so it can reach"),
        ({"permission_mode": "plan"}, "may read there and plan; may use WebFetch,WebSearch; never asks"),
        ({"permission_mode": "bypassPermissions"}, "may do whatever you may; never asks"),
    ],
)
def test_the_rights_are_said_truthfully(options: dict[str, str], detail: str) -> None:
    """What the first printed line says before anything starts."""
    rights = Claude().rights(spec(), options)
    assert rights.detail.startswith(detail)
    assert (rights.network, rights.sandbox) == ("yours", "none")


@pytest.mark.parametrize(
    ("tools", "brief"),
    [
        ("Bash Edit", "runs any command"),
        ("Bash(*)", "runs any command"),
        ("Bash(git log:*)", "uses Bash(git log:*)"),
        ("Read, Edit", "uses Read, Edit"),
        ("Read Grep", "reads and plans"),
    ],
)
def test_the_mode_plan_only_reads_where_its_tools_do(tools: str, brief: str) -> None:
    """The program takes blanks for commas, and what is allowed by name is allowed in this mode too."""
    said = Claude().rights(spec(), {"permission_mode": "plan", "allowed_tools": tools}).brief
    assert said is not None and said[2] == brief


def test_a_conversation_is_taken_over_in_its_directory() -> None:
    """The command that shows the line adds the directory, as for every program; every word is quoted."""
    line = Claude().takeover(spec(cwd="/my project"), "a b")
    assert line is not None
    assert shlex.split(line) == ["claude", "--resume", "a b"]


def test_the_program_is_found_on_the_callers_path_with_its_version(tmp_path: Path) -> None:
    """Or where the option says; a missing one is said with how to get it."""
    program = tmp_path / "claude"
    _ = program.write_text("#!/bin/sh\necho '9.8.7 (Claude Code)'\n")
    program.chmod(0o755)
    assert Claude().find({"PATH": str(tmp_path)}, {}) == Program(path=str(program), version="9.8.7")
    assert Claude().find({"PATH": "/none"}, {"program": str(program)}).version == "9.8.7"
    with pytest.raises(ProgramMissing) as missing:
        _ = Claude().find({"PATH": "/none"}, {})
    assert "npm install" in missing.value.hint


@pytest.mark.parametrize("prompt", ODD_PROMPTS.values(), ids=ODD_PROMPTS)
def test_a_prompt_is_delivered_as_it_is_but_for_a_blank_before_a_slash(prompt: str) -> None:
    """With which the program takes it for text, and not for a command of its own."""
    Claude().check(spec(prompt))
    assert plan(prompt=prompt).prompt == (f" {prompt}" if prompt.startswith("/") else prompt)


@pytest.mark.parametrize(("prompt", "detail"), REFUSED_PROMPTS.values(), ids=REFUSED_PROMPTS)
def test_a_prompt_that_would_not_arrive_whole_is_refused(prompt: str, detail: str) -> None:
    """When it is handed over, with what is wrong and what to do."""
    with pytest.raises(BadTask, match=detail) as refusal:
        Claude().check(spec(prompt))
    assert refusal.value.hint
