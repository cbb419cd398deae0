"""Many tasks at once: from lines of text, or from JSON objects, one a line."""

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from watchkeeper.cli import task_options
from watchkeeper.cli.render import clean
from watchkeeper.cli.types import from_now
from watchkeeper.domain.duration import parse_duration
from watchkeeper.domain.task_record import EXPECTATIONS
from watchkeeper.errors import BadTask

if TYPE_CHECKING:
    from watchkeeper.app.hand_over import HandOverRequest, NumberedRequest
    from watchkeeper.cli.call import Call

_FLAGS = ("shared", "worktree", "include_changes", "scratch")
_CHOICES = {
    "rights": ("read", "edit", "full"),
    "on_lost": ("hold", "retry", "fail"),
    "leftovers": ("kill", "wait"),
    "expect": EXPECTATIONS,
}
_LINES = ("name",)
"""Keys of a line beside those of the request."""

_INTERNAL = frozenset({"not_before_typed"})
"""Fields of the request that follow from others."""

_ADDING = frozenset({"env", "after", "labels", "options", "checks", "setup", "teardown"})
"""Keys that add to what the options of the command hold for every line."""


@cache
def _kinds() -> Mapping[str, str]:
    """By key, how its value is written: the fields of the request, each with its type, and the name of a line."""
    from watchkeeper.app.hand_over import HandOverRequest

    kinds = {each.name: str(each.type).removesuffix(" | None") for each in fields(HandOverRequest)}
    return {key: kind for key, kind in kinds.items() if key not in _INTERNAL} | dict.fromkeys(_LINES, "str")


def from_lines(text: str, common: "HandOverRequest") -> "list[NumberedRequest]":
    """A task for each line that is not empty; `common` holds for each of them."""
    from watchkeeper.app.hand_over import NumberedRequest

    lines = enumerate(text.splitlines(), 1)
    return [
        NumberedRequest(number=at, request=replace(common, prompt=line.strip())) for at, line in lines if line.strip()
    ]


def from_json(call: "Call", text: str, common: "HandOverRequest") -> "list[NumberedRequest]":
    """A task for each line that is not empty, each a JSON object.

    Raises:
        BadTask: a line is not such an object; names the line and the reason.
    """
    lines = enumerate(text.split("\n"), 1)
    return [_parsed(call, number, line, common) for number, line in lines if line.strip()]


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object, each of whose keys is there once. Raises ValueError."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for at, (key, _) in enumerate(pairs) if key in dict(pairs[:at]))
        raise ValueError(f"'{clean(twice)[:40]}' is there twice")
    return found


def _parsed(call: "Call", number: int, line: str, common: "HandOverRequest") -> "NumberedRequest":
    from watchkeeper.app.hand_over import NumberedRequest

    def wrong(what: str, hint: str = "") -> BadTask:
        return BadTask(f"Line {number}: {what}", hint=hint or f"Known keys: {', '.join(sorted(_kinds()))}.")

    try:
        found = cast("object", json.loads(line, object_pairs_hook=_once))
    except (ValueError, RecursionError) as error:
        raise wrong(f"this is not JSON ({error}).", "Write one object on each line.") from error
    if not isinstance(found, dict):
        raise wrong("this is not a JSON object.", "Write one object on each line.")
    data = cast("dict[str, object]", found)
    unknown = sorted(set(data) - set(_kinds()))
    if unknown:
        raise wrong(f"there is no '{clean(unknown[0])[:40]}'.")
    given = {key: value for key, value in data.items() if value is not None}
    try:
        values = {key: _value(key, value) for key, value in given.items()}
    except ValueError as error:
        raise wrong(str(error)) from error
    name = cast("str | None", values.pop("name", None))
    if values.get("argv") and values.get("harness", "command") != "command":
        raise wrong("a command line (`argv`) is for the harness command.", "Leave `harness` or `argv` away.")
    if "cwd" in values:
        values["cwd"] = call.directory(cast("str", values["cwd"]))
    return NumberedRequest(
        number=number, request=replace(common, **task_options.starting(call, _merged(values, common))), name=name
    )


def _merged(values: Mapping[str, object], common: "HandOverRequest") -> dict[str, Any]:
    """Lists add to those of the options; everything else stands over them."""
    return {
        key: (*getattr(common, key), *cast("tuple[object, ...]", value)) if key in _ADDING else value
        for key, value in values.items()
    }


def _value(key: str, value: object) -> object:
    """A value as the options have it. Raises ValueError with what it must be."""
    match _kinds()[key]:
        case "tuple[str, ...]":
            return _texts(key, value)
        case "tuple[tuple[str, str], ...]":
            return _options(value)
        case "bool":
            if isinstance(value, bool):
                return value
            raise ValueError(f"'{key}' must be true or false.")
        case "float":
            seconds = parse_duration(str(value)) if not isinstance(value, bool) else None
            if seconds:
                return seconds
            raise ValueError(f'\'{key}\' must be a length of time such as 90, "15m" or "2h".')
        case "int":
            if isinstance(value, int) and not isinstance(value, bool):
                return value
            raise ValueError(f"'{key}' must be a whole number.")
        case _:
            return _text(key, value)


def _texts(key: str, value: object) -> tuple[str, ...]:
    """A list of texts; one alone stands for a list of one, but for a command line. Raises ValueError."""
    items = [value] if isinstance(value, str) and key != "argv" else value
    if isinstance(items, list) and all(isinstance(each, str) for each in cast("list[object]", items)):
        return tuple(cast("list[str]", items))
    raise ValueError(f"'{key}' must be a list of texts.")


def _options(value: object) -> tuple[tuple[str, str], ...]:
    """Options of the harness, from an object. Raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError("'options' must be an object such as {\"max_turns\": 20}.")  # noqa: TRY004 - said with its line
    plain = cast("dict[str, object]", value)
    if not all(isinstance(each, str | int | float) for each in plain.values()):
        raise ValueError("Each of the 'options' must be a text, a number, true or false.")
    return tuple((name, str(each).lower() if isinstance(each, bool) else str(each)) for name, each in plain.items())


def _text(key: str, value: object) -> str:
    from datetime import UTC, datetime

    from watchkeeper.domain.handover import LONGEST_KEY, is_key

    if not isinstance(value, str) or (key == "name" and not value):
        raise ValueError(f"'{key}' must be a text.")
    if key == "key" and not is_key(value):
        raise ValueError(f"'key' must be 1 to {LONGEST_KEY} characters that can be printed, without blanks around.")
    if key in _CHOICES and value not in _CHOICES[key]:
        raise ValueError(f"'{key}' must be one of {', '.join(_CHOICES[key])}.")
    if key == "not_before" and from_now(value, datetime(2000, 1, 1, tzinfo=UTC)) is None:
        raise ValueError("'not_before' must be a time to come such as +2h, 14:00 or 2026-01-31T14:00.")
    return value
