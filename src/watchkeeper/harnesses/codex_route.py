"""Where Codex sends its requests, and how a provider of the user's is taken over into a run that does not read the user's configuration.

What counts, each winning over those before it:

    /etc/codex/config.toml            read by the program under every isolation
    $CODEX_HOME/config.toml           read by the program with isolation `user` only; otherwise the parts that say where requests go are taken over
    the option `config`               on the command line
    /etc/codex/managed_config.toml    read by the program under every isolation

A project's own configuration never names a provider: the program passes such settings over and says so.

What is taken over stands on the command line, so nothing that may hold a secret is; then the hand-over is refused with what to do. All of this was tried
with the real program, see `docs/harnesses/codex.md`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from watchkeeper.domain.model import TaskSpec
from watchkeeper.domain.route import OPENAI, OPENAI_BY_SIGN_IN, host_of
from watchkeeper.errors import BadTask
from watchkeeper.harnesses import codex_config
from watchkeeper.harnesses.configuration import Table, Unreadable, merged, read_toml, table_at, text_at
from watchkeeper.ports.harness import Route
from watchkeeper.redaction.variables import url_holds_secret

SYSTEM = Path("/etc/codex")

_VARIABLE = re.compile(r"[A-Za-z_]\w*")

_TEXTS = frozenset({"name", "base_url", "env_key", "env_key_instructions", "wire_api"})
_TABLES = frozenset({"query_params", "env_http_headers"})
_BEDROCK = frozenset({"amazon-bedrock", "amazon-bedrock-runtime"})
_LOCAL = {"ollama": "11434", "lmstudio": "1234"}
"""Providers that the program brings for servers on this machine, with their ports."""
_MODEL = ("model", "model_context_window", "model_auto_compact_token_limit", "model_supports_reasoning_summaries")
"""The model of a provider, and what the program cannot know of a model that it was not made for."""
_AWS = (
    "AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION",
    "AWS_DEFAULT_REGION", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE",
)  # fmt: skip
_ITSELF = "Let Codex read your configuration itself (`--isolation user`), or describe the provider in the option `config` of [harness.codex]."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """Settings, and what people call the place that they come from."""

    settings: Table
    name: str


def codex_route(
    spec: TaskSpec, environment: Mapping[str, str], options: Mapping[str, str], isolation: str, system: Path = SYSTEM
) -> Route:
    """Where requests go, and what a run adds so that they go there. Reads the configuration files, bounded in size.

    Raises:
        BadTask: the user's configuration cannot be read, or cannot be taken over.
    """
    home = Path(spec.cwd) / (environment.get("CODEX_HOME") or f"{environment.get('HOME', '')}/.codex")
    try:
        below = _file(system / "config.toml")
        above = _file(system / "managed_config.toml")
        user = _Layer(settings=_with_profile(read_toml(home / "config.toml")), name="your Codex configuration")
    except Unreadable as problem:
        if isolation == "user":
            return Route(source=str(problem).rstrip("."))
        raise BadTask(
            f"{problem} It may say where requests go, so nothing is sent anywhere else.",
            hint="Fix the file, or let Codex read it itself: --isolation user",
        ) from problem
    option = _Layer(settings=codex_config.parsed(codex_config.lines(options)), name="the option config")
    if isolation == "user":
        return _seen([below, user, option, above], environment, ())
    taken = _taken(user.settings, option.settings, environment, spec)
    arguments = [word for name, value in taken.items() for word in ("-c", f"{name}={codex_config.toml(value)}")]
    return _seen([below, _Layer(settings=taken, name=user.name), option, above], environment, tuple(arguments))


def _file(path: Path) -> _Layer:
    return _Layer(settings=read_toml(path), name=str(path))


def _with_profile(settings: Table) -> Table:
    """The settings with those of their profile, which older versions of the program heed."""
    profile = text_at(settings, "profile")
    return merged(settings, table_at(settings, "profiles", profile)) if profile else settings


def _taken(user: Table, option: Table, environment: Mapping[str, str], spec: TaskSpec) -> Table:
    """The part of the user's settings that says where requests go, as far as the option `config` does not say it already."""
    taken: dict[str, object] = {}
    if table_at(user, "analytics").get("enabled") is False:
        taken["analytics.enabled"] = False
    if address := text_at(user, "chatgpt_base_url"):
        taken["chatgpt_base_url"] = _clear("chatgpt_base_url", address)
    route = _route_settings(user, option, environment)
    if route and spec.model is None and "model" not in option and text_at(user, "model"):
        route |= {key: user[key] for key in _MODEL if isinstance(user.get(key), str | int | bool)}
    return {**taken, **route}


