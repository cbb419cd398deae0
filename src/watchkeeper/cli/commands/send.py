"""`wk send`: say something more to the agent of a task."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import daemon, render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.types import TASK_ID
from watchkeeper.domain.model import RESTING_TASK_STATES
from watchkeeper.errors import Exit

if TYPE_CHECKING:
    from watchkeeper.app.send import SendResult


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

    A task at rest goes back into the queue, and its agent continues where it was: in the same directory, with the same
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

    _, found = call.find(task_id)
    text = prompts.read(call, words, file, may_be_absent=False)
    result = send(call.writing, call.caller, SendRequest(task_id=found, text=text, key=key))
    return say(call, result, wait=wait, as_json=as_json)


def say(call: "Call", sent: "SendResult", *, wait: bool, as_json: bool) -> int:
    """Tell of the message, see to a daemon, and wait for the task if that was asked. Returns the exit code."""
    from watchkeeper.app.views import plain

    message, task = sent.message, sent.task
    if sent.upgraded is not None:
        before, now = map(render.clean, sent.upgraded)
        call.terminal.note(f"{task.spec.harness} was {before} when the task was allowed, and is {now} now.")
    if as_json:
        call.terminal.line({**plain.message(message), "already": sent.already, "task": plain.task(task)})
    elif sent.already:
        call.terminal.say(f"{message.receipt}  was sent already; nothing was added.")
    elif sent.queued:
        call.terminal.say(f"{message.receipt}  waits for its turn; the conversation continues.")
    else:
        call.terminal.say(f"{message.receipt}  is kept; the next run of the task takes it.")
    call.terminal.stdout.flush()
    if task.state not in RESTING_TASK_STATES:
        daemon.ensure(call, f"{task.id} waits for its turn")
    return _stay(call, sent, as_json=as_json) if wait else Exit.OK


def _stay(call: "Call", sent: "SendResult", *, as_json: bool) -> int:
    from watchkeeper.app.views import plain
    from watchkeeper.cli.commands.wait import HANG, ended
    from watchkeeper.cli.task_rest import code_of
    from watchkeeper.cli.task_rest import plain as plain_still
    from watchkeeper.cli.task_watch import stay

    task, still = stay(call, call.writing.store, sent.task, None)
    if as_json:
        call.terminal.line({**plain.task(task), "standstill": plain_still(still)})
    else:
        call.terminal.prose(ended(task, still), hang=HANG)
    return code_of(task, still)
