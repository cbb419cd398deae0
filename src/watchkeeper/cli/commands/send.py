"""`wk send`: say something more to the agent of a task."""

import click

from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.types import TASK_ID


@click.command(cls=WkCommand, name="send", short_help="Say something more to the agent of a task.")
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.argument("words", metavar="[TEXT]", nargs=-1)
@click.option("-f", "--file", metavar="FILE", type=click.Path(), help="Read the text from a file; - is standard input.")
@click.option("--key", metavar="KEY", help="Your own name for the message: sent again with it, it is not added twice.")
@click.option("--wait", is_flag=True, help="Return when the task has come to rest; the exit code says how.")
@json_option
@debug_option
@click.pass_obj
def command(
    call: Call,
    task_id: str,
    words: tuple[str, ...],
    file: str | None,
    *,
    key: str | None,
    wait: bool,
    as_json: bool,
) -> int:
    """Say something more to the agent of a task, in the same conversation.

    A task at rest goes back into the queue, and its agent goes on where it was: in the same directory, with the same
    account and rights. To a task that is queued or running, the message is kept and rides the next run. Nothing is
    lost: `wk thread ID` shows what became of each message.

    Without TEXT, and with -, the text is read from standard input. After `--` it may begin with a dash.

    \b
    Examples:
      wk send 7f3a "now add a test for it"
      wk send 7f3a --wait < review.txt
      wk send 7f3a -- "- also fix the docs"

    \b
    With --wait the exit code is that of `wk wait`: 0 done, 1 failed, 10 needs you, 11 stopped.
    """
    from watchkeeper.app.send import SendRequest, send
    from watchkeeper.cli import prompts
    from watchkeeper.cli.sent import say

    _, found = call.find(task_id)
    text = prompts.read(call, words, file, may_be_absent=False)
    result = send(call.writing, call.caller, SendRequest(task_id=found, text=text, key=key))
    return say(call, result, wait=wait, as_json=as_json)
