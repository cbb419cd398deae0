"""`wk retry`: run tasks again."""

import click

from watchkeeper.cli import accounts, daemon, errors, machines, render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import Command, debug_option, json_option
from watchkeeper.cli.types import TASK_ID
from watchkeeper.domain.model import Task
from watchkeeper.errors import BadTask, Exit, WatchkeeperError


@click.command(cls=Command, name="retry", short_help="Run tasks again.")
@click.argument("task_ids", metavar="ID…", nargs=-1, required=True, type=TASK_ID)
@json_option
@debug_option
@click.pass_obj
def command(call: Call, task_ids: tuple[str, ...], as_json: bool) -> int:
    """Run tasks again, with a fresh budget of tries and the environment of this shell.

    Of a held task this is your word that nothing of it is alive, or that it does not matter.
    """
    from watchkeeper.app.views import plain

    call.refuse_inside_agent("start tasks again")
    again: list[Task] = []
    code = Exit.OK
    for typed in dict.fromkeys(task_ids):
        try:
            again.append(_retry(call, typed))
        except WatchkeeperError as error:
            code = Exit(errors.ours(error, call.terminal, as_json=as_json)) if code is Exit.OK else code
            continue
        if not as_json:
            call.terminal.say(f"{again[-1].id}  waits for its turn again: {render.clean(again[-1].spec.title)}")
    if as_json:
        call.terminal.document([plain.task(task) for task in again])
    if again:
        daemon.ensure(call, "The task waits for its turn again")
    return code


def _retry(call: Call, typed: str) -> Task:
    from watchkeeper.app.retry import retry
    from watchkeeper.environment import capture

    _, task_id = call.find(typed)
    parts = call.writing
    parts.state.require_room()
    spec = parts.store.read(lambda tx: tx.tasks.get(task_id)).spec
    environ, keys = accounts.environment(call, spec)
    environment = capture(environ, (*spec.environment_names, *keys), spec.harness)
    try:
        return retry(
            parts.store,
            parts.environments,
            parts.runtime,
            parts.clock,
            parts.ids,
            task_id,
            environment,
            by=call.person,
            machine=machines.own(call),
        )
    except OSError as error:
        msg = f"The environment could not be kept ({error.strerror or error}), so nothing was changed."
        raise BadTask(msg, hint="`wk doctor` looks at the state directory.") from error
