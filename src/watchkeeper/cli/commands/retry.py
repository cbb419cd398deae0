"""`wk retry`: run tasks again."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import daemon, render, task_options
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.selection import RETRY, act_on_each, pick, pick_options, picked
from watchkeeper.domain.model import Task

if TYPE_CHECKING:
    from watchkeeper.domain.working_directory import WorkingDirectory


@click.command(cls=WkCommand, name="retry", short_help="Run tasks again.")
@pick_options(RETRY)
@click.option(
    "--continue/--fresh",
    "goes_on",
    default=None,
    help="Continue the conversation on record, or begin a new one with the task's text.",
)
@json_option
@debug_option
@click.pass_obj
def command(call: Call, *, goes_on: bool | None, as_json: bool, **which: object) -> int:
    """Run tasks again, with a fresh budget of tries and the environment of this shell.

    What they may do is what was allowed before, whatever your settings say now; what differs all the same, such as
    the place of the program, is said.

    The agent starts again with the task's text. If messages to it wait, they go with it, or into the conversation that
    they were sent to. --continue and --fresh say which.

    Of a held task this is your word that nothing of it is alive, or that it does not matter.
    """
    task_ids = pick(call, RETRY, picked(which))
    words = "waits for its turn again"
    again, code = act_on_each(
        call, task_ids, lambda task_id: _retry(call, task_id, goes_on=goes_on, as_json=as_json), words, as_json=as_json
    )
    if again:
        daemon.ensure(call, "The task waits for its turn again")
    return code


def _retry(call: Call, task_id: str, *, goes_on: bool | None, as_json: bool) -> Task:
    from watchkeeper.app.retry import prepare, retry
    from watchkeeper.app.send import go_on

    again = prepare(call.writing, call.caller, task_id)
    if again.is_news:
        task_options.say_profile(call, again.profile, again.spec.cwd, as_json=as_json)
    if again.approved is not None and again.place is not None:
        _say_change(call, again.spec.cwd, again.approved, again.place)
    fresh = None if goes_on is None else not goes_on
    return retry(call.writing, again, by=call.person, then=go_on(call.writing, call.caller, task_id, fresh=fresh))


def _say_change(call: Call, cwd: str, approved: "WorkingDirectory", place: "WorkingDirectory") -> None:
    """Say where the directory differs from what was approved before: by the retry it is approved as it is now."""
    from watchkeeper.domain.working_directory import change, new_commits

    changed, moved = change(approved, place), new_commits(approved, place)
    if changed:
        call.terminal.note(f"'{render.clean(cwd)}' {render.clean(changed)}. With this it is approved as it is now.")
    elif moved:
        call.terminal.note(f"In '{render.clean(cwd)}', {render.clean(moved)}.")
