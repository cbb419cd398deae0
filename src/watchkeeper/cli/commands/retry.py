"""`wk retry`: run tasks again."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import accounts, asking, daemon, errors, harnesses, machines, render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import Command, debug_option, json_option
from watchkeeper.cli.picking import RETRY, pick, pick_options, picked
from watchkeeper.domain.model import Task
from watchkeeper.errors import BadTask, Exit, ProgramMissing, WatchkeeperError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchkeeper.domain.model import TaskSpec
    from watchkeeper.domain.profile import LaunchProfile


@click.command(cls=Command, name="retry", short_help="Run tasks again.")
@pick_options
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

    call.refuse_inside_agent("start tasks again")
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
    from watchkeeper.app.off_record import put_on_record
    from watchkeeper.app.retry import retry
    from watchkeeper.environment import capture

    _, task_id = call.find(typed)
    parts = call.writing
    parts.state.require_room()
    _ = put_on_record(
        parts.store, parts.clock, parts.runtime, task_id
    )  # a stop that came before this is not to come after it
    spec, allowed = parts.store.read(lambda tx: (tx.tasks.get(task_id).spec, tx.outcomes.authorisation(task_id)))
    environ, keys = accounts.environment(call, spec)
    environment = capture(environ, (*spec.environment_names, *keys), spec.harness)
    stored = None if allowed is None else allowed.profile
    profile = _profile(call, spec, environment, stored)
    if stored is None or profile.scope != stored.scope or profile.program != stored.program:
        asking.say_profile(call, profile, spec.cwd, as_json=as_json)
    try:
        return retry(
            parts.store,
            parts.environments,
            parts.runtime,
            parts.clock,
            parts.ids,
            task_id,
            environment,
            profile=profile,
            by=call.person,
            machine=machines.own(call),
            was=(spec, allowed),
        )
    except OSError as error:
        msg = f"The environment could not be kept ({error.strerror or error}), so nothing was changed."
        raise BadTask(msg, hint="`wk doctor` looks at the state directory.") from error


def _profile(
    call: Call, spec: "TaskSpec", environment: "Mapping[str, str]", stored: "LaunchProfile | None"
) -> "LaunchProfile":
    """What was allowed before, compiled for the environment of today; its program is looked for anew only if it is gone."""
    from watchkeeper.app.profiles import Limits, Wanted, compile_profile, located
    from watchkeeper.ports.harness import find_program

    harness = call.reading.harness(spec.harness)
    applied, home = accounts.applied(call, spec, environment)
    configured = harnesses.options(call, spec.harness)
    options, limits = configured, call.reading.limits
    if stored is not None:
        options = dict(stored.options)
        limits = Limits.of(stored)
    try:
        program = located(harness, spec, stored, applied, options)
    except ProgramMissing:
        options = {name: value for name, value in options.items() if name != "program"}
        options |= {name: value for name, value in configured.items() if name == "program"}
        program = find_program(harness, spec, applied, options)
    wanted = Wanted(environment=applied, options=options, limits=limits, machine=machines.own(call), home=home)
    return compile_profile(harness, spec, program, wanted)
