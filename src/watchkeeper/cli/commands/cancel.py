"""`wk cancel`: take back what never ran."""

import click

from watchkeeper.cli.call import Call
from watchkeeper.cli.command import Command, debug_option, json_option
from watchkeeper.cli.picking import CANCEL, act_on_each, pick, pick_options, picked


@click.command(cls=Command, name="cancel", short_help="Take back tasks that never ran.")
@pick_options(CANCEL)
@json_option
@debug_option
@click.pass_obj
def command(call: Call, as_json: bool, **which: object) -> int:
    """Take back tasks that wait for their first run. What has run is ended with `wk stop`.

    Each of several is tried, and reported. A cancelled task is `stopped`; `wk retry` queues it again. Tasks that wait
    for it keep waiting, and `wk why` names it.
    """
    from watchkeeper.app.cancel import cancel

    parts, task_ids = call.writing, pick(call, CANCEL, picked(which))
    return act_on_each(
        call,
        task_ids,
        lambda task_id: cancel(parts.store, parts.clock, task_id, call.person),
        "cancelled",
        as_json=as_json,
    )[1]
