"""`wk config`: the settings as they stand."""

import sys
from typing import TYPE_CHECKING, cast

import click

from watchkeeper.cli import render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import SETTINGS, WkCommand, debug_option, json_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watchkeeper.app.change_setting import ChangeSettingResult
    from watchkeeper.settings import SettingValue

_SHORT = {"store": "store.url"}
"""Names that stand for a longer one."""


@click.group(name="config", short_help="The settings, and where each came from.", context_settings=SETTINGS)
def command() -> None:
    """Look at the settings, or change your own."""


@command.command(cls=WkCommand, short_help="Print every setting, and where it came from.")
@json_option
@debug_option
@click.pass_obj
def show(call: Call, as_json: bool) -> None:
    """Print every setting as it holds here, and where it came from.

    A flag wins over the environment, that over the repository's file, that over your own file, that over the default.
    """
    from watchkeeper.app import harness_choice
    from watchkeeper.settings import displayed, load

    values = load(call.settings_from, call.environ).values
    harness_choice.check_options(call.reading)
    if as_json:
        call.terminal.document(
            [{"key": each.key, "value": displayed(each.key, each.value), "origin": each.origin} for each in values]
        )
        return
    rows = [(each.key, _shown(each), render.clean(each.origin)) for each in values]
    call.terminal.table(("SETTING", "VALUE", "FROM"), rows)


@command.command(cls=WkCommand, name="set", short_help="Write a setting into your own file.")
@click.argument("key")
@click.argument("value")
@click.option("--no-check", is_flag=True, help="Choose a database although it, or the present one, cannot be reached.")
@json_option
@debug_option
@click.pass_obj
def set_(call: Call, key: str, value: str, no_check: bool, as_json: bool) -> None:
    """Write a setting into your own file; comments and all else in it stay as they are.

    KEY is a name that `wk config show` lists; `store` is short for `store.url`. With - as VALUE it is read from
    standard input, where others cannot see it. No password is needed in a URL: ~/.pgpass and PGPASSWORD work.

    \b
    Examples:
      wk config set queue.limit 8
      wk config set harness.claude.permission_mode acceptEdits
      wk config set store postgresql://wk@db.example.org/wk
    """
    typed = sys.stdin.readline().strip() if value == "-" else value
    _change(call, key, typed, check=not no_check, as_json=as_json)


@command.command(cls=WkCommand, short_help="Take a setting out of your own file again.")
@click.argument("key")
@json_option
@debug_option
@click.pass_obj
def unset(call: Call, key: str, as_json: bool) -> None:
    """Take a setting out of your own file again, so that the default holds."""
    _change(call, key, None, check=True, as_json=as_json)


def _change(call: Call, typed_key: str, typed: str | None, *, check: bool, as_json: bool) -> None:
    """Change a setting and say so. `typed`: its value; None takes it out."""
    from watchkeeper.app.change_setting import ChangeSettingRequest, change
    from watchkeeper.settings import displayed

    key = _SHORT.get(typed_key, typed_key)
    directory = str(call.settings_from)
    request = ChangeSettingRequest(key=key, typed=typed, directory=directory, check=check)
    done = change(call.reading, call.caller, request)
    file, value, notes = str(done.file), displayed(key, typed), list(_notes(done))
    if not done.changed:
        notes = [f"{render.clean(key)} was not set in {render.clean(file)}: nothing was changed."]
    if as_json:
        call.terminal.document({"key": key, "value": value, "file": file, "notes": notes})
        return
    if done.changed:
        what = "is not set any more" if typed is None else f"is {render.clean(str(value))} now"
        call.terminal.prose(f"{key} {what}, in {render.clean(file)}.")
    for note in notes:
        if done.changed:
            call.terminal.note(note)
        else:
            call.terminal.prose(note)


def _notes(done: "ChangeSettingResult") -> "Iterator[str]":
    """What a person should know beside a change."""
    if done.left_tasks:
        word = "stays" if done.left_tasks == 1 else "stay"
        count = render.counted(done.left_tasks, "open task")
        yield f"{count} {word} in the present database; `wk store copy` takes them along."
    if done.is_filled is not None:
        empty = " and is empty; the first task makes what it needs"
        yield f"The database can be reached{'' if done.is_filled else empty}."
    if done.wins:
        yield f"What is set in the {done.wins} wins over it here."
    if done.daemon_keeps:
        yield "The daemon that runs keeps what it has: `wk daemon restart` takes this up."


def _duration(seconds: float) -> str:
    """In the largest unit that leaves nothing over, as settings are written."""
    for unit, letter in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds and seconds % unit == 0:
            return f"{seconds / unit:g}{letter}"
    return f"{seconds:g}s"


def _size(count: int) -> str:
    """In the largest unit that leaves nothing over, as settings are written."""
    for unit, letter in ((1024**3, "G"), (1024**2, "M"), (1024, "K")):
        if count and count % unit == 0:
            return f"{count // unit}{letter}"
    return str(count)


def _shown(value: "SettingValue") -> str:
    """A value as one would write it."""
    from watchkeeper.settings import KEYS, displayed

    key = KEYS.get(value.key)
    if value.value is None or value.value == ():
        return key.default_says if key is not None else "none"
    if key is not None and key.kind == "days" and value.value == key.default:
        return key.default_says
    if key is not None and "duration" in key.kind and isinstance(value.value, float):
        return _duration(value.value)
    if key is not None and key.kind == "size" and isinstance(value.value, int):
        return _size(value.value)
    shown = displayed(value.key, value.value)
    if isinstance(shown, tuple | list):
        return " ".join(render.clean(str(each)) for each in cast("list[object]", shown))
    return render.clean(str(shown))
