"""`wk thread`: the conversation with the agent of a task."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.types import TASK_ID

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watchkeeper.app.views.thread import Reply, Thread
    from watchkeeper.domain.message import Message


@click.command(cls=WkCommand, name="thread", short_help="The conversation with the agent of a task.")
@click.argument("task_id", metavar="ID", type=TASK_ID)
@json_option
@debug_option
@click.pass_obj
def command(call: Call, task_id: str, *, as_json: bool) -> None:
    """Show the conversation with the agent of a task: its text, the messages after it with what became of each, and the replies."""
    from watchkeeper.app.views import plain
    from watchkeeper.app.views.thread import thread

    store, found = call.find(task_id)
    shown = thread(store, found)
    if as_json:
        call.terminal.document(plain.thread(shown))
        return
    for head, text in _turns(shown):
        call.terminal.say(call.terminal.style(head, render.BOLD))
        for line in text.splitlines() or [""]:
            call.terminal.say(f"  {render.clean(line)}".rstrip())
        call.terminal.say("")
    if shown.waiting:
        call.terminal.say(f"{render.counted(shown.waiting, 'message')} waiting for the next run.")


def _turns(shown: "Thread") -> "Iterator[tuple[str, str]]":
    """Each turn with its heading, in order: the prompt, then messages and runs as they came."""
    yield f"you, {render.clock(shown.task.created_at)}", shown.task.spec.prompt
    turns = [(one.at, 1, _head(one), one.text) for one in shown.messages]
    turns += [(one.at, 2, *_reply(shown, one)) for one in shown.replies]
    for _, _, head, text in sorted(turns, key=lambda turn: turn[:2]):
        yield head, text


def _head(message: "Message") -> str:
    kind = "" if message.kind is None else f" ({message.kind.value})"
    by_run = "" if message.run_id is None else f" by run {message.run_id.rpartition('.')[2]}"
    state = f"{message.state.value}{kind}{by_run if message.state.value in {'taken', 'answered'} else ''}"
    return f"{render.clean(message.by)}, {render.clock(message.at)} · m{message.number} · {state}"


def _reply(shown: "Thread", reply: "Reply") -> tuple[str, str]:
    run, outcome = reply.run, reply.outcome
    covers = f" · to {', '.join(f'm{number}' for number in reply.covers)}" if reply.covers else ""
    begins = "" if reply.resumed or run.number == 1 else " · a new conversation"
    head = f"{shown.task.spec.harness}, run {run.number}, {render.clock(run.claimed_at)}{covers}{begins}"
    if outcome is None:
        return f"{head} · {run.state.value}", ""
    how = "" if outcome.kind is None else f" · {outcome.kind.value}"
    return f"{head}{how}", outcome.text or outcome.reason
