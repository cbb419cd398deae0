"""`wk retry`: run tasks again."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import asking, daemon, errors, render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import Command, debug_option, json_option
from watchkeeper.cli.picking import RETRY, pick, pick_options, picked
from watchkeeper.domain.model import Task
from watchkeeper.errors import Exit, WatchkeeperError

if TYPE_CHECKING:
    from watchkeeper.domain.working_directory import WorkingDirectory


@click.command(cls=Command, name="retry", short_help="Run tasks again.")
@pick_options(RETRY)
@json_option
@debug_option
@click.pass_obj
def command(call: Call, as_json: bool, **which: object) -> int:
    """Run tasks again, with a fresh budget of tries and the environment of this shell.

    What they may do is what was allowed before, whatever your settings say now; what differs all the same, such as
    the place of the program, is said.

    Of a held task this is your word that nothing of it is alive, or that it does not matter.
    """
    from watchkeeper.app.views import plain

    task_ids = pick(call, RETRY, picked(which))
    again: list[Task] = []
    code = Exit.OK
    for typed in dict.fromkeys(task_ids):
        try:
            again.append(_retry(call, typed, as_json=as_json))
        except WatchkeeperError as error:
            told = Exit(errors.ours(error, call.terminal, as_json=as_json))
            code = told if code is Exit.OK else code
            continue
        if not as_json:
            call.terminal.say(f"{again[-1].id}  waits for its turn again: {render.clean(again[-1].spec.title)}")
    if as_json:
        call.terminal.document([plain.task(task) for task in again])
    if again:
        daemon.ensure(call, "The task waits for its turn again")
    return code


def _retry(call: Call, typed: str, *, as_json: bool) -> Task:
    from watchkeeper.app.retry import commit, prepare

    _, task_id = call.find(typed)
    again = prepare(call.writing, call.caller, task_id)
    if again.is_news:
        asking.say_profile(call, again.profile, again.spec.cwd, as_json=as_json)
    if again.approved is not None and again.place is not None:
        _say_change(call, again.spec.cwd, again.approved, again.place)
    return commit(call.writing, call.caller, again)


def _say_change(call: Call, cwd: str, approved: "WorkingDirectory", place: "WorkingDirectory") -> None:
    """Say where the directory differs from what was approved before: by the retry it is approved as it is now."""
    from watchkeeper.domain.working_directory import change, new_commits

    changed, moved = change(approved, place), new_commits(approved, place)
    if changed:
        call.terminal.note(f"'{render.clean(cwd)}' {render.clean(changed)}. With this it is approved as it is now.")
    elif moved:
        call.terminal.note(f"In '{render.clean(cwd)}', {render.clean(moved)}.")
