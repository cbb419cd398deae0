"""`wk edit`: change a task that waits."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from watchkeeper.cli import accounts, asking, daemon, harnesses, machines, prompts, render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import Command, debug_option, json_option
from watchkeeper.cli.types import ACCOUNT, LABEL, MACHINE, OPTION, TASK_ID, DurationType, WhenType, from_now
from watchkeeper.domain.profile import CHOICES, LaunchProfile
from watchkeeper.errors import UsageError

if TYPE_CHECKING:
    from watchkeeper.domain.model import Task, TaskSpec

NONE = "none"
"""The word that takes something away again."""

_AFTER = "Start when this task is done, instead of what was said before; may be repeated. `none`: wait for none."
_NOT_BEFORE = "Start not before this time. `none`: as soon as it may."
_DEADLINE = "End the agent after this long. `none`: never."
_SILENCE = "End the agent when it has printed nothing for this long. `none`: never."
_MODEL = "The model. `none`: the agent program's own choice."
_PRIORITY = "Higher ones start first, from -1000 to 1000."
_MACHINE = "Which of the machines that share the database runs it; `any`: whichever has room."


class WhenOrNone(WhenType):
    """A time to come, or `none`."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check that it can be read."""
        return NONE if value == NONE else super().convert(value, param, ctx)


class DurationOrNone(DurationType):
    """A length of time, or `none`, which is 0."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse it."""
        return 0.0 if value == NONE else super().convert(value, param, ctx)


class Edits(NamedTuple):
    """What was said to be changed, by option; None or empty where nothing was."""

    title: str | None = None
    cwd: str | None = None
    prompt: str | None = None
    prompt_file: str | None = None
    model: str | None = None
    rights: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    account: str | None = None
    priority: int | None = None
    after: tuple[str, ...] = ()
    not_before: str | None = None
    machine: str | None = None
    labels: tuple[str, ...] = ()
    no_labels: tuple[str, ...] = ()
    deadline: float | None = None
    silence: float | None = None
    expect: str | None = None
    retries: int | None = None


@click.command(cls=Command, name="edit", short_help="Change a task that waits for its turn.")
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option("--title", help="What lists call it.")
@click.option("--cwd", metavar="DIR", type=click.Path(), help="The directory to work in.")
@click.option("--prompt", metavar="TEXT", help="The task's text.")
@click.option(
    "--prompt-file", metavar="FILE", type=click.Path(), help="Read the text from a file; - is standard input."
)
@click.option("--model", metavar="NAME", help=_MODEL)
@click.option("--rights", type=click.Choice([each.value for each in CHOICES]), help="What the agent may do.")
@click.option(
    "--option",
    "options",
    metavar="NAME=VALUE",
    type=OPTION,
    multiple=True,
    help="An option of the harness, such as max_turns=20; may be repeated.",
)
@click.option("--account", metavar="NAME", type=ACCOUNT, help="With whose sign-in.")
@click.option("--priority", metavar="N", type=click.IntRange(-1000, 1000), help=_PRIORITY)
@click.option("--after", metavar="TASK", type=TASK_ID, multiple=True, help=_AFTER)
@click.option("--not-before", metavar="WHEN", type=WhenOrNone(), help=_NOT_BEFORE)
@click.option("--machine", metavar="NAME", type=MACHINE, help=_MACHINE)
@click.option("--label", "labels", metavar="NAME", type=LABEL, multiple=True, help="Add this label; may be repeated.")
@click.option("--no-label", "no_labels", metavar="NAME", type=LABEL, multiple=True, help="Take this label away.")
@click.option("--deadline", metavar="DUR", type=DurationOrNone(), help=_DEADLINE)
@click.option("--silence", metavar="DUR", type=DurationOrNone(), help=_SILENCE)
@click.option("--expect", type=click.Choice(["work", "answer"]), help="What counts as done: `work`, or words alone.")
@click.option(
    "--retries",
    metavar="N",
    type=click.IntRange(0, 20),
    help="How often to try again what failed for a passing reason.",
)
@json_option
@debug_option
@click.pass_obj
def command(call: Call, task_id: str, as_json: bool, **wished: object) -> None:
    """Change a task that waits for its turn. What runs, or has ended, stays as it was.

    A change of what the agent will do (its text, directory, model, account, rights or options) is your approval of it, as with
    `wk run`, and is recorded as such. Everything else of what was allowed stays, whatever your settings say now. The
    environment stays the one that was kept when the task was handed over.

    \b
    Examples:
      wk edit 7f3a --priority 10
      wk edit 7f3a --after none --not-before 22:00
      wk edit 7f3a --rights read
      wk edit 7f3a --prompt "fix the search box, and add a test"
    """
    from watchkeeper.app import edit
    from watchkeeper.app.views import plain

    edits = Edits(**wished)  # pyright: ignore[reportArgumentType] - click gives each option its kind
    if edits == Edits():
        raise UsageError("Nothing was said to be changed.", hint="`wk edit --help` lists what can be.")
    store, found_id = call.find(task_id)
    task = store.read(lambda tx: tx.tasks.get(found_id))
    edit.require_editable(task)
    allowed = store.read(lambda tx: tx.outcomes.authorisation(found_id))
    spec = _edited(call, task.spec, edits)
    profile = _checked(call, task, spec, edits, None if allowed is None else allowed.profile)
    place = call.place(spec.cwd, machines.own(call)) if spec.cwd != task.spec.cwd else None
    wanted = edit.Edit(was=task, spec=spec, allowed=allowed, profile=profile, place=place)
    changed = wanted.changed
    if changed:
        if wanted.authorises and profile is not None:
            asking.say_profile(call, profile, spec.cwd, as_json=as_json)
        parts = call.writing
        task = edit.edit(parts.store, parts.clock, parts.ids, wanted, by=call.person)
        _ = daemon.poke(call)
    if as_json:
        call.terminal.document({**plain.task(task), "changed": list(changed)})
    else:
        call.terminal.say(f"{task.id}  {'changed: ' + ', '.join(edit.words(changed)) if changed else 'is so already'}")
    asking.say_waits(call, task)


