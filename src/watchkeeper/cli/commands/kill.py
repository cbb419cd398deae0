"""`wk kill`: end tasks at once."""

import click

from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.selection import KILL, pick_options, picked
from watchkeeper.cli.task_ends import end
from watchkeeper.domain.model import StopHow


@click.command(cls=WkCommand, name="kill", short_help="End tasks at once.")
@pick_options(KILL)
@click.option("--no-wait", is_flag=True, help="Return when the wish is on record.")
@click.option("--dry-run", is_flag=True, help="Only say what would be ended.")
@json_option
@debug_option
@click.pass_obj
def command(call: Call, no_wait: bool, dry_run: bool, as_json: bool, **which: object) -> int:
    """End tasks at once: KILL to the agent and everything it started. `wk stop` sends TERM first."""
    return end(call, picked(which), StopHow.KILL, grace_s=None, wait=not no_wait, dry_run=dry_run, as_json=as_json)
