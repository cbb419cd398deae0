"""What is said of a message that was sent, and staying with its task."""

from typing import TYPE_CHECKING

from watchkeeper.cli import daemon, render
from watchkeeper.domain.model import RESTING_TASK_STATES
from watchkeeper.errors import Exit

if TYPE_CHECKING:
    from watchkeeper.app.send import SendResult
    from watchkeeper.cli.call import Call


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
        call.terminal.say(f"{message.receipt}  waits for its turn; the conversation goes on.")
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
