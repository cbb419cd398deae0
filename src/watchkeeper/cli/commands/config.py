"""`wk config`: the settings as they stand."""

from typing import TYPE_CHECKING, cast

import click

from watchkeeper.cli import render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import SETTINGS, Command, debug_option, json_option

if TYPE_CHECKING:
    from watchkeeper.settings import Value


@click.group(name="config", short_help="The settings, and where each came from.", context_settings=SETTINGS)
def command() -> None:
    """Look at the settings."""


@command.command(cls=Command)
@json_option
@debug_option
@click.pass_obj
def show(call: Call, as_json: bool) -> None:
    """Print every setting as it holds here, and where it came from.

    A flag wins over the environment, that over the repository's file, that over your own file, that over the default.
    """
    from watchkeeper.settings import masked

    call.heeds_repository = True
    values = call.reading.settings.values
    if as_json:
        call.terminal.document(
            [{"key": each.key, "value": masked(each.value), "origin": each.origin} for each in values]
        )
        return
    rows = [(each.key, _shown(each), render.clean(each.origin)) for each in values]
    call.terminal.table(("SETTING", "VALUE", "FROM"), rows)


def _size(count: int) -> str:
    """In the largest unit that leaves nothing over, as settings are written."""
    for unit, letter in ((1024**3, "G"), (1024**2, "M"), (1024, "K")):
        if count and count % unit == 0:
            return f"{count // unit}{letter}"
    return str(count)


def _shown(value: "Value") -> str:
    """A value as one would write it."""
    from watchkeeper.settings import KEYS, masked

    key = KEYS.get(value.key)
    if value.value is None or value.value == ():
        return key.default_says if key is not None else "none"
    if key is not None and "duration" in key.kind and isinstance(value.value, float):
        return f"{value.value:g}s"
    if key is not None and key.kind == "size" and isinstance(value.value, int):
        return _size(value.value)
    if isinstance(value.value, tuple):
        return " ".join(str(each) for each in cast("tuple[object, ...]", value.value))
    return render.clean(str(masked(value.value)))
