"""Many tasks at once: from lines of text, or from JSON objects, one a line."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from watchkeeper.cli import asking
from watchkeeper.cli.call import Call
from watchkeeper.cli.render import clean
from watchkeeper.cli.types import from_now
from watchkeeper.domain.duration import parse_duration
from watchkeeper.errors import BadTask, KeyTaken, WatchkeeperError

if TYPE_CHECKING:
    from watchkeeper.app.add import AddRequest, Plan
    from watchkeeper.ports.harness import Program

MOST = 1000
"""How many tasks are handed over at once: they are added in one transaction, and others wait for it."""

_TEXTS = (
    "harness",
    "account",
    "isolation",
    "rights",
    "model",
    "cwd",
    "title",
    "on_lost",
    "leftovers",
    "not_before",
    "machine",
    "project",
    "expect",
    "key",
)
_NUMBERS = ("retries", "priority")
_LISTS = ("env", "after", "labels")
_ADDING = (*_LISTS, "options")
_KEYS = ("prompt", "argv", "name", "deadline", "silence", "shared", "options", *_TEXTS, *_NUMBERS, *_LISTS)
_CHOICES = {
    "isolation": ("strict", "project", "user"),
    "rights": ("read", "edit", "full"),
    "on_lost": ("hold", "retry", "fail"),
    "leftovers": ("kill", "wait"),
    "expect": ("work", "answer"),
}


class Line(NamedTuple):
    """One task of many, as it was written."""

    number: int
    """Its line in the file."""
    prompt: str
    argv: tuple[str, ...]
    wishes: asking.Wishes
    name: str | None = None
    """What later lines call it."""


def from_lines(text: str, wishes: asking.Wishes) -> list[Line]:
    """A task for each line that is not empty."""
    return [Line(number, line.strip(), (), wishes) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def from_json(text: str, wishes: asking.Wishes) -> list[Line]:
    """A task for each line that is not empty, each a JSON object.

    Raises:
        BadTask: a line is no such object; says which line, and why.
    """
    return [_parsed(number, line, wishes) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def requests(call: Call, lines: Sequence[Line]) -> "list[tuple[AddRequest, Plan]]":
    """Check them all, before any of them is kept.

    Raises:
        BadTask: there is none, or there are too many.
        WatchkeeperError: one cannot be accepted; says which line.
    """
    if not lines:
        raise BadTask("There is no task in the file.", hint="Write one on each line.")
    if len(lines) > MOST:
        raise BadTask(f"{len(lines)} tasks are too many at once.", hint=f"Hand over at most {MOST} at a time.")
    return list(_requests(call, lines))


def _requests(call: Call, lines: Sequence[Line]) -> "Iterator[tuple[AddRequest, Plan]]":
    from dataclasses import replace

    from watchkeeper.cli import handing

    ids: dict[str, str] = {}
    keys: dict[str, tuple[int, str]] = {}
    calls: dict[object, Call] = {}
    programs: dict[object, Program] = {}
    names = {line.name for line in lines}
    for line in lines:
        _refuse_forward(line, ids, names)
        try:
            known = tuple(each for each in line.wishes.after if each not in ids)
            own = Call(call.environ, call.cwd, call.terminal, debug=call.debug, umask=call.umask)
            wishes = asking.begin(own, line.wishes._replace(after=known))
            if line.argv:
                own.flags = {**own.flags, "run.harness": "command"}
            settings = (wishes.cwd, tuple(sorted((key, str(value)) for key, value in own.flags.items())))
            own = calls.setdefault(settings, own)  # whose settings and database are open already
            harness = own.reading.settings.run_harness or ""
            program = (settings, harness, dict(wishes.options).get("program"))  # a line may name a program of its own
            request, agreed = asking.request(own, wishes, line.prompt, line.argv, programs.get(program))
        except WatchkeeperError as error:
            error.args = (f"Line {line.number}: {error}",)
            raise
        if harness and not line.argv:  # each command line names its own
            programs[program] = agreed.program
        named = tuple(ids[each] for each in line.wishes.after if each in ids)
        task_id = call.writing.ids.task() if line.name is not None else None
        if line.name is not None and task_id is not None:
            if line.name in ids:
                raise BadTask(f"Line {line.number}: two lines are named '{clean(line.name)[:60]}'.", hint="Rename one.")
            ids[line.name] = task_id
        spec = replace(request.spec, after=(*request.spec.after, *named))
        # By the names that were typed: the ids that they stand for are new each time.
        asked = (
            handing.digest(wishes._replace(after=line.wishes.after)._asdict(), line.prompt, line.argv)
            if request.key
            else ""
        )
        _refuse_doubled(keys.setdefault(request.key, (line.number, asked)), line.number, request.key, asked)
        yield replace(request, spec=spec, id=task_id, key_digest=asked), agreed


def _refuse_doubled(first: tuple[int, str], number: int, key: str, asked: str) -> None:
    """A key stands for one content. Raises KeyTaken."""
    from watchkeeper.domain.handover import differing

    if key and first[1] != asked:
        names = " and ".join(differing(first[1], asked))
        raise KeyTaken(
            f"Line {number}: the key '{clean(key)}' is already used in line {first[0]}, with another {names}. Nothing was added.",
            hint="Choose another key for one of them.",
        )


def _refuse_forward(line: Line, before: Mapping[str, str], names: set[str | None]) -> None:
    """A name is never taken for the beginning of some other task's id. Raises BadTask."""
    for each in line.wishes.after:
        if each in names and each not in before:
            raise BadTask(
                f"Line {line.number}: no line before it is named '{clean(each)[:60]}'.",
                hint="A task waits for tasks of earlier lines: put that line first.",
            )


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object, each of whose keys is there once. Raises ValueError."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for at, (key, _) in enumerate(pairs) if key in dict(pairs[:at]))
        raise ValueError(f"'{clean(twice)[:40]}' is there twice")
    return found


