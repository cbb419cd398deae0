"""`wk wait`: until tasks come to rest."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import daemon, render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import Command, debug_option, json_option
from watchkeeper.cli.errors import Detached
from watchkeeper.cli.types import DURATION, TASK_ID
from watchkeeper.domain.model import TaskState
from watchkeeper.errors import Exit

if TYPE_CHECKING:
    from watchkeeper.domain.model import Task


@click.command(cls=Command, name="wait", short_help="Wait until tasks come to rest; the exit code says how.")
@click.argument("task_ids", metavar="ID…", nargs=-1, required=True, type=TASK_ID)
@click.option(
    "--timeout", "timeout_s", metavar="DUR", type=DURATION, help="Give up after this long, with exit code 12."
)
@click.option("--any", "any_", is_flag=True, help="Return as soon as one of them rests.")
@json_option
@debug_option
@click.pass_obj
def command(call: Call, task_ids: tuple[str, ...], timeout_s: float | None, any_: bool, as_json: bool) -> int:
    """Wait until tasks come to rest: until nothing more happens to them unless you act.

    \b
    Exit code: 0 done, 1 failed, 10 needs you, 11 stopped, 12 the time was over.
    Of several tasks the worst counts, in the order 1, 10, 11.
    Ctrl-C ends the waiting, not the task.
    """
    from watchkeeper.cli.waiting import CODES, at_rest, wait_for, worst

    found = [call.find(task_id) for task_id in dict.fromkeys(task_ids)]
    store, ids = found[0][0], list(dict.fromkeys(task_id for _, task_id in found))
    tasks = store.read(lambda tx: [tx.tasks.get(task_id) for task_id in ids])
    daemon.warn_if_none(call, sum(not at_rest(task) for task in tasks))
    try:
        tasks = wait_for(
            call,
            store,
            ids,
            lambda now: (any if any_ else all)(at_rest(task) for task in now),
            timeout_s,
            lambda now, passed_s: call.terminal.status(_progress(now, passed_s)),
        )
    except KeyboardInterrupt:
        raise Detached(detached(ids)) from None
    resting = [task for task in tasks if at_rest(task)]
    if as_json:
        from watchkeeper.app.views import plain
        from watchkeeper.app.views.rows import one

        call.terminal.document([plain.row(one(store, call.runtime, task.id)) for task in tasks])
    else:
        for task in resting:
            call.terminal.say(ended(task))
    if not resting or (not any_ and len(resting) < len(tasks)):
        if not as_json:
            waited = render.counted(len(tasks) - len(resting), "task has", "tasks have")
            call.terminal.note(f"The time is over: {waited} not come to rest.")
        return Exit.TIMEOUT
    return worst(CODES[task.state] for task in resting)


def ended(task: "Task") -> str:
    """One line on how a task came to rest."""
    word = "needs you" if task.state is TaskState.NEEDS_INPUT else task.state.value
    reason = f": {render.clean(task.reason)}" if task.reason and task.state is not TaskState.DONE else ""
    return f"{task.id}  {word}{reason}"


def detached(ids: list[str]) -> str:
    """What Ctrl-C says."""
    verb = "goes" if len(ids) == 1 else "go"
    names = " ".join(ids)
    return f"Detached; {names} {verb} on. Look: wk logs -f {ids[0]} · stop: wk stop {names}"


def _progress(tasks: "list[Task]", passed_s: float) -> str:
    busy = [task for task in tasks if task.state in {TaskState.QUEUED, TaskState.RUNNING}]
    about = f"{busy[0].id} {busy[0].state.value}" if len(busy) == 1 else f"{len(busy)} of {len(tasks)} tasks go on"
    return f"{about} · {render.duration(passed_s)}"
