"""`wk retry`: run tasks again."""

import os
from dataclasses import replace
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
    from watchkeeper.domain.working_directory import WorkingDirectory
    from watchkeeper.ports.store import Authorisation, Tx


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
    from watchkeeper.app.off_record import put_on_record
    from watchkeeper.app.retry import refuse_unreadable, retry
    from watchkeeper.environment import capture

    _, task_id = call.find(typed)
    parts = call.writing
    parts.state.require_room()
    # A stop that came before this is not to come after it.
    _ = put_on_record(parts.store, parts.clock, parts.runtime, task_id)
    refuse_unreadable(parts.store.read(lambda tx: tx.tasks.get(task_id)))
    spec, allowed, approved = parts.store.read(lambda tx: _read(tx, task_id))
    place = _place(call, spec, allowed)
    environ, keys = accounts.environment(call, spec)
    environment = capture(environ, (*spec.environment_names, *keys), parts.harness(spec.harness))
    stored = None if allowed is None else allowed.profile
    profile = _profile(call, spec, environment, stored)
    if stored is None or profile.scope != stored.scope or profile.program != stored.program:
        asking.say_profile(call, profile, spec.cwd, as_json=as_json)
    if approved is not None and place is not None:
        _say_change(call, spec.cwd, approved, place)
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
            place=place,
            was=(spec, allowed),
        )
    except OSError as error:
        msg = f"The environment could not be kept ({error.strerror or error}), so nothing was changed."
        raise BadTask(msg, hint="`wk doctor` looks at the state directory.") from error


def _read(tx: "Tx", task_id: str) -> "tuple[TaskSpec, Authorisation | None, WorkingDirectory | None]":
    """The task, what it is allowed, and the working directory that its next run would have to find."""
    from watchkeeper.app.working_directories import expected

    allowed = tx.outcomes.authorisation(task_id)
    return tx.tasks.get(task_id).spec, allowed, expected(tx, task_id, allowed)


def _place(call: Call, spec: "TaskSpec", allowed: "Authorisation | None") -> "WorkingDirectory | None":
    """The working directory as it is now. Of one that is on another machine, what was approved stays.

    Raises:
        BadTask: it is not there.
    """
    own = machines.own(call)
    found = call.place(spec.cwd, own)
    if found is not None:
        return found
    if spec.machine not in {None, own}:
        return None if allowed is None else allowed.place
    if not os.path.lexists(spec.cwd):
        raise BadTask(f"The directory '{render.clean(spec.cwd)}' is missing.", hint="Put it back, then try it again.")
    return None


def _say_change(call: Call, cwd: str, approved: "WorkingDirectory", place: "WorkingDirectory") -> None:
    """Say where the directory differs from what was approved before: by the retry it is approved as it is now."""
    from watchkeeper.domain.working_directory import change, new_commits

    changed, moved = change(approved, place), new_commits(approved, place)
    if changed:
        call.terminal.note(f"'{render.clean(cwd)}' {render.clean(changed)}. With this it is approved as it is now.")
    elif moved:
        call.terminal.note(f"In '{render.clean(cwd)}', {render.clean(moved)}.")


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
    inherits = call.inherited
    if stored is not None:
        options = dict(stored.options)
        limits = Limits.of(stored)
        inherits = stored.inherits or inherits  # an older version did not ask for it
    try:
        program = located(harness, spec, stored, applied, options)
    except ProgramMissing:
        options = {name: value for name, value in options.items() if name != "program"}
        options |= {name: value for name, value in configured.items() if name == "program"}
        program = find_program(harness, spec, applied, options)
    wanted = Wanted(
        environment=applied,
        options=options,
        limits=replace(limits, inherits=inherits),
        machine=machines.own(call),
        home=home,
    )
    return compile_profile(harness, spec, program, wanted)
