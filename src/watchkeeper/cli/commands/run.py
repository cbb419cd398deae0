"""`wk run`: hand a task over."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from watchkeeper.cli import accounts, daemon, harnesses, machines, prompts, render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import SplittingCommand, after_dashes, debug_option, json_option
from watchkeeper.cli.types import ACCOUNT, DURATION, HARNESS
from watchkeeper.domain.model import OnLost, Task, TaskSpec
from watchkeeper.errors import Exit, StateDirectoryUnusable, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from watchkeeper.app.add import AddRequest, Plan
    from watchkeeper.ports.harness import StreamEvent

_MOST_RETRIES = 20
_RETRIES = "How often to try again what failed for a passing reason. [default: 2]"
_ACCOUNT = "With whose sign-in: an account that `wk account ls` lists. [default: own]"
_ISOLATION = "How much of your and the project's configuration the agent takes. [default: project]"
_MACHINE = "Which of the machines that share the database runs it; `any`: whichever has room. [default: this one]"
_ON_LOST = "What to do if the agent is gone and nobody saw how it ended. [default: hold]"
_LEFTOVERS = "What to do with processes that outlive the agent. [default: kill]"


@click.command(
    cls=SplittingCommand, name="run", short_help="Hand a task over to an agent; returns at once with its id."
)
@click.argument("words", metavar="[TASK]", nargs=-1)
@click.option("-f", "--file", metavar="FILE", type=click.Path(), help="Read the task from a file; - is standard input.")
@click.option(
    "--harness", metavar="NAME", type=HARNESS, help="The agent program. [default: the configured, or the only one]"
)
@click.option("--account", metavar="NAME", type=ACCOUNT, help=_ACCOUNT)
@click.option("--isolation", type=click.Choice(["strict", "project", "user"]), help=_ISOLATION)
@click.option("--machine", metavar="NAME", help=_MACHINE)
@click.option("--model", metavar="NAME", help="The model, by the agent program's own name for it.")
@click.option("--cwd", metavar="DIR", type=click.Path(), help="The directory to work in. [default: this one]")
@click.option("--title", help="What lists call it. [default: the first line of the task]")
@click.option("--env", metavar="NAME", multiple=True, help="Pass this variable on to the agent; may be repeated.")
@click.option("--deadline", metavar="DUR", type=DURATION, help="End the agent after this long, such as 90m.")
@click.option("--retries", metavar="N", type=click.IntRange(0, _MOST_RETRIES), help=_RETRIES)
@click.option("--on-lost", type=click.Choice([each.value for each in OnLost]), help=_ON_LOST)
@click.option("--leftovers", type=click.Choice(["kill", "wait"]), help=_LEFTOVERS)
@click.option("--wait", is_flag=True, help="Return when the task rests, with its exit code.")
@click.option("--follow", is_flag=True, help="The same, and show what the agent does.")
@click.option("--dry-run", is_flag=True, help="Only check, and say what the agent might do.")
@json_option
@debug_option
@click.pass_obj
def command(  # noqa: PLR0913, PLR0917 - one for each option
    call: Call,
    words: tuple[str, ...],
    file: str | None,
    account: str | None,
    isolation: str | None,
    machine: str | None,
    cwd: str | None,
    title: str | None,
    env: tuple[str, ...],
    wait: bool,
    follow: bool,
    dry_run: bool,
    as_json: bool,
    **flags: object,
) -> int:
    """Hand a task over to an agent in the background, and return at once with its id.

    The task is durable before anything starts. Before it starts, one line says what the agent may do and where.
    TASK is the text; without it, it is read from standard input. After `--` comes a command line to run instead of
    an agent program.

    \b
    Examples:
      wk run "make the tests in tests/api pass"
      wk run --harness claude --cwd ~/src/shop --follow "fix the search box"
      git diff | wk run - --title "review my change"
      wk run -f plan.md --deadline 2h --retries 0
      wk run --account claude:work "answer the review"
      wk run --env NPM_TOKEN "publish the package"
      wk run -- make test
      wk run "review this" -- mytool --ask {prompt}
      id=$(wk run "write the changelog") && wk wait "$id"

    \b
    With --wait and --follow the exit code is 0 done, 1 failed, 10 needs you, 11 stopped.
    Ctrl-C detaches and never stops anything; `wk stop ID` does.
    """
    call.refuse_inside_agent("start tasks")
    directory = os.path.abspath(call.cwd / Path(cwd or ".").expanduser())  # noqa: PTH100 - resolve() would replace the symlinks that the person named
    call.settings_from = Path(directory)
    call.heeds_repository = True
    flags["harness"], account = accounts.split(account, cast("str | None", flags["harness"]))
    call.flags = {f"run.{name}": value for name, value in flags.items() if value is not None}
    words, argv = _split(call, words)
    prompt = prompts.read(call, words, file, may_be_absent=argv is not None)
    spec = _spec(call, harnesses.choose(call), prompt, argv or (), directory)
    spec = replace(spec, title=render.clean(title) if title else spec.title, environment_names=_names(call, env))
    spec = machines.bind(call, replace(spec, isolation=isolation), machine, names=spec.environment_names)
    request, agreed = _plan(call, spec, account)
    _say_rights(call, agreed, as_json=as_json)
    if dry_run:
        if as_json:
            call.terminal.document({"dry_run": True, "title": spec.title, **_rights(agreed)})
        return Exit.OK
    task = _add(call, request, agreed)
    _say_id(call, task, agreed, as_json=as_json, more=wait or follow)
    accounts.warn_if_out(call, task)
    daemon.ensure(call, f"{task.id} waits for its turn")
    return _stay(call, task, follow=follow, as_json=as_json) if wait or follow else Exit.OK


def _split(call: Call, words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """The words of the task, and the command line if there is one."""
    after, named = after_dashes(), call.flags.get("run.harness")
    if after is None:
        return words, None
    if named not in {None, "command"}:
        # For an agent program `--` only ends the options, so that a task may begin with a dash.
        return (*words, *after), None
    if not after:
        raise UsageError("There is no command line after `--`.", hint="For example: wk run -- make test")
    if after[0].startswith("-"):
        raise UsageError(
            f"'{render.clean(after[0])[:60]}' after `--` is no program.",
            hint='A task that begins with a dash: name the harness too (--harness claude -- "-x …"), or use -f or standard input.',
        )
    call.flags = {**call.flags, "run.harness": "command"}
    return words, after


def _spec(call: Call, harness: str, prompt: str, argv: tuple[str, ...], directory: str) -> TaskSpec:
    settings = call.reading.settings
    return TaskSpec(
        prompt=prompt,
        title=prompts.title(prompt, argv),
        harness=harness,
        model=settings.run_model,
        cwd=directory,
        argv=argv,
        deadline_s=settings.run_deadline_s,
        max_attempts=settings.run_retries + 1,
        on_lost=OnLost(settings.run_on_lost),
        leftovers=settings.run_leftovers,
    )


def _names(call: Call, env: tuple[str, ...]) -> tuple[str, ...]:
    """Which variables are passed on: those of the settings that are there, and those that were named."""
    from watchkeeper.environment import asked

    return asked(call.environ, call.reading.settings.environment_names, env)


def _plan(call: Call, asked: TaskSpec, account: str | None) -> "tuple[AddRequest, Plan]":
    from watchkeeper.app.add import AddRequest, plan
    from watchkeeper.environment import capture

    harness = call.reading.harness(asked.harness)
    spec, environ, keys = accounts.choose(call, asked, account)
    environment: Mapping[str, str] = capture(environ, (*spec.environment_names, *keys), spec.harness)
    request = AddRequest(
        spec=spec,
        environment=environment,
        by=call.person,
        options=harnesses.options(call, spec.harness),
        caller=call.environ,
        machine=machines.own(call),
    )
    return request, plan(harness, request)


def _add(call: Call, request: "AddRequest", agreed: "Plan") -> Task:
    from watchkeeper.app.add import add

    parts = call.writing
    parts.state.require_room()
    try:
        return add(parts.store, parts.environments, parts.clock, parts.ids, request, agreed)
    except OSError as error:
        msg = f"The task could not be kept ({error.strerror or error}), so nothing was added."
        raise StateDirectoryUnusable(msg, hint="`wk doctor` looks at the state directory.") from error


def _say_rights(call: Call, agreed: "Plan", *, as_json: bool) -> None:
    says = render.clean(agreed.says)
    if call.terminal.is_terminal and not as_json:
        call.terminal.prose(says, render.DIM)
    else:
        call.terminal.note(says)  # so that `id=$(wk run …)` holds the id and nothing else


def _say_id(call: Call, task: Task, agreed: "Plan", *, as_json: bool, more: bool) -> None:
    if as_json:
        from watchkeeper.app.views import plain

        call.terminal.line({**plain.task(task), **_rights(agreed)})
    elif call.terminal.is_terminal and not more:
        # The id has its line for itself, so that a double click or a triple one takes it and nothing else.
        call.terminal.say(call.terminal.style(task.id, render.BOLD))
        call.terminal.say(call.terminal.style(f"look: wk logs -f {task.id} · end it: wk stop {task.id}", render.DIM))
    else:
        call.terminal.say(task.id)
    call.terminal.stdout.flush()


def _rights(agreed: "Plan") -> dict[str, object]:
    return {"rights": agreed.says, "program": agreed.program.path, "program_version": agreed.program.version}


def _stay(call: Call, task: Task, *, follow: bool, as_json: bool) -> int:
    from watchkeeper.app.views import plain
    from watchkeeper.cli.commands.wait import ended
    from watchkeeper.cli.printing import pretty
    from watchkeeper.cli.waiting import CODES
    from watchkeeper.cli.watching import stay

    emit: Callable[[StreamEvent, int], None] | None = None
    if follow:
        emit = (
            (lambda event, number: call.terminal.line(plain.stream_event(event, number)))
            if as_json
            else pretty(call.terminal)
        )
    task = stay(call, call.writing.store, task, emit)
    if as_json:
        call.terminal.line(plain.task(task))
    else:
        call.terminal.say(ended(task))
    return CODES[task.state]
