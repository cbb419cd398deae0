"""`wk cancel`: take back what never ran."""

import click

from watchkeeper.cli import errors, render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import Command, debug_option, json_option
from watchkeeper.cli.picking import CANCEL, pick, pick_options, picked
from watchkeeper.domain.model import Task
from watchkeeper.errors import Exit, WatchkeeperError


@click.command(cls=Command, name="cancel", short_help="Take back tasks that never ran.")
@pick_options(CANCEL)
@json_option
@debug_option
@click.pass_obj
def command(call: Call, as_json: bool, **which: object) -> int:
    """Take back tasks that wait for their first run. What has run is ended with `wk stop`.

    Each of several is tried, and reported. A cancelled task is `stopped`; `wk retry` queues it again. Tasks that wait
    for it go on waiting, and `wk why` says so.
    """
    from watchkeeper.app.views import plain

    task_ids = pick(call, CANCEL, picked(which))
    cancelled: list[Task] = []
    code = Exit.OK
    for typed in dict.fromkeys(task_ids):
        try:
            cancelled.append(_cancel(call, typed))
        except WatchkeeperError as error:
            told = Exit(errors.ours(error, call.terminal, as_json=as_json))
            code = told if code is Exit.OK else code
            continue
        if not as_json:
            task = cancelled[-1]
            call.terminal.say(f"{task.id}  cancelled: {render.clean(task.spec.title)}")
    if as_json:
        call.terminal.document([plain.task(task) for task in cancelled])
    return code


def _cancel(call: Call, typed: str) -> Task:
    from watchkeeper.app.cancel import cancel

    _, task_id = call.find(typed)
    return cancel(call.writing.store, call.writing.clock, task_id, call.person)
