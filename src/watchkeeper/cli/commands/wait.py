"""`wk wait`: until tasks come to rest."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import daemon, render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.errors import Detached
from watchkeeper.cli.types import DURATION, TASK_ID
from watchkeeper.domain.model import TaskState
from watchkeeper.errors import Exit, NoSuchTask

if TYPE_CHECKING:
    from watchkeeper.app.views.standstill import Standstill
    from watchkeeper.cli.task_rest import Rest
    from watchkeeper.domain.model import Task
    from watchkeeper.ports.store import Store

HANG = 10
"""Columns of an id and the space behind it."""


@click.command(cls=WkCommand, name="wait", short_help="Wait until tasks come to rest; the exit code says how.")
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

    It also ends when none of them can continue without you: for example because a task that they wait for has failed, the
    queue is paused, their account is signed out, or no daemon runs. A time, a retry, a limit or another task that works
    is waited for.

    \b
    Exit code: 0 done, 1 failed, 3 removed, 7 no daemon runs, 10 needs you,
    11 stopped, 12 the time was over.
    Of several tasks the worst counts, in the order 1, 10, 7, 3, 11.
    Ctrl-C ends the waiting, not the task.
    """
    from watchkeeper.cli.task_rest import at_rest, load, wait_for_rest, worst

    found = [call.find(task_id) for task_id in dict.fromkeys(task_ids)]
    store, ids = found[0][0], list(dict.fromkeys(task_id for _, task_id in found))
    tasks = load(store, ids)
    daemon.warn_if_none(call, sum(not at_rest(task) for task in tasks))
    try:
        rest = wait_for_rest(
            call, store, tasks, any_=any_, timeout_s=timeout_s,
            progress=lambda now, passed_s: call.terminal.status(_progress(now, passed_s)),
        )  # fmt: skip
    except KeyboardInterrupt:
        raise Detached(detached(ids)) from None
    over = [task_id for task_id in ids if rest.is_over(task_id)]
    if as_json:
        call.terminal.document([_plain(call, store, rest, task_id) for task_id in ids])
    else:
        for task_id in over:
            call.terminal.prose(_ended(rest, task_id), hang=HANG)
    if not over or (not any_ and len(over) < len(ids)):
        if not as_json:
            waited = render.counted(len(ids) - len(over), "task has", "tasks have")
            call.terminal.note(f"The time is over: {waited} not come to rest.")
        return Exit.TIMEOUT
    return worst(rest.code(task_id) for task_id in over)


def _plain(call: Call, store: "Store", rest: "Rest", task_id: str) -> dict[str, object]:
    from watchkeeper.app.views import plain
    from watchkeeper.app.views.rows import one, row
    from watchkeeper.cli.task_rest import plain as plain_still

    try:
        found = one(store, call.runtime, task_id)
    except NoSuchTask:
        found = row(rest.tasks[task_id], None, call.runtime)
    still = rest.still.get(task_id)
    return {**plain.row(found), "removed": task_id in rest.removed, "standstill": plain_still(still)}


def _ended(rest: "Rest", task_id: str) -> str:
    if task_id in rest.removed:
        return f"{task_id}  was removed"
    return ended(rest.tasks[task_id], rest.still.get(task_id))


def ended(task: "Task", still: "Standstill | None" = None) -> str:
    """One line on how a task came to rest, or why nothing more happens to it unless a person acts."""
    if still is not None:
        from watchkeeper.cli.task_rest import describe

        whom = "a daemon" if still.wait is None else "you"
        return f"{task.id}  waits for {whom}: {describe(still)}"
    word = "needs you" if task.state is TaskState.NEEDS_INPUT else task.state.value
    remark = render.clean(task.remark)
    return f"{task.id}  {word}{f': {remark}' if remark else ''}"


def detached(ids: list[str]) -> str:
    """What Ctrl-C says."""
    verb = "goes" if len(ids) == 1 else "go"
    names = " ".join(ids)
    return f"Detached; {names} {verb} on. Look: wk logs -f {ids[0]} · stop: wk stop {names}"


def _progress(tasks: "list[Task]", passed_s: float) -> str:
    busy = [task for task in tasks if task.state in {TaskState.QUEUED, TaskState.RUNNING}]
    about = f"{busy[0].id} {busy[0].state.value}" if len(busy) == 1 else f"{len(busy)} of {len(tasks)} tasks continue"
    return f"{about} · {render.duration(passed_s)}"
