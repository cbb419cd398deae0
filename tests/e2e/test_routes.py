"""Gateways and model servers of the user's configuration, with the real programs under the default isolation: requests arrive there and nowhere else."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.claude_code import KEY, NOBODY, ClaudeRig
from support.codex import MODEL, CodexRig
from support.tunnels import Tunnels
from support.waiting import wait_until

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import TaskState

pytestmark = [
    pytest.mark.claude,
    pytest.mark.codex,
    pytest.mark.timeout(1200),  # the first of these tests may have to fetch the program
]


@pytest.fixture
def tunnels() -> Iterator[Tunnels]:
    """A proxy through which everything would go that leaves the machine, and that lets nothing through."""
    with Tunnels() as running:
        yield running


def write(path: Path, text: str) -> None:
    """A configuration file of the user's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _ = path.write_text(text, encoding="utf-8")


def provider(rig: CodexRig, scenario: str) -> str:
    """Codex's configuration for a provider of one's own."""
    return f"""
model = "{MODEL}"
model_provider = "my gate.way"

[analytics]
enabled = false

[model_providers."my gate.way"]
name = "A \\"gateway\\""
base_url = "{rig.stub.url(scenario, rig.key)}/v1"
env_key = "OPENAI_API_KEY"
query_params = {{ api-version = "1" }}
stream_max_retries = 1
"""


def hand_over(rig: CodexRig | ClaudeRig, tunnels: Tunnels, service: dict[str, str], *options: str) -> str:
    """Hand a task over whose agent can leave the machine through the proxy only; returns its id."""
    rig.service = {**service, "HTTPS_PROXY": tunnels.url, "HTTP_PROXY": tunnels.url, "NO_PROXY": "127.0.0.1"}
    return rig.hand_over("--retries", "0", "--expect", "answer", *options)


@pytest.mark.parametrize("isolation", ["project", "strict", "user"])
def test_codex_asks_the_provider_of_the_users_configuration(
    codex_rig: CodexRig, tunnels: Tunnels, isolation: str
) -> None:
    """With its key and the configured model; nothing goes to the vendor, not even statistics, which the user has switched off.

    With `user` the program's plug-ins are on, and look for their list in other places.
    """
    rig = codex_rig
    write(rig.root / "home" / ".codex" / "config.toml", provider(rig, "text"))
    task_id = hand_over(rig, tunnels, {"OPENAI_API_KEY": "sk-test-local"}, "--isolation", isolation)
    assert rig.wait_resting(task_id).state is TaskState.DONE
    [request] = rig.requests("text")
    assert (request.credential, request.body["model"]) == ("authorization: Bearer sk-test-local", MODEL)
    assert "api.openai.com:443" not in tunnels.asked
    assert tunnels.asked == [] or isolation == "user"


def test_codex_asks_another_address_of_its_own_provider(codex_rig: CodexRig, tunnels: Tunnels) -> None:
    """`openai_base_url` is taken over too."""
    rig = codex_rig
    address = f'openai_base_url = "{rig.stub.url("text", rig.key)}/v1"\nmodel = "{MODEL}"\n'
    write(rig.root / "home" / ".codex" / "config.toml", address)
    task_id = hand_over(rig, tunnels, {"CODEX_API_KEY": "sk-test-local"})
    assert rig.wait_resting(task_id).state is TaskState.DONE
    assert [each.credential for each in rig.requests("text")] == ["authorization: Bearer sk-test-local"]
    assert [each for each in tunnels.asked if each.startswith("api.openai.com")] == []


def test_claude_asks_the_gateway_of_the_users_settings(rig: ClaudeRig, tunnels: Tunnels) -> None:
    """Which wins over the environment, as it does in the program itself; with the configured model."""
    settings = {"env": {"ANTHROPIC_BASE_URL": rig.stub.url("text", rig.key)}, "model": "claude-test-model"}
    write(rig.root / "home" / ".claude" / "settings.json", json.dumps(settings))
    elsewhere = {"ANTHROPIC_BASE_URL": rig.stub.url("bad_key", rig.key)}
    for number, isolation in enumerate(("project", "user"), 1):
        task_id = hand_over(rig, tunnels, {**KEY, **elsewhere}, "--isolation", isolation)
        assert rig.wait_resting(task_id).state is TaskState.DONE
        asked = [(each.credential, each.body["model"]) for each in rig.requests("text")]
        assert asked == [("x-api-key: sk-test-local", "claude-test-model")] * number
    assert rig.requests("bad_key") == []
    assert tunnels.asked == []


def test_claude_goes_to_another_cloud(rig: ClaudeRig, tunnels: Tunnels) -> None:
    """By the switch and the region of the settings; the caller's key of the vendor is not sent anywhere."""
    settings = {"env": {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": "eu-north-1"}}
    write(rig.root / "home" / ".claude" / "settings.json", json.dumps(settings))
    rig.settings = {"WATCHKEEPER_HARNESS_CLAUDE_MAX_RETRIES": "0"}
    task_id = hand_over(rig, tunnels, {**KEY, "AWS_BEARER_TOKEN_BEDROCK": "sk-test-bedrock"})
    _ = wait_until(lambda: rig.task(task_id).kind is FailureKind.NETWORK, within_s=60, what="it failed")
    assert tunnels.asked
    assert {each.partition(".")[2] for each in tunnels.asked} == {"eu-north-1.amazonaws.com:443"}


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ({"env": {"ANTHROPIC_AUTH_TOKEN": "sk-test-8Kf3Lq9Zt2Wm"}}, "export ANTHROPIC_AUTH_TOKEN"),
        ({"apiKeyHelper": "echo sk-test-8Kf3Lq9Zt2Wm"}, "--isolation user"),
    ],
)
def test_claudes_key_in_a_file_is_refused_and_works_as_the_refusal_says(
    rig: ClaudeRig, settings: dict[str, object], hint: str
) -> None:
    """The refusal's own command is the way: the program reads its settings itself."""
    write(rig.root / "home" / ".claude" / "settings.json", json.dumps(settings))
    rig.service = {"ANTHROPIC_BASE_URL": rig.stub.url("text", rig.key), **NOBODY}
    refused = rig.wk("run", "--harness", "claude", "Please do it.", check=False)
    assert refused.returncode == 5
    assert hint in refused.stderr.decode()
    assert "8Kf3" not in refused.stderr.decode()
    task_id = rig.give("text", "--expect", "answer", "--isolation", "user", sign_in=NOBODY)
    assert rig.wait_resting(task_id).state is TaskState.DONE
    [credential] = {each.credential for each in rig.requests("text")}
    assert credential.endswith("sk-test-8Kf3Lq9Zt2Wm")


def test_a_broken_configuration_of_codex_is_refused(codex_rig: CodexRig) -> None:
    """The program itself refuses it as well, so nothing that works is kept from working."""
    rig = codex_rig
    file = rig.root / "home" / ".codex" / "config.toml"
    write(file, 'model_provider = "mine\n')
    refused = rig.wk("run", "--harness", "codex", "Please do it.", check=False)
    assert refused.returncode == 5
    assert str(file) in refused.stderr.decode()