def _parsed(number: int, line: str, wishes: asking.Wishes) -> Line:
    def wrong(what: str, hint: str = "") -> BadTask:
        return BadTask(f"Line {number}: {what}", hint=hint or f"Known keys: {', '.join(sorted(_KEYS))}.")

    try:
        found = cast("object", json.loads(line, object_pairs_hook=_once))
    except (ValueError, RecursionError) as error:
        raise wrong(f"this is no JSON ({error}).", "Write one object on each line.") from error
    if not isinstance(found, dict):
        raise wrong("this is no JSON object.", "Write one object on each line.")
    data = cast("dict[str, object]", found)
    unknown = sorted(set(data) - set(_KEYS))
    if unknown:
        raise wrong(f"there is no '{clean(unknown[0])[:40]}'.")
    given = {key: value for key, value in data.items() if value is not None}
    try:
        values = {key: _value(key, value) for key, value in given.items()}
    except ValueError as error:
        raise wrong(str(error)) from error
    prompt, argv, name = (values.pop(key, empty) for key, empty in (("prompt", ""), ("argv", ()), ("name", None)))
    if argv and values.get("harness", "command") != "command":
        raise wrong("a command line (`argv`) is for the harness command.", "Leave `harness` or `argv` away.")
    merged = wishes._replace(**_merged(values, wishes))
    return Line(number, cast("str", prompt), cast("tuple[str, ...]", argv), merged, cast("str | None", name))


def _merged(values: Mapping[str, object], wishes: asking.Wishes) -> dict[str, object]:
    """Lists add to those of the options; everything else stands over them."""
    return {
        key: (*cast("tuple[object, ...]", getattr(wishes, key)), *cast("tuple[object, ...]", value))
        if key in _ADDING
        else value
        for key, value in values.items()
    }


def _value(key: str, value: object) -> object:
    """A value as the options have it. Raises ValueError with what it must be."""
    if key in _LISTS or key == "argv":
        items = [value] if isinstance(value, str) and key != "argv" else value
        if isinstance(items, list) and all(isinstance(each, str) for each in cast("list[object]", items)):
            return tuple(cast("list[str]", items))
        raise ValueError(f"'{key}' must be a list of texts.")
    if key == "options":
        return _options(value)
    if key == "shared":
        if isinstance(value, bool):
            return value
        raise ValueError("'shared' must be true or false.")
    if key in {"deadline", "silence"}:
        seconds = parse_duration(str(value)) if not isinstance(value, bool) else None
        if seconds:
            return seconds
        raise ValueError(f'\'{key}\' must be a length of time such as 90, "15m" or "2h".')
    if key in _NUMBERS:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise ValueError(f"'{key}' must be a whole number.")
    return _text(key, value)


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
