"""`wk version`."""

import click

from watchkeeper import __version__
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option


@click.command(cls=WkCommand, name="version", short_help="Which version this is.")
@json_option
@debug_option
@click.pass_obj
def command(call: Call, as_json: bool) -> None:
    """Say which version this is."""
    if as_json:
        call.terminal.document({"version": __version__})
    else:
        call.terminal.say(f"watchkeeper {__version__}")
