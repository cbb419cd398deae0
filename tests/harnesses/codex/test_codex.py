"""The command line and the environment that Codex is started with."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from support.odd_prompts import ODD_PROMPTS, REFUSED_PROMPTS

from watchkeeper.domain.model import TaskSpec
from watchkeeper.errors import BadTask, ProgramMissing
from watchkeeper.harnesses.codex import Codex
from watchkeeper.ports.harness import CommandPlan, LaunchRequest, Program
from watchkeeper.ports.sign_in import signs_in

BASE = ("/bin/codex", "exec", "--json", "--skip-git-repo-check", "--sandbox", "workspace-write")
ALWAYS = ("-c", "features.unbounded_connection_retries=false", "-c", "check_for_update_on_startup=false")
PROJECT = ("-c", "features.plugins=false", "-c", "features.apps=false", "-c", "features.hooks=false")


def spec(prompt: str = "Do it", model: str | None = None) -> TaskSpec:
    """A task for Codex."""
    return TaskSpec(prompt=prompt, title="", harness="codex", model=model, cwd="/project")


def plan(
    options: dict[str, str] | None = None, environment: dict[str, str] | None = None, task: TaskSpec | None = None
) -> CommandPlan:
    """What the adapter makes of these."""
    request = LaunchRequest(
        spec=task or spec(),
        program=Program(path="/bin/codex", version="0.171.0"),
        environment=environment or {},
        directory="/execution",
        options=options or {},
    )
    return Codex().plan(request)


def test_the_default_edits_in_the_sandbox_isolated_from_the_user() -> None:
    """The whole command line, so that every change of it is seen; the prompt is not part of it."""
    assert plan(task=spec(model="gpt-5")).argv == (
        *BASE, "--ignore-user-config", "--ignore-rules", "--model", "gpt-5", *ALWAYS, *PROJECT, "-",
    )  # fmt: skip
    assert plan().prompt_by == "stdin"


def test_isolation_decides_what_comes_from_outside() -> None:
    """Nothing, the project's instructions, or all of the user's; a task's own word wins over the settings'."""
    strict = plan({"isolation": "strict"}).argv
    assert strict == (
        *BASE, "--ignore-user-config", "--ignore-rules", *ALWAYS, *PROJECT,
        "-c", "project_doc_max_bytes=0", "-c", "skills.include_instructions=false", "-",
    )  # fmt: skip
    assert plan({"isolation": "user"}).argv == (*BASE, *ALWAYS, "-")
    assert plan({"isolation": "user"}, task=replace(spec(), isolation="strict")).argv == strict


def test_the_callers_home_and_key_pass() -> None:
    """Nothing of the caller is copied or dropped but what says that we run inside Codex."""
    caller = {"HOME": "/home/user", "CODEX_HOME": "/c", "CODEX_API_KEY": "sk-test-local"}
    inside = dict.fromkeys(Codex.nesting, "1")
    assert {"CODEX_THREAD_ID", "CODEX_SANDBOX_NETWORK_DISABLED"} <= inside.keys()
    assert plan(environment={**caller, **inside}).environment == caller


def test_options_become_flags_and_configuration() -> None:
    """What the user configures comes last, a line each."""
    provider = 'model_provider = "mine"\n\n  model_providers.mine.base_url = "https://example.org/v1"\n'
    argv = plan({"sandbox": "read-only", "network_access": "true", "config": provider}).argv
    assert argv[argv.index("--sandbox") + 1] == "read-only"
    assert argv[-7:] == (
        "-c", "sandbox_workspace_write.network_access=true", "-c", 'model_provider = "mine"',
        "-c", 'model_providers.mine.base_url = "https://example.org/v1"', "-",
    )  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        {"isolaton": "strict"},
        {"isolation": "none"},
        {"sandbox": "off"},
        {"network_access": "yes"},
        {"config": "no setting"},
        {"config": "x ="},
        {"config": 'sandbox_mode = "danger-full-access"'},
        {"config": '"approval_policy" = "on-request"'},
        {"config": 'model_provider = "mine"\npermissions.x = 1'},
        {"config": 'model_providers.mine.experimental_bearer_token = "hidden"'},
        {"config": 'model_providers.mine.http_headers = { "Authorization" = "hidden" }'},
        {"config": 'model_providers.mine.base_url = "https://me:hidden7Lm2Pv@models.example.org/v1"'},
        {"config": 'model_providers.mine.query_params.api-key = "hidden9Qw7Lm2Pv5Rt8Yb1"'},
        {"config": 'shell_environment_policy.set = { "A_TOKEN" = "hidden9Qw7Lm2Pv5Rt8Yb1" }'},
    ],
)
def test_an_option_that_cannot_be_is_refused(options: dict[str, str]) -> None:
    """Before anything is started, with what can be said instead, and without what may be a secret."""
    with pytest.raises(BadTask) as refused:
        plan(options)
    assert refused.value.hint
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(("prompt", "detail"), REFUSED_PROMPTS.values(), ids=REFUSED_PROMPTS)
def test_a_prompt_that_the_program_does_not_take_is_refused(prompt: str, detail: str) -> None:
    """The program itself would end at once with an error, or change it."""
    with pytest.raises(BadTask, match=detail) as refusal:
        Codex().check(spec(prompt=prompt))
    assert refusal.value.hint
    Codex().check(spec())


@pytest.mark.parametrize("prompt", ODD_PROMPTS.values(), ids=ODD_PROMPTS)
def test_a_prompt_is_delivered_so_that_it_arrives_as_it_is(prompt: str) -> None:
    """The program takes a byte order mark away, so one more is given."""
    Codex().check(spec(prompt=prompt))
    mark = "\ufeff"
    assert plan(task=spec(prompt=prompt)).prompt == (mark + prompt if prompt.startswith(mark) else prompt)


@pytest.mark.parametrize(
    ("options", "detail", "network", "sandbox"),
    [
        ({}, "may edit files there and in temporary directories, and run commands", "none for its", "not in .git"),
        ({"network_access": "true"}, "may edit files there", "yours", "not in .git"),
        ({"sandbox": "read-only", "network_access": "true"}, "change nothing", "none for its", "writes nothing"),
        ({"sandbox": "danger-full-access"}, "any command, as you; never asks, so it can", "yours", "none"),
        ({"isolation": "user"}, "your configuration, with hooks", "none for its", "wider where your"),
        ({"isolation": "strict"}, "of yours only the AGENTS.md", "none for its", "not in .git"),
    ],
)
def test_the_rights_say_what_the_agent_may_do(options: dict[str, str], detail: str, network: str, sandbox: str) -> None:
    """Truthfully, before it starts."""
    rights = Codex().rights(spec(), options)
    assert detail in f"{rights.detail}; {rights.reads}"
    assert rights.network.startswith(network)
    assert sandbox in rights.sandbox


def test_the_conversation_is_taken_over_by_its_session() -> None:
    """A session is quoted, whatever it is."""
    assert Codex().takeover(spec(), "01-2") == "codex resume 01-2"
    assert shlex.split(str(Codex().takeover(spec(), "a b"))) == ["codex", "resume", "a b"]


def test_it_says_where_its_sign_in_is() -> None:
    """The file of the home that is in force, the question that needs no network, and the login of both kinds."""
    codex = Codex()
    assert signs_in(codex) is codex
    assert codex.sign_in_files({"HOME": "/h"}) == ("/h/.codex/auth.json",)
    assert codex.sign_in_files({"HOME": "/h", "CODEX_HOME": "/c"}) == ("/c/auth.json",)
    program = Program(path="/bin/codex", version=None)
    assert codex.sign_in_question(program) == ("/bin/codex", "login", "status")
    assert codex.login(program, terminal=True) == ("/bin/codex", "login")
    assert codex.login(program, terminal=False) == ("/bin/codex", "login", "--with-api-key")


def test_it_is_found_on_the_callers_path_and_asked_its_version(tmp_path: Path) -> None:
    """The native program and the wrapper of npm answer alike."""
    program = tmp_path / "codex"
    program.write_text("#!/bin/sh\necho codex-cli 0.171.0\n", encoding="utf-8")
    program.chmod(0o755)
    assert Codex().find({"PATH": str(tmp_path)}, {}) == Program(path=str(program), version="0.171.0")
    with pytest.raises(ProgramMissing) as missing:
        _ = Codex().find({"PATH": "/none"}, {})
    assert "npm install" in missing.value.hint


@pytest.mark.parametrize(
    "setting", ['mcp_servers.x.command = "sh"', 'notify = ["sh"]', "features.plugins = true", '"mcp_servers".x = {}']
)
def test_what_codex_starts_by_itself_is_outside_its_sandbox(setting: str) -> None:
    """So it cannot be had where the agent is to change nothing, and is named elsewhere."""
    with pytest.raises(BadTask, match="read-only does not hold"):
        plan({"sandbox": "read-only", "config": setting})
    assert "does not hold what your option config starts" in Codex().rights(spec(), {"config": setting}).sandbox
    assert "does not hold" not in Codex().rights(spec(), {"config": 'model_verbosity = "low"'}).sandbox
