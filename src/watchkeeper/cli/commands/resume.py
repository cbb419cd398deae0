"""`wk resume`: let the agent of a task continue."""

import click

from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.types import TASK_ID


@click.command(cls=WkCommand, name="resume", short_help="Let the agent of a task continue its conversation.")
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option("--wait", is_flag=True, help="Return when the task has come to rest; the exit code says how.")
@json_option
@debug_option
@click.pass_obj
def command(call: Call, task_id: str, *, wait: bool, as_json: bool) -> int:
    """Let the agent of a task at rest continue its conversation, for example after an interruption.

    It is `wk send ID "Continue."`.
    """
    from watchkeeper.app.send import resume
    from watchkeeper.cli.commands.send import say

    _, found = call.find(task_id)
    return say(call, resume(call.writing, call.caller, found), wait=wait, as_json=as_json)
