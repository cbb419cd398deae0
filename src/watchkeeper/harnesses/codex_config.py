"""Settings of Codex on its command line: lines of `key = value`, which of them hold a secret, and values as TOML."""

import json
import re
import tomllib
from collections.abc import Mapping
from typing import cast

from watchkeeper.harnesses.configuration import Table, merged
from watchkeeper.redaction.known_tokens import looks_random, sightings
from watchkeeper.redaction.variables import is_secret_name

_SECRET = re.compile(r"bearer_token|(?<!env_)http_headers")
_GIVEN = re.compile(r"""([\w-]+)["']?\s*=\s*["']([^"']+)["']""")


def lines(options: Mapping[str, str]) -> list[str]:
    """The option `config`: one `key = value` a line."""
    return [line.strip() for line in options.get("config", "").splitlines() if line.strip()]


def parsed(settings: list[str]) -> Table:
    """What these lines set, as Codex reads them: the later line wins, and a value that is not TOML is a text."""
    result: Table = {}
    for line in settings:
        key, _, value = line.partition("=")
        try:
            found = cast("Table", tomllib.loads(line))
        except (ValueError, RecursionError):
            found = _nested(key.strip(), value.strip())
        result = merged(result, found)
    return result


def holds_secret(line: str) -> bool:
    """Whether a setting holds a secret and not just the name of a variable: it would stand on the command line."""
    given = [(name.replace("-", "_"), value) for name, value in cast("list[tuple[str, str]]", _GIVEN.findall(line))]
    named = any(is_secret_name(name) and not name.startswith("env_") and looks_random(value) for name, value in given)
    return named or _SECRET.search(line) is not None or bool(sightings(line))


def toml(value: object) -> str:
    """A value as TOML on one line.

    Raises:
        ValueError: a setting of a provider cannot have this value.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case list():
            return f"[{', '.join(toml(each) for each in cast('list[object]', value))}]"
        case Mapping():
            pairs = cast("Mapping[str, object]", value).items()
            return f"{{{', '.join(f'{_key(name)} = {toml(each)}' for name, each in pairs)}}}"
        case _:
            raise ValueError(type(value).__name__)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml(name)


def _nested(key: str, value: str) -> Table:
    names = [name.strip("\"' ") for name in key.split(".")]
    result: object = value
    for name in reversed(names):
        result = {name: result}
    return cast("Table", result)