def _edited(call: Call, spec: "TaskSpec", edits: Edits) -> "TaskSpec":
    """The task as it is to be."""
    spec = _with_text(call, spec, edits)
    if edits.cwd is not None:
        spec = _moved(call, spec, edits.cwd)
    if edits.account is not None:
        _, name = accounts.split(edits.account, spec.harness)
        spec = replace(spec, account=name or spec.account)
    if edits.model is not None:
        spec = replace(spec, model=None if edits.model == NONE else edits.model)
    if edits.after:
        spec = replace(spec, after=() if edits.after == (NONE,) else asking.after(call, edits.after))
    if edits.not_before is not None:
        wish = edits.not_before
        spec = replace(spec, not_before=None if wish == NONE else from_now(wish, call.reading.clock.now()))
    if edits.deadline is not None:
        spec = replace(spec, deadline_s=edits.deadline or None)
    if edits.silence is not None:
        spec = replace(spec, silence_s=edits.silence or None)
    if edits.expect is not None:
        spec = replace(spec, expect=edits.expect)
    if edits.retries is not None:
        spec = replace(spec, max_attempts=edits.retries + 1)
    if edits.priority is not None:
        spec = replace(spec, priority=edits.priority)
    if edits.machine is not None:
        spec = machines.bind(call, spec, edits.machine, names=spec.environment_names)
    labels = tuple(each for each in dict.fromkeys((*spec.labels, *edits.labels)) if each not in edits.no_labels)
    return replace(spec, labels=labels)


def _moved(call: Call, spec: "TaskSpec", typed: str) -> "TaskSpec":
    """The task in another directory, with the checkout that is there; its project follows if it was called after the checkout."""
    cwd = os.path.abspath(call.cwd / Path(typed).expanduser())  # noqa: PTH100 - resolve() would replace the symlinks that the person named
    was, now = call.checkout(spec.cwd), call.checkout(cwd)
    shared = was is not None and spec.checkout is None
    follows = spec.project == ("" if was is None else was.project)
    project = ("" if now is None else now.project) if follows else spec.project
    return replace(spec, cwd=cwd, checkout=None if now is None or shared else now.top, project=project)


def _with_text(call: Call, spec: "TaskSpec", edits: Edits) -> "TaskSpec":
    if edits.prompt is not None or edits.prompt_file is not None:
        words = () if edits.prompt is None else (edits.prompt,)
        prompt = prompts.read(call, words, edits.prompt_file, may_be_absent=False)
        was_given = spec.title != prompts.title(spec.prompt, spec.argv)
        spec = replace(spec, prompt=prompt, title=spec.title if was_given else prompts.title(prompt, spec.argv))
    if edits.title is not None:
        if not edits.title.strip():
            raise UsageError("The title is empty.", hint="Give it some letters.")
        spec = replace(spec, title=render.clean(edits.title))
    return spec


def _checked(
    call: Call, task: "Task", spec: "TaskSpec", edits: Edits, stored: LaunchProfile | None
) -> LaunchProfile | None:
    """Check it as a new one would be, and compile its launch profile anew if the edit is of something that it depends on, else None.

    Raises:
        BadTask: it cannot be like this.
        HarnessError: its program is missing, where that matters.
    """
    from watchkeeper.app.add import AddRequest, check, plan
    from watchkeeper.app.edit import authorises
    from watchkeeper.app.profiles import Limits, chosen, located
    from watchkeeper.app.relations import check_wishes
    from watchkeeper.environment import capture

    now = call.reading.clock.now()
    check_wishes(spec if spec.not_before != task.spec.not_before else replace(spec, not_before=None), now)
    if spec.account != task.spec.account:
        accounts.require_no_keys(call, task, spec)
    harness = call.reading.harness(spec.harness)
    kept = call.reading.environments.get(task.environment_id)
    environment = kept if kept is not None else capture(call.environ, (), harness)
    applied, home = accounts.applied(call, spec, environment)
    given = dict(edits.options)
    configured = dict(stored.options) if stored is not None else harnesses.options(call, spec.harness)
    request = AddRequest(
        spec=spec,
        environment=environment,
        by=call.person,
        options=chosen(harness, configured, edits.rights, given),
        limits=call.reading.limits if stored is None else Limits.of(stored),
        agent_environment=applied,
        home=home,
        machine=machines.own(call),
        caller=call.environ,
    )
    if not authorises(task.spec, spec) and edits.rights is None and not given:
        check(harness, request)  # the program is looked for only where the answer is a part of what a person allows
        return None
    moved = stored if "program" not in given else None
    return plan(harness, request, located(harness, spec, moved, applied, request.options), is_new=False).profile
