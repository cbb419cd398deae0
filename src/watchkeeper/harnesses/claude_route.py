"""Where Claude Code sends its requests, and how a gateway of the user's settings is taken over into a run that does not read them.

The program takes its variables from these places, each winning over those before it:

    the environment
    .claude.json of the configuration home, `env`    read under every isolation
    settings.json of the configuration home, `env`   read with isolation `user` only; otherwise what says where requests go is taken over
    .claude/settings.json, settings.local.json       of the directory, read with isolation `user` only
    /etc/claude-code/managed-settings.json and .d    read under every isolation

So the file wins over what the shell exports, and it does here too. A secret is never taken out of a file: then the hand-over is refused with what to do.
All of this was tried with the real program, see `docs/harnesses/claude.md`.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from watchkeeper.domain.model import TaskSpec
from watchkeeper.domain.route import ANTHROPIC, DEFAULT_HOSTS, host_of
from watchkeeper.environment import STANDARD, is_one_of
from watchkeeper.errors import BadTask
from watchkeeper.harnesses.configuration import Table, Unreadable, read_json, table_at, text_at
from watchkeeper.ports.harness import Route
from watchkeeper.redaction.variables import is_plain, is_secret_name, url_holds_secret

SYSTEM = Path("/etc/claude-code")

_STATE_BYTES = 64 * 1024 * 1024
"""The program keeps much more than settings in .claude.json."""

_ON = frozenset({"1", "true", "yes", "on"})
_SERVICES = {
    "CLAUDE_CODE_USE_BEDROCK": "ANTHROPIC_BEDROCK_BASE_URL",
    "CLAUDE_CODE_USE_FOUNDRY": "ANTHROPIC_FOUNDRY_BASE_URL",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS": "ANTHROPIC_AWS_BASE_URL",
    "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD": "ANTHROPIC_GOOGLE_CLOUD_BASE_URL",
    "CLAUDE_CODE_USE_MANTLE": "ANTHROPIC_BEDROCK_MANTLE_BASE_URL",
    "CLAUDE_CODE_USE_VERTEX": "ANTHROPIC_VERTEX_BASE_URL",
}
"""Switches for other services, in the program's own order, each with the variable for an address of one's own."""
_AMAZON = frozenset({"CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_ANTHROPIC_AWS", "CLAUDE_CODE_USE_MANTLE"})
_GOOGLE = frozenset({"CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD"})
_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
_AMAZON_KEYS = ("AWS_BEARER_TOKEN_BEDROCK", "ANTHROPIC_AWS_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_PROFILE")

ENVIRONMENT = (
    "ANTHROPIC_*", "CLAUDE_*", "DISABLE_TELEMETRY", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK",
    "CLOUD_ML_REGION", "VERTEX_REGION_*", "API_TIMEOUT_MS",
)  # fmt: skip
"""Variables of the caller that the program gets: names, or beginnings followed by `*`."""

_ALWAYS = (
    "ANTHROPIC_*", "CLAUDE_CODE_USE_*", "CLAUDE_CODE_SKIP_*", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_CLIENT_*",
    "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "CLAUDE_CODE_SUBAGENT_MODEL",
    "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy",
    "no_proxy", "NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED", "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip
"""What says where requests go, through which proxy, for which model, and what else may be sent: names, or beginnings followed by `*`."""
_WITH_AMAZON = ("AWS_*",)
_WITH_GOOGLE = ("CLOUD_ML_REGION", "VERTEX_REGION_*", "GOOGLE_*", "GCLOUD_PROJECT")
_USER = "let Claude Code read your settings itself: --isolation user"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """Variables, and what people call the place that they come from."""

    variables: Mapping[str, str]
    name: str


def claude_route(spec: TaskSpec, environment: Mapping[str, str], isolation: str, system: Path = SYSTEM) -> Route:
    """Where requests go, and what a run adds so that they go there. Reads the configuration files, bounded in size.

    Raises:
        BadTask: the user's settings cannot be read, or cannot be taken over.
    """
    home, directory = environment.get("CLAUDE_CONFIG_DIR", ""), Path(spec.cwd)
    settings_file = directory / (home or f"{environment.get('HOME', '')}/.claude") / "settings.json"
    process = _Layer(variables=environment, name="your environment")
    own = _Layer(variables=_of_state(directory / (home or environment.get("HOME", ""))), name=".claude.json")
    try:
        settings = read_json(settings_file)
        managed = list(_managed(system))
        local = list(_local(directory)) if isolation == "user" else []
    except Unreadable as problem:
        if isolation == "user":
            return Route(source=str(problem).rstrip("."))
        raise BadTask(
            f"{problem} It may say where requests go, so nothing is sent anywhere else.",
            hint=f"Fix the file, or {_USER}",
        ) from problem
    user = _Layer(variables=_variables(settings), name="your Claude settings")
    if isolation == "user":
        return _seen([process, own, user, *local, *managed])
    full = _seen([process, own, user, *managed])
    taken = _taken(settings, environment, own.variables, _service([process, own, user, *managed]))
    if spec.model is None and full.host not in DEFAULT_HOSTS and text_at(settings, "model"):
        named = any("ANTHROPIC_MODEL" in layer.variables for layer in (process, own, user, *managed))
        taken |= {} if named else {"ANTHROPIC_MODEL": text_at(settings, "model")}
    return Route(host=full.host, source=full.source, environment=tuple(taken.items()), needs=full.needs)


def _variables(settings: Table) -> dict[str, str]:
    """What `env` of a settings file sets, as texts."""
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in table_at(settings, "env").items()
        if isinstance(value, str | int | float)
    }


def _of_state(home: Path) -> dict[str, str]:
    """The same of .claude.json. The program rewrites that file itself all the time, and works without it."""
    try:
        return _variables(read_json(home / ".claude.json", at_most=_STATE_BYTES))
    except Unreadable:
        return {}


def _managed(system: Path) -> Iterator[_Layer]:
    """Settings that an administrator keeps on this machine. Raises Unreadable."""
    try:
        more = sorted((system / "managed-settings.d").glob("*.json"))
    except OSError:
        more = []
    for path in (system / "managed-settings.json", *more):
        yield _Layer(variables=_variables(read_json(path)), name=str(path))


def _local(directory: Path) -> Iterator[_Layer]:
    """Settings of a project. Raises Unreadable."""
    for name in ("settings.json", "settings.local.json"):
        yield _Layer(variables=_variables(read_json(directory / ".claude" / name)), name="the project's settings")


def _taken(settings: Table, environment: Mapping[str, str], own: Mapping[str, str], service: str) -> dict[str, str]:
    """The variables of the user's settings that say where requests go.

    Raises:
        BadTask: one holds a secret, or a key comes from a program.
    """
    wanted = (*_ALWAYS, *(_WITH_AMAZON if service in _AMAZON else _WITH_GOOGLE if service in _GOOGLE else ()))
    taken: dict[str, str] = {}
    for name, value in _variables(settings).items():
        if not is_one_of(name, wanted) or (environment.get(name) == value and name not in own):
            continue
        if (is_secret_name(name) and not is_plain(value)) or url_holds_secret(value):
            if not environment.get(name):
                raise _secret(name)
            continue
        if own.get(name, value) != value:
            raise BadTask(
                f"Your Claude settings and .claude.json both set {name}, to different values.",
                hint=f"Remove it from one of them, or {_USER}",
            )
        taken[name] = value
    _check_helpers(settings, {**environment, **own, **taken}, service)
    return taken


def _check_helpers(settings: Table, variables: Mapping[str, str], service: str) -> None:
    """Refuse settings whose key comes from a program, which a run does not start. Raises BadTask."""
    helper, keys = ("awsCredentialExport", _AMAZON_KEYS) if service in _AMAZON else ("apiKeyHelper", _KEYS)
    if service not in {"", *_AMAZON} or not text_at(settings, helper) or any(variables.get(key) for key in keys):
        return
    raise BadTask(
        f"Your Claude settings take the key from a program ({helper}), which a run does not start.",
        hint=f"Export the key in your shell ({keys[0]}), or {_USER}",
    )


def _secret(name: str) -> BadTask:
    passed = "" if is_one_of(name, (*STANDARD, *ENVIRONMENT)) else f" and pass it (--env {name})"
    return BadTask(
        f"Your Claude settings set {name} to a secret, and a secret is not taken out of a file.",
        hint=f"Export it in your shell (`export {name}=…`){passed}, or {_USER}",
    )


def _service(layers: list[_Layer]) -> str:
    """The switch that is on, the first in the program's order; empty for Anthropic's own service."""
    variables = _effective(layers)
    return next((switch for switch in _SERVICES if variables.get(switch, "").lower() in _ON), "")


def _effective(layers: list[_Layer]) -> dict[str, str]:
    return {name: value for layer in layers for name, value in layer.variables.items()}


def _seen(layers: list[_Layer]) -> Route:
    """Where requests go under these layers, the last of which wins."""
    variables, service = _effective(layers), _service(layers)
    named = _SERVICES.get(service, "ANTHROPIC_BASE_URL")
    if not service and variables.get("ANTHROPIC_UNIX_SOCKET"):
        named = "ANTHROPIC_UNIX_SOCKET"
    address = variables.get(named, "")
    host = host_of(address) if named != "ANTHROPIC_UNIX_SOCKET" else address
    decides = named if address else service
    source = f"{_origin(layers, decides)} ({decides})" if decides else "the default"
    return Route(
        host=host if address else _usual_host(service, variables), source=source, needs=_needs(service, variables)
    )


def _origin(layers: list[_Layer], name: str) -> str:
    return next(layer.name for layer in reversed(layers) if name in layer.variables)


def _usual_host(service: str, variables: Mapping[str, str]) -> str:
    """Where a service is without an address of one's own."""
    region = variables.get("AWS_REGION") or variables.get("AWS_DEFAULT_REGION") or ""
    match service:
        case "CLAUDE_CODE_USE_BEDROCK" | "CLAUDE_CODE_USE_MANTLE":
            return f"Bedrock in {region}" if region else "Bedrock"
        case "CLAUDE_CODE_USE_ANTHROPIC_AWS":
            return f"Anthropic on AWS in {region}" if region else "Anthropic on AWS"
        case "CLAUDE_CODE_USE_FOUNDRY":
            resource = variables.get("ANTHROPIC_FOUNDRY_RESOURCE", "")
            return f"{resource}.services.ai.azure.com" if resource else "Foundry"
        case "CLAUDE_CODE_USE_VERTEX":
            return f"Vertex in {variables.get('CLOUD_ML_REGION') or 'us-east5'}"
        case "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD":
            return "Anthropic on Google Cloud"
        case _:
            return ANTHROPIC


def _needs(service: str, variables: Mapping[str, str]) -> tuple[str, ...]:
    """Variables with which the program finds its way into a cloud, and that are not there."""
    named: tuple[str, ...] = ()
    if service in _AMAZON:
        named = ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")
        if not any(variables.get(key) for key in _AMAZON_KEYS[:2]):
            named = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", *named)
    elif service in _GOOGLE:
        named = ("GOOGLE_APPLICATION_CREDENTIALS",)
    return tuple(name for name in named if name not in variables)
