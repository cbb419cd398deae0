"""`wk cancel`: take back what never ran."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.selection import CANCEL, act_on_each, pick, pick_options, picked

if TYPE_CHECKING:
    from watchkeeper.domain.model import Task


@click.command(cls=WkCommand, name="cancel", short_help="Take back tasks that never ran.")
@pick_options(CANCEL)
@json_option
@debug_option
@click.pass_obj
def command(call: Call, as_json: bool, **which: object) -> int:
    """Take back tasks that wait for their first run. What has run is ended with `wk stop`.

    Each of several is tried, and reported. A cancelled task is `stopped`; `wk retry` queues it again. Tasks that wait
    for it keep waiting, and `wk why` names it.
    """
    from watchkeeper.app.cancel import CancelRequest, cancel

    def act(task_id: str) -> "Task":
        return cancel(call.writing, call.caller, CancelRequest(task_id=task_id))

    return act_on_each(call, pick(call, CANCEL, picked(which)), act, "cancelled", as_json=as_json)[1]
