"""`wk kill`: end tasks at once."""

import click

from watchkeeper.cli.call import Call
from watchkeeper.cli.command import Command, debug_option, json_option
from watchkeeper.cli.ending import end
from watchkeeper.cli.types import TASK_ID
from watchkeeper.domain.model import StopHow


@click.command(cls=Command, name="kill", short_help="End tasks at once.")
@click.argument("task_ids", metavar="ID…", nargs=-1, required=True, type=TASK_ID)
@click.option("--no-wait", is_flag=True, help="Return when the wish is on record.")
@click.option("--dry-run", is_flag=True, help="Only say what would be ended.")
@json_option
@debug_option
@click.pass_obj
def command(
    call: Call,
    task_ids: tuple[str, ...],
    no_wait: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """End tasks at once: KILL to the agent and everything it started. `wk stop` asks first."""
    return end(call, task_ids, StopHow.KILL, grace_s=None, wait=not no_wait, dry_run=dry_run, as_json=as_json)
