"""The reference of the command line, from the commands themselves: what `--help` prints, as one page."""

from collections.abc import Iterator

import click

from watchkeeper.cli.command import HELP_WIDTH
from watchkeeper.cli.main import wk

_HEAD = """# Commands

What `wk COMMAND --help` prints, of every command. Written by `scripts/write_cli_reference.py`; a test compares.
Exit codes are in [exit-codes.md](exit-codes.md).
"""


def reference() -> str:
    """The whole page."""
    pages = [f"## `{path}`\n\n```\n{text}\n```\n" for path, text in _helps(wk, "wk", None)]
    return "\n".join([_HEAD, *pages])


def _helps(command: click.Command, name: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    context = click.Context(
        command, info_name=name, parent=parent, terminal_width=HELP_WIDTH, help_option_names=["-h", "--help"]
    )
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            if found is not None:
                yield from _helps(found, each, context)