def _route_settings(user: Table, option: Table, environment: Mapping[str, str]) -> dict[str, object]:
    named = option.get("model_provider", "openai" if "openai_base_url" in option else user.get("model_provider"))
    if named is not None and not isinstance(named, str):
        raise BadTask("The model_provider of your Codex configuration is not a text.", hint="Fix the file.")
    if named in {None, "openai"}:
        address = "" if "openai_base_url" in option else text_at(user, "openai_base_url")
        return {"openai_base_url": _clear("openai_base_url", address)} if address else {}
    name = str(named)
    settings: dict[str, object] = {} if "model_provider" in option else {"model_provider": name}
    table = table_at(user, "model_providers", name)
    if table and "base_url" not in table_at(option, "model_providers", name):
        _check_provider(name, table, environment)
        settings["model_providers"] = {name: table}
    return settings


def _check_provider(name: str, table: Table, environment: Mapping[str, str]) -> None:
    """Refuse a provider that cannot stand on a command line. Raises BadTask."""
    for key, value in table.items():
        _check_setting(name, key, value)
    _ = _clear(f"model_providers.{name}.base_url", text_at(table, "base_url"))
    key, headers = text_at(table, "env_key"), table_at(table, "env_http_headers")
    rest = {each: value for each, value in table.items() if each not in {"env_key", "env_http_headers"}}
    named = [variable for variable in (key, *headers.values()) if variable]
    if codex_config.holds_secret(codex_config.toml(rest)) or not all(_VARIABLE.fullmatch(str(each)) for each in named):
        raise _cannot(name, "it holds what looks like a secret, which everybody on this machine could read")
    if key and key not in environment:
        raise BadTask(
            f"The provider '{name}' of your Codex configuration takes its key from the variable {key}, which is not passed to the agent.",
            hint=f"Pass it on: --env {key}. If it is not set, set it first: `export {key}=…`.",
        )


def _check_setting(provider: str, key: str, value: object) -> None:
    """Numbers and switches hold no secret; of everything else only what is known to hold none is taken. Raises BadTask."""
    texts = isinstance(value, dict) and all(isinstance(each, str) for each in cast("Table", value).values())
    if (
        isinstance(value, bool | int | float)
        or (key in _TEXTS and isinstance(value, str))
        or (key in _TABLES and texts)
    ):
        return
    if key == "aws" and texts and set(cast("Table", value)) <= {"profile", "region"}:
        return
    instead = {
        "http_headers": "; env_http_headers names variables instead",
        "experimental_bearer_token": "; env_key names a variable instead",
    }.get(key, "")
    raise _cannot(provider, f"its setting {key} may hold a secret or run a program{instead}")


def _clear(key: str, address: str) -> str:
    """An address without a secret. Raises BadTask."""
    if url_holds_secret(address):
        raise BadTask(
            f"The {key} of your Codex configuration cannot be taken over: it holds a secret, which everybody on this machine could read.",
            hint="Let Codex read your configuration itself: --isolation user",
        )
    return address


def _cannot(provider: str, why: str) -> BadTask:
    return BadTask(f"The provider '{provider}' of your Codex configuration cannot be taken over: {why}.", hint=_ITSELF)


def _seen(layers: list[_Layer], environment: Mapping[str, str], arguments: tuple[str, ...]) -> Route:
    """Where requests go under these layers, the last of which wins."""
    settings = merged(*(layer.settings for layer in layers))
    provider = text_at(settings, "model_provider") or "openai"
    table = table_at(settings, "model_providers", provider)
    address = text_at(settings, "openai_base_url")
    if provider != "openai":
        host, source = _host(provider, table, environment), _source(layers, "model_provider", f" '{provider}'")
    elif address:
        host, source = host_of(address), _source(layers, "openai_base_url")
    else:
        host, source = OPENAI if environment.get("CODEX_API_KEY") else OPENAI_BY_SIGN_IN, "the default"
    return Route(host=host, source=source, arguments=arguments, needs=_needs(provider, table, environment))


def _source(layers: list[_Layer], key: str, more: str = "") -> str:
    """The place whose setting wins."""
    name = next(layer.name for layer in reversed(layers) if layer.settings.get(key))
    return f"{name} ({key}{more})"


def _host(provider: str, table: Table, environment: Mapping[str, str]) -> str:
    if "base_url" in table:
        return host_of(text_at(table, "base_url"))
    if provider in _BEDROCK:
        region = text_at(table_at(table, "aws"), "region") or environment.get("AWS_REGION", "")
        region = region or environment.get("AWS_DEFAULT_REGION", "")
        return f"Bedrock in {region}" if region else "Bedrock"
    if port := _LOCAL.get(provider):
        own = environment.get("CODEX_OSS_BASE_URL", "")
        return host_of(own) if own else f"localhost:{environment.get('CODEX_OSS_PORT') or port}"
    return OPENAI if table else ""


def _needs(provider: str, table: Table, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Variables that the provider takes and that the agent lacks."""
    named = [text_at(table, "env_key"), *(str(each) for each in table_at(table, "env_http_headers").values())]
    if provider in _BEDROCK:
        named += _AWS
    return tuple(dict.fromkeys(name for name in named if name and name not in environment))
