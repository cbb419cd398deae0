"""Where Codex's requests go, and what of the user's configuration is taken over into a run that does not read it."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from watchkeeper.domain.model import TaskSpec
from watchkeeper.errors import BadTask
from watchkeeper.harnesses.codex import Codex
from watchkeeper.harnesses.codex_route import codex_route
from watchkeeper.ports.harness import LaunchRequest, Program, Route, routes

SPEC = TaskSpec(prompt="Do it", title="", harness="codex", cwd="/", model=None)
VENDOR = "api.openai.com or chatgpt.com"
MINE = """
model = "qwen3"
model_context_window = 32000
model_reasoning_effort = "high"
model_provider = "mine"

[model_providers.mine]
name = "My gateway"
base_url = "http://10.0.0.7:8080/v1"
env_key = "MY_KEY"
wire_api = "responses"
query_params = { api-version = "2025-04-01" }
env_http_headers = { "x-team" = "TEAM" }
request_max_retries = 2
supports_websockets = false

[mcp_servers.other]
command = "never"
"""


class Home:
    """A user's configuration home, and an empty directory for the machine's configuration."""

    def __init__(self, root: Path) -> None:
        self.codex, self.system = root / "codex", root / "etc"
        for each in (self.codex, self.system):
            each.mkdir()

    def write(self, text: str) -> None:
        """Write config.toml."""
        _ = (self.codex / "config.toml").write_text(text, encoding="utf-8")

    def route(
        self,
        environment: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        isolation: str = "project",
        model: str | None = None,
    ) -> Route:
        """The route of a task here."""
        given = {
            "CODEX_HOME": str(self.codex),
            **({"MY_KEY": "k", "TEAM": "t"} if environment is None else environment),
        }
        return codex_route(replace(SPEC, model=model), given, options or {}, isolation, self.system)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Homes without any configuration."""
    return Home(tmp_path)


