"""Where Claude Code's requests go, and what of the user's settings is taken over into a run that does not read them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from watchkeeper.domain.model import TaskSpec
from watchkeeper.errors import BadTask
from watchkeeper.harnesses.claude import Claude
from watchkeeper.harnesses.claude_route import claude_route
from watchkeeper.ports.harness import LaunchRequest, Program, Route, routes

GATEWAY = "https://gateway.example.org:8443/v1"


class Home:
    """A user's configuration home, a project, and an empty directory for the machine's settings."""

    def __init__(self, root: Path) -> None:
        self.claude, self.project, self.system = root / "claude", root / "project", root / "etc"
        for each in (self.claude, self.project / ".claude", self.system / "managed-settings.d"):
            each.mkdir(parents=True)
        self.spec = TaskSpec(prompt="Do it", title="", harness="claude", cwd=str(self.project), model=None)

    def write(self, env: Mapping[str, object] | None = None, **settings: object) -> None:
        """Write settings.json."""
        _ = (self.claude / "settings.json").write_text(json.dumps({"env": env or {}, **settings}), encoding="utf-8")

    def route(
        self, environment: Mapping[str, str] | None = None, isolation: str = "project", model: str | None = None
    ) -> Route:
        """The route of a task here."""
        given = {"CLAUDE_CONFIG_DIR": str(self.claude), **(environment or {})}
        return claude_route(replace(self.spec, model=model), given, isolation, self.system)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Homes without any settings."""
    return Home(tmp_path)


def test_without_settings_requests_go_to_the_vendor(home: Home) -> None:
    """Whatever of its keys there is; a bare address of the vendor is not another host."""
    assert home.route({"ANTHROPIC_API_KEY": "k"}) == Route(host="api.anthropic.com", source="the default")
    assert home.route({"ANTHROPIC_BASE_URL": "https://api.anthropic.com"}).host == "api.anthropic.com"
    assert home.route({"ANTHROPIC_BASE_URL": ""}).source == "the default"


def test_the_callers_environment_decides(home: Home) -> None:
    """It is passed on anyhow, so nothing is added."""
    route = home.route({"ANTHROPIC_BASE_URL": GATEWAY})
    assert route == Route(host="gateway.example.org:8443", source="your environment (ANTHROPIC_BASE_URL)")


