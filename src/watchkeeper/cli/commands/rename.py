"""`wk rename`: another title."""

import click

from watchkeeper.cli import render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.types import TASK_ID


@click.command(cls=WkCommand, name="rename", short_help="Give a task another title.")
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.argument("title", metavar="TITLE")
@json_option
@debug_option
@click.pass_obj
def command(call: Call, task_id: str, title: str, as_json: bool) -> None:
    """Give a task another title, whatever it is at. Its instruction stays as it was."""
    from watchkeeper.app.rename import RenameRequest, rename
    from watchkeeper.app.views import plain

    _, found = call.find(task_id)
    task = rename(call.writing, call.caller, RenameRequest(task_id=found, title=title))
    if as_json:
        call.terminal.document(plain.task(task))
    else:
        call.terminal.say(f"{task.id}  is called: {render.clean(task.spec.title)}")
