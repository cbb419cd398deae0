"""What of the caller's environment an agent gets."""

import pytest

from watchkeeper.environment import capture, left_out
from watchkeeper.errors import BadTask
from watchkeeper.harnesses.registry import Registry

harness = Registry().get

CALLER = {
    "PATH": "/bin",
    "HOME": "/h",
    "LC_TIME": "C",
    "https_proxy": "http://p",
    "SECRET": "s",
    "AWS_SECRET_ACCESS_KEY": "s",
    "SSH_AUTH_SOCK": "/s",
    "ANTHROPIC_API_KEY": "a",
    "CLAUDE_CONFIG_DIR": "/c",
    "OPENAI_API_KEY": "o",
    "WATCHKEEPER_HOME": "/w",
    "WATCHKEEPER_RUN": "r",
}
STANDARD = {name: CALLER[name] for name in ("PATH", "HOME", "LC_TIME", "https_proxy")}


def test_the_allow_list() -> None:
    """Programs are found and proxies passed; secrets stay behind."""
    assert capture(CALLER, (), harness("command")) == STANDARD
    assert capture(CALLER, (), harness("demo")) == STANDARD


def test_each_harness_gets_its_own_credentials() -> None:
    """One program's key is not another's."""
    claude = capture(CALLER, (), harness("claude"))
    assert claude == {**STANDARD, "ANTHROPIC_API_KEY": "a", "CLAUDE_CONFIG_DIR": "/c"}
    assert capture(CALLER, (), harness("codex")) == {**STANDARD, "OPENAI_API_KEY": "o"}


def test_what_is_asked_for_by_name() -> None:
    """A name that was asked for is passed on."""
    assert capture(CALLER, ("SECRET", "SECRET"), harness("demo")) == {**STANDARD, "SECRET": "s"}


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("MISSING", "is not set"),
        ("WATCHKEEPER_HOME", "own and is not passed on"),
        ("A=B", "only the name"),
        ("", "cannot be the name"),
        ("LC_*", "cannot be the name"),
    ],
)
def test_what_is_refused(name: str, detail: str) -> None:
    """A name that is not set, ours, or none is refused with what to do."""
    with pytest.raises(BadTask, match=detail) as refusal:
        capture(CALLER, (name,), harness("demo"))
    assert refusal.value.hint


SHELL = {
    "PATH": "/bin",
    "GH_TOKEN": "t",
    "PYTHONPATH": "/p",
    "SSH_AUTH_SOCK": "/s",
    "SENTRY_DSN": "d",
    "BILLING_URL": "u",
    "AWS_PROFILE": "p",
    "ANTHROPIC_BASE_URL": "u",
    "EMPTY_TOKEN": "",
    "NODE_OPTIONS": "",
    "VSCODE_GIT_IPC_AUTH_TOKEN": "t",
    "ACTIONS_RUNTIME_TOKEN": "t",
    "GITHUB_API_URL": "u",
    "WATCHKEEPER_STORE_URL": "u",
    "EDITOR": "vi",
    "PS1": "$",
    "LS_COLORS": "x",
    "TERM": "xterm",
}


def test_what_looks_needed_and_is_not_passed_is_named() -> None:
    """The most telling first; nothing that a terminal, a build service, another agent program or we ourselves set."""
    assert left_out(SHELL, (), harness("command")) == (
        "GH_TOKEN", "AWS_PROFILE", "PYTHONPATH", "BILLING_URL", "SENTRY_DSN", "SSH_AUTH_SOCK",
    )  # fmt: skip


def test_what_is_passed_is_not_named() -> None:
    """By the allow-list of the harness, or because it was asked for; the demo agent needs nothing."""
    assert "AWS_PROFILE" not in left_out(SHELL, (), harness("claude"))
    assert left_out(SHELL, ("GH_TOKEN", "SSH_AUTH_SOCK", "PYTHONPATH"), harness("claude")) == (
        "BILLING_URL",
        "SENTRY_DSN",
    )
    assert left_out(SHELL, (), harness("demo")) == ()


@pytest.mark.parametrize(
    "name",
    [
        "GITHUB_TOKEN", "DATABASE_URL", "DOCKER_HOST", "KUBECONFIG", "AWS_SECRET_ACCESS_KEY", "GOOGLE_APPLICATION_CREDENTIALS",
        "NODE_PATH", "NODE_OPTIONS", "LD_LIBRARY_PATH", "PGHOST", "PGPASSWORD", "REDIS_URL", "NPM_TOKEN", "PIP_INDEX_URL",
        "UV_INDEX_URL", "CONDA_PREFIX", "RUSTFLAGS", "GOFLAGS", "CC", "CXX", "MAKEFLAGS", "MY_SERVICE_TOKEN",
    ],
)  # fmt: skip
def test_a_variable_of_builds_tests_and_tools_is_named(name: str) -> None:
    """Alone, and for every harness that does not pass it."""
    assert left_out({name: "x", "PATH": "/bin"}, (), harness("codex")) == (name,)