@pytest.mark.parametrize("isolation", ["project", "strict"])
def test_a_gateway_of_the_settings_is_taken_over(home: Home, isolation: str) -> None:
    """With the model and what belongs to the way there, and nothing else. The settings win over the environment, as in the program."""
    way = {
        "ANTHROPIC_BASE_URL": GATEWAY,
        "HTTPS_PROXY": "http://proxy:3128",
        "NODE_EXTRA_CA_CERTS": "/ca.pem",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    home.write({**way, "BASH_MAX_TIMEOUT_MS": "5", "MY_APP_URL": "http://app"}, model="opus")
    route = home.route({"ANTHROPIC_BASE_URL": "https://other.example.org"}, isolation)
    assert (route.host, route.source) == ("gateway.example.org:8443", "your Claude settings (ANTHROPIC_BASE_URL)")
    assert dict(route.environment) == {**way, "ANTHROPIC_MODEL": "opus"}
    assert route.arguments == ()
    request = LaunchRequest(
        spec=home.spec, program=Program(path="/c", version=None), directory="/e", route=route,
        environment={"ANTHROPIC_BASE_URL": "https://other.example.org", "PATH": "/bin"},
    )  # fmt: skip
    planned = Claude().plan(request).environment
    assert {**planned, **way, "ANTHROPIC_MODEL": "opus", "PATH": "/bin"} == planned


def test_the_home_is_that_of_the_environment(tmp_path: Path) -> None:
    """HOME where CLAUDE_CONFIG_DIR is not set; an account's home is another one."""
    (tmp_path / ".claude").mkdir()
    settings = {"env": {"ANTHROPIC_BASE_URL": GATEWAY}}
    _ = (tmp_path / ".claude" / "settings.json").write_text(json.dumps(settings), encoding="utf-8-sig")
    spec = TaskSpec(prompt="Do it", title="", harness="claude", cwd="/", model=None)
    assert claude_route(spec, {"HOME": str(tmp_path)}, "project", tmp_path).host == "gateway.example.org:8443"
    away = {"HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "account")}
    assert claude_route(spec, away, "project", tmp_path).host == "api.anthropic.com"


def test_the_model_of_the_task_wins(home: Home) -> None:
    """A variable wins too; without a gateway the user's model is for the user's own sessions."""
    home.write({"ANTHROPIC_BASE_URL": GATEWAY}, model="opus")
    assert "ANTHROPIC_MODEL" not in dict(home.route(model="sonnet").environment)
    assert "ANTHROPIC_MODEL" not in dict(home.route({"ANTHROPIC_MODEL": "haiku"}).environment)
    home.write(model="opus")
    assert home.route().environment == ()
    assert dict(home.route({"ANTHROPIC_BASE_URL": GATEWAY}).environment) == {"ANTHROPIC_MODEL": "opus"}


@pytest.mark.parametrize("value", [True, 1, "1", "true", "YES"])
def test_a_switch_counts_however_it_is_written(home: Home, value: object) -> None:
    """Settings hold numbers and words."""
    home.write({"CLAUDE_CODE_USE_BEDROCK": value, "AWS_REGION": "eu-north-1", "AWS_PROFILE": "work"})
    route = home.route()
    assert (route.host, route.source) == ("Bedrock in eu-north-1", "your Claude settings (CLAUDE_CODE_USE_BEDROCK)")
    assert dict(route.environment)["AWS_REGION"] == "eu-north-1"


@pytest.mark.parametrize("value", [False, 0, "0", "", "2"])
def test_a_switch_that_is_off_switches_the_environments_off(home: Home, value: object) -> None:
    """As the program takes it."""
    home.write({"CLAUDE_CODE_USE_BEDROCK": value})
    route = home.route({"CLAUDE_CODE_USE_BEDROCK": "1"})
    assert route.host == "api.anthropic.com"
    assert "CLAUDE_CODE_USE_BEDROCK" in dict(route.environment)


@pytest.mark.parametrize(
    ("environment", "host"),
    [
        ({"CLAUDE_CODE_USE_BEDROCK": "1"}, "Bedrock"),
        ({"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_DEFAULT_REGION": "eu-west-3"}, "Bedrock in eu-west-3"),
        ({"CLAUDE_CODE_USE_BEDROCK": "1", "ANTHROPIC_BEDROCK_BASE_URL": "http://b:1"}, "b:1"),
        ({"CLAUDE_CODE_USE_BEDROCK": "1", "ANTHROPIC_BASE_URL": GATEWAY}, "Bedrock"),
        ({"CLAUDE_CODE_USE_VERTEX": "1"}, "Vertex in us-east5"),
        ({"CLAUDE_CODE_USE_VERTEX": "1", "CLOUD_ML_REGION": "global"}, "Vertex in global"),
        ({"CLAUDE_CODE_USE_VERTEX": "1", "ANTHROPIC_VERTEX_BASE_URL": "http://v"}, "v"),
        ({"CLAUDE_CODE_USE_FOUNDRY": "1", "ANTHROPIC_FOUNDRY_RESOURCE": "mine"}, "mine.services.ai.azure.com"),
        ({"CLAUDE_CODE_USE_FOUNDRY": "1", "ANTHROPIC_FOUNDRY_BASE_URL": "http://f"}, "f"),
        ({"CLAUDE_CODE_USE_MANTLE": "1", "AWS_REGION": "r"}, "Bedrock in r"),
        ({"CLAUDE_CODE_USE_ANTHROPIC_AWS": "1", "AWS_REGION": "r"}, "Anthropic on AWS in r"),
        ({"CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD": "1"}, "Anthropic on Google Cloud"),
        ({"CLAUDE_CODE_USE_VERTEX": "1", "CLAUDE_CODE_USE_FOUNDRY": "1"}, "Foundry"),
        ({"CLAUDE_CODE_USE_FOUNDRY": "1", "CLAUDE_CODE_USE_BEDROCK": "1"}, "Bedrock"),
        ({"ANTHROPIC_UNIX_SOCKET": "/run/model.sock", "ANTHROPIC_BASE_URL": GATEWAY}, "/run/model.sock"),
    ],
)
def test_other_services(home: Home, environment: dict[str, str], host: str) -> None:
    """Each has a switch and an address of its own; the first switch in the program's order counts."""
    assert home.route(environment).host == host


@pytest.mark.parametrize(
    ("env", "settings", "detail", "exported"),
    [
        ({"ANTHROPIC_AUTH_TOKEN": "hidden-8Kf3Lq9Zt2"}, {}, "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"),
        ({"ANTHROPIC_API_KEY": "hidden-8Kf3Lq9Zt2"}, {}, "ANTHROPIC_API_KEY", "ANTHROPIC_API_KEY"),
        ({"ANTHROPIC_CUSTOM_HEADERS": "x-key: hidden-8Kf3"}, {}, "ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"),
        ({"ANTHROPIC_BASE_URL": "https://me:hidden@gw.example.org"}, {}, "ANTHROPIC_BASE_URL", "ANTHROPIC_BASE_URL"),
        ({"HTTPS_PROXY": "http://me:hidden@proxy:3128"}, {}, "HTTPS_PROXY", "HTTPS_PROXY"),
        ({}, {"apiKeyHelper": "print hidden"}, "apiKeyHelper", "ANTHROPIC_API_KEY"),
        (
            {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_SECRET_ACCESS_KEY": "hidden-8Kf3Lq9Zt2"}, {},
            "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY",
        ),
        ({"CLAUDE_CODE_USE_BEDROCK": "1"}, {"awsCredentialExport": "print hidden"}, "awsCredentialExport", "AWS_PROFILE"),
    ],
)  # fmt: skip
def test_a_secret_is_not_taken_out_of_a_file(
    home: Home, env: dict[str, object], settings: dict[str, object], detail: str, exported: str
) -> None:
    """The refusal names the setting, never its value; a user who exports the variable is not refused, nor with isolation `user`."""
    home.write(env, **settings)
    with pytest.raises(BadTask, match=detail) as refused:
        _ = home.route()
    assert "--isolation user" in refused.value.hint
    assert "hidden" not in f"{refused.value}{refused.value.hint}"
    assert home.route(isolation="user").environment == ()
    kept = home.route({exported: "http://127.0.0.1:1"}).environment
    assert "hidden" not in str(kept)


def test_what_is_no_secret_is_taken_over_under_any_name(home: Home) -> None:
    """Local servers want some key, and any will do; an empty one switches the environment's off."""
    home.write(
        {"ANTHROPIC_BASE_URL": "http://localhost:4000", "ANTHROPIC_AUTH_TOKEN": "dummy", "ANTHROPIC_API_KEY": ""}
    )
    taken = dict(home.route({"ANTHROPIC_API_KEY": "k"}).environment)
    assert (taken["ANTHROPIC_AUTH_TOKEN"], taken["ANTHROPIC_API_KEY"]) == ("dummy", "")


def test_what_another_service_would_need_is_left_alone(home: Home) -> None:
    """Keys of a cloud may be there for the agent's commands, which has nothing to do with this."""
    home.write({"AWS_SECRET_ACCESS_KEY": "hidden-8Kf3Lq9Zt2", "AWS_REGION": "r", "GOOGLE_CLOUD_PROJECT": "p"})
    assert home.route().environment == ()


def test_a_clouds_sign_in_must_be_passed(home: Home) -> None:
    """Whatever of it the caller has, as far as the program would look at it."""
    bedrock = {"CLAUDE_CODE_USE_BEDROCK": "1"}
    assert {"AWS_ACCESS_KEY_ID", "AWS_SHARED_CREDENTIALS_FILE"} <= set(home.route(bedrock).needs)
    assert "AWS_ACCESS_KEY_ID" not in home.route({**bedrock, "AWS_BEARER_TOKEN_BEDROCK": "t"}).needs
    assert home.route({"CLAUDE_CODE_USE_VERTEX": "1"}).needs == ("GOOGLE_APPLICATION_CREDENTIALS",)
    assert home.route().needs == ()


@pytest.mark.parametrize("text", ['{"env": ', "[]", '"text"', "\xff", "[" * 100_000])
def test_broken_settings_send_nothing_elsewhere(home: Home, text: str) -> None:
    """Where the program reads the file by itself, it decides itself, and where requests go is not known."""
    _ = (home.claude / "settings.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(BadTask, match=str(home.claude / "settings.json")) as refused:
        _ = home.route()
    assert "--isolation user" in refused.value.hint
    assert home.route(isolation="user").host == ""


def test_the_programs_own_file_counts_under_every_isolation(home: Home) -> None:
    """The program reads `env` there itself; it wins over the environment, and the settings over it."""
    state = home.claude / ".claude.json"
    _ = state.write_text(json.dumps({"env": {"ANTHROPIC_BASE_URL": "http://own"}}))
    route = home.route({"ANTHROPIC_BASE_URL": GATEWAY}, "strict")
    assert (route.host, route.source, route.environment) == ("own", ".claude.json (ANTHROPIC_BASE_URL)", ())
    home.write({"ANTHROPIC_BASE_URL": GATEWAY})
    with pytest.raises(BadTask, match=r"both set ANTHROPIC_BASE_URL"):
        _ = home.route()  # the variable that would be taken over is weaker than that file
    assert home.route(isolation="user").host == "gateway.example.org:8443"
    _ = state.write_text('{"env": ')
    assert home.route().host == "gateway.example.org:8443"


def test_a_projects_settings_count_with_isolation_user_only(home: Home) -> None:
    """And then it is reported that a repository says where the sign-in is sent."""
    _ = (home.project / ".claude" / "settings.json").write_text('{"env": {"ANTHROPIC_BASE_URL": "http://theirs"}}')
    assert home.route().host == "api.anthropic.com"
    home.write({"ANTHROPIC_BASE_URL": GATEWAY})
    route = home.route(isolation="user")
    assert (route.host, route.source) == ("theirs", "the project's settings (ANTHROPIC_BASE_URL)")


def test_an_administrators_settings_win_over_all(home: Home) -> None:
    """The program reads them under every isolation."""
    home.write({"ANTHROPIC_BASE_URL": GATEWAY})
    managed = home.system / "managed-settings.json"
    _ = managed.write_text('{"env": {"ANTHROPIC_BASE_URL": "http://managed"}}')
    assert (home.route().host, home.route().source) == ("managed", f"{managed} (ANTHROPIC_BASE_URL)")
    _ = (home.system / "managed-settings.d" / "10.json").write_text('{"env": {"ANTHROPIC_BASE_URL": "http://more"}}')
    assert home.route().host == "more"


def test_the_harness_says_it(home: Home) -> None:
    """By the isolation that is in force."""
    home.write({"ANTHROPIC_BASE_URL": GATEWAY})
    claude = Claude()
    assert routes(claude) is claude
    environment = {"CLAUDE_CONFIG_DIR": str(home.claude)}
    assert claude.route(home.spec, environment, {}).environment
    assert claude.route(home.spec, environment, {"isolation": "user"}).environment == ()
    assert claude.route(replace(home.spec, isolation="strict"), environment, {"isolation": "user"}).environment
