"""`wk pin`: keep tasks on top."""

import click

from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.selection import pin_each
from watchkeeper.cli.types import TASK_ID


@click.command(cls=WkCommand, name="pin", short_help="Keep tasks on top, and out of pruning.")
@click.argument("task_ids", metavar="ID…", nargs=-1, required=True, type=TASK_ID)
@json_option
@debug_option
@click.pass_obj
def command(call: Call, task_ids: tuple[str, ...], as_json: bool) -> int:
    """Keep tasks on top of `wk ls`, also when they ended long ago. `wk prune` and `wk rm` leave them alone."""
    return pin_each(call, task_ids, pinned=True, as_json=as_json)