def given(route: Route) -> dict[str, object]:
    """What the arguments of a route set, read as the program reads them."""
    assert route.arguments[::2] == ("-c",) * (len(route.arguments) // 2)
    settings = [tomllib.loads(line) for line in route.arguments[1::2]]
    return {name: value for each in settings for name, value in each.items()}


def test_without_a_configuration_requests_go_to_the_vendor(home: Home) -> None:
    """A key decides which of its hosts it is."""
    assert home.route() == Route(host=VENDOR, source="the default")
    assert home.route({"CODEX_API_KEY": "k"}).host == "api.openai.com"


def test_the_home_is_that_of_the_environment(tmp_path: Path) -> None:
    """HOME where CODEX_HOME is not set; an account's home is another one."""
    (tmp_path / ".codex").mkdir()
    _ = (tmp_path / ".codex" / "config.toml").write_text('openai_base_url = "https://gw.example.org/v1"\n')
    assert codex_route(SPEC, {"HOME": str(tmp_path)}, {}, "project", tmp_path / "etc").host == "gw.example.org"
    away = {"HOME": str(tmp_path), "CODEX_HOME": str(tmp_path / "account")}
    assert codex_route(SPEC, away, {}, "project", tmp_path / "etc").host == VENDOR


@pytest.mark.parametrize("isolation", ["project", "strict"])
def test_a_provider_is_taken_over_with_its_table_and_model(home: Home, isolation: str) -> None:
    """And nothing else of the configuration is."""
    home.write(MINE)
    route = home.route(isolation=isolation)
    assert (route.host, route.source) == ("10.0.0.7:8080", "your Codex configuration (model_provider 'mine')")
    table = tomllib.loads(MINE)["model_providers"]["mine"]
    assert given(route) == {
        "model_provider": "mine",
        "model_providers": {"mine": table},
        "model": "qwen3",
        "model_context_window": 32000,
    }
    assert (route.environment, route.needs) == ((), ())


def test_the_model_of_the_task_wins(home: Home) -> None:
    """Whether the task names it, or the option does."""
    home.write(MINE)
    assert "model" not in given(home.route(model="gpt-5"))
    assert "model" not in given(home.route(options={"config": 'model = "other"'}))


def test_without_a_provider_nothing_is_taken_over(home: Home) -> None:
    """The user's model is for the user's own sessions then."""
    home.write('model = "gpt-5"\napproval_policy = "never"\n')
    assert home.route() == Route(host=VENDOR, source="the default")


def test_another_address_of_the_vendors_provider_is_taken_over(home: Home) -> None:
    """With the model, because the address may be a gateway with models of its own."""
    home.write('openai_base_url = "https://gw.example.org:8443/v1"\nmodel = "m"\n')
    route = home.route()
    assert (route.host, route.source) == ("gw.example.org:8443", "your Codex configuration (openai_base_url)")
    assert given(route) == {"openai_base_url": "https://gw.example.org:8443/v1", "model": "m"}


def test_a_profile_wins_over_what_stands_beside_it(home: Home) -> None:
    """Its provider, and its model."""
    home.write(
        'profile = "local"\nmodel = "a"\n[profiles.local]\nmodel = "b"\nmodel_provider = "mine"\n'
        '[model_providers.mine]\nname = "M"\nbase_url = "http://localhost:9/v1"\n'
    )
    route = home.route()
    assert route.host == "localhost:9"
    assert (given(route)["model_provider"], given(route)["model"]) == ("mine", "b")


def test_what_must_not_be_sent_is_taken_over(home: Home) -> None:
    """Statistics that the user has switched off stay off, and another address of the subscription's service stays."""
    home.write('chatgpt_base_url = "https://gw.example.org/api/"\n[analytics]\nenabled = false\n')
    assert home.route().arguments == (
        "-c", "analytics.enabled=false", "-c", 'chatgpt_base_url="https://gw.example.org/api/"',
    )  # fmt: skip


@pytest.mark.parametrize(
    ("setting", "detail"),
    [
        ('http_headers = { Authorization = "hidden" }', "http_headers"),
        ('experimental_bearer_token = "hidden"', "experimental_bearer_token"),
        ('auth = { command = "hidden", args = [] }', "auth"),
        ('aws = { profile = "p", credential_export = "hidden" }', "aws"),
        ('something_new = "hidden"', "something_new"),
        ('env_key = "sk-hidden"', "secret"),
        ('env_http_headers = { x-key = "hidden-value" }', "secret"),
        ('query_params = { api-key = "hidden9Qw7Lm2Pv5Rt8Yb1" }', "secret"),
        ('query_params = [ "hidden" ]', "query_params"),
    ],
)
def test_what_may_hold_a_secret_is_refused(home: Home, setting: str, detail: str) -> None:
    """Command lines can be read by everybody on the machine. The refusal names the setting and never its value."""
    home.write(
        f'model_provider = "mine"\n[model_providers.mine]\nname = "M"\nbase_url = "http://localhost/v1"\n{setting}\n'
    )
    with pytest.raises(BadTask, match=detail) as refused:
        _ = home.route()
    assert "--isolation user" in refused.value.hint
    assert "hidden" not in f"{refused.value}{refused.value.hint}"
    assert home.route(isolation="user").host == "localhost"


@pytest.mark.parametrize(
    "address", ["https://me:hidden@gw.example.org/v1", "https://gw.example.org/v1?api_key=hidden", "http://[hidden/v1"]
)
@pytest.mark.parametrize(
    "text",
    [
        'model_provider = "mine"\n[model_providers.mine]\nname = "M"\nbase_url = "{}"\n',
        'openai_base_url = "{}"\n',
        'chatgpt_base_url = "{}"\n',
    ],
)
def test_an_address_with_a_secret_is_refused(home: Home, address: str, text: str) -> None:
    """Wherever it stands; so is one that cannot be taken apart."""
    home.write(text.format(address))
    with pytest.raises(BadTask) as refused:
        _ = home.route()
    assert "hidden" not in f"{refused.value}{refused.value.hint}"


def test_a_key_that_is_not_passed_is_refused(home: Home) -> None:
    """By the name of its variable. A header's variable is needed only where the caller has it."""
    home.write(MINE)
    with pytest.raises(BadTask, match="MY_KEY") as refused:
        _ = home.route({"TEAM": "t"})
    assert "--env MY_KEY" in refused.value.hint
    assert home.route({"MY_KEY": "k"}).needs == ("TEAM",)
    assert home.route({}, isolation="user").needs == ("MY_KEY", "TEAM")


@pytest.mark.parametrize("text", ['model_provider = "mine\n', "\xff", "x = [1,"])
def test_a_broken_configuration_sends_nothing_elsewhere(home: Home, text: str) -> None:
    """The program itself would refuse it. Where it reads the file by itself, it says so itself."""
    _ = (home.codex / "config.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(BadTask, match=str(home.codex / "config.toml")) as refused:
        _ = home.route()
    assert "--isolation user" in refused.value.hint
    assert home.route(isolation="user").host == ""


@pytest.mark.parametrize("kind", ["directory", "pipe", "large", "deep"])
def test_a_configuration_that_is_no_file_of_a_sensible_size_is_refused(home: Home, kind: str) -> None:
    """A pipe is not waited for, and nothing is read without a bound."""
    path = home.codex / "config.toml"
    match kind:
        case "directory":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "large":
            _ = path.write_bytes(b"#" * (4 * 1024 * 1024 + 1))
        case _:
            _ = path.write_text(f"x = {'[' * 100_000}")
    with pytest.raises(BadTask, match=r"config\.toml"):
        _ = home.route()


def test_an_empty_device_is_no_configuration(home: Home) -> None:
    """A link to /dev/null switches a configuration off."""
    (home.codex / "config.toml").symlink_to("/dev/null")
    assert home.route().host == VENDOR


@pytest.mark.parametrize(
    ("option", "host", "source"),
    [
        ('model_provider = "two"\nmodel_providers.two.base_url = "http://two:2/v1"', "two:2", "(model_provider 'two')"),
        ('openai_base_url = "http://three/v1"', "three", "(openai_base_url)"),
        ('model_provider = "ollama"', "localhost:11434", "(model_provider 'ollama')"),
        ("model_provider = ollama", "localhost:11434", "(model_provider 'ollama')"),
    ],
)
def test_the_option_wins_over_the_configuration(home: Home, option: str, host: str, source: str) -> None:
    """Then nothing is taken over, and nothing of the configuration is in the way."""
    home.write(MINE.replace("wire_api", 'experimental_bearer_token = "t"\nwire_api'))
    route = home.route({}, {"config": option})
    assert (route.host, route.source, route.arguments) == (host, f"the option config {source}", ())


def test_an_option_may_change_a_provider_that_is_taken_over(home: Home) -> None:
    """The table is the user's, and what the option says comes after it."""
    home.write(MINE)
    options = {"config": "model_providers.mine.request_max_retries = 0"}
    route = home.route(options=options)
    assert route.host == "10.0.0.7:8080"
    program = Program(path="/bin/codex", version=None)
    request = LaunchRequest(spec=SPEC, program=program, environment={}, directory="/e", options=options, route=route)
    argv = Codex().plan(request).argv
    assert argv[-3:] == ("-c", options["config"], "-")
    assert argv[-3 - len(route.arguments) : -3] == route.arguments
    named = home.route(options={"config": 'model_provider = "mine"'})
    assert given(named)["model_providers"] == given(route)["model_providers"]


def test_with_isolation_user_the_program_reads_it_itself(home: Home) -> None:
    """Only the host is given."""
    home.write(MINE)
    route = home.route(isolation="user")
    assert (route.host, route.arguments, route.environment) == ("10.0.0.7:8080", (), ())


def test_the_machines_configuration_counts_too(home: Home) -> None:
    """The program reads it under every isolation: one file lies below the user's, one above everything."""
    table = '[model_providers.{0}]\nname = "x"\nbase_url = "http://{0}/v1"\n'
    _ = (home.system / "config.toml").write_text('model_provider = "low"\n' + table.format("low"))
    below = home.route()
    assert (below.host, below.source) == ("low", f"{home.system / 'config.toml'} (model_provider 'low')")
    home.write(MINE)
    assert home.route().host == "10.0.0.7:8080"
    _ = (home.system / "managed_config.toml").write_text('model_provider = "high"\n' + table.format("high"))
    above = home.route(options={"config": 'model_provider = "ollama"'})
    assert (above.host, above.source) == ("high", f"{home.system / 'managed_config.toml'} (model_provider 'high')")


@pytest.mark.parametrize(
    ("text", "environment", "host"),
    [
        ('model_provider = "amazon-bedrock"', {"AWS_REGION": "us-west-2"}, "Bedrock in us-west-2"),
        ('model_provider = "amazon-bedrock"', {"AWS_DEFAULT_REGION": "eu-west-1"}, "Bedrock in eu-west-1"),
        ('model_provider = "amazon-bedrock"', {}, "Bedrock"),
        (
            'model_provider = "amazon-bedrock"\n[model_providers.amazon-bedrock.aws]\nregion = "eu-north-1"\n',
            {"AWS_REGION": "us-west-2"},
            "Bedrock in eu-north-1",
        ),
        ('model_provider = "ollama"', {"CODEX_OSS_PORT": "99"}, "localhost:99"),
        ('model_provider = "lmstudio"', {}, "localhost:1234"),
        ('model_provider = "ollama"', {"CODEX_OSS_BASE_URL": "http://box:7/v1"}, "box:7"),
        ('model_provider = "p"\n[model_providers.p]\nname = "no address"\n', {}, "api.openai.com"),
        ('model_provider = "brand-new"', {}, ""),
    ],
)
def test_providers_that_the_program_brings(home: Home, text: str, environment: dict[str, str], host: str) -> None:
    """They are named without an address; one that is not known is passed on, and its host is not known."""
    home.write(text)
    route = home.route(environment)
    assert route.host == host
    assert str(given(route)["model_provider"]) in text


def test_bedrock_needs_what_signs_in_there(home: Home) -> None:
    """Whatever of it the caller has."""
    home.write('model_provider = "amazon-bedrock"')
    assert {"AWS_PROFILE", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"} <= set(home.route({}).needs)
    assert "AWS_PROFILE" not in home.route({"AWS_PROFILE": "p"}).needs


def test_the_harness_says_it(home: Home) -> None:
    """By the isolation that is in force."""
    home.write(MINE)
    codex = Codex()
    assert routes(codex) is codex
    environment = {"CODEX_HOME": str(home.codex), "MY_KEY": "k"}
    assert codex.route(SPEC, environment, {}).arguments
    assert codex.route(SPEC, environment, {"isolation": "user"}).arguments == ()
    assert codex.route(replace(SPEC, isolation="strict"), environment, {"isolation": "user"}).arguments
