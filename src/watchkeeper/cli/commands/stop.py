"""`wk stop`: end tasks, politely first."""

import click

from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.selection import STOP, pick_options, picked
from watchkeeper.cli.task_ends import end
from watchkeeper.cli.types import DURATION
from watchkeeper.domain.model import StopHow


@click.command(cls=WkCommand, name="stop", short_help="End tasks, politely first.")
@pick_options(STOP)
@click.option("--grace", "grace_s", metavar="DUR", type=DURATION, help="How long the agent has between TERM and KILL.")
@click.option("--no-wait", is_flag=True, help="Return when the wish is on record.")
@click.option("--dry-run", is_flag=True, help="Only say what would be ended.")
@json_option
@debug_option
@click.pass_obj
def command(call: Call, grace_s: float | None, no_wait: bool, dry_run: bool, as_json: bool, **which: object) -> int:
    """End tasks: the agent gets TERM, and KILL after the grace, with everything it started.

    The wish is on record before anything is signalled, and nothing starts the task again but `wk retry`. A task that
    has ended already stays as it ended.

    Where the database cannot be written, or no daemon acts, the agent is ended all the same, and that is said; the stop
    is on record as soon as it can be. Then --all, an id or its beginning say which; the other options need the database.
    """
    wait = not no_wait
    return end(call, picked(which), StopHow.STOP, grace_s=grace_s, wait=wait, dry_run=dry_run, as_json=as_json)
