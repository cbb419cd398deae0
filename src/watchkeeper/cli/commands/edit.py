"""`wk edit`: change a task that waits."""

from typing import TYPE_CHECKING, Any

import click

from watchkeeper.cli import daemon, prompts, task_options
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.types import ACCOUNT, LABEL, MACHINE, OPTION, TASK_ID, DurationType, WhenType, from_now
from watchkeeper.domain.profile import CHOICES
from watchkeeper.domain.task_record import EXPECTATIONS
from watchkeeper.errors import UsageError

if TYPE_CHECKING:
    from watchkeeper.app.edit import EditRequest

NONE = "none"
"""The word that takes something away again."""

_AFTER = "Start when this task is done, instead of what was said before; may be repeated. `none`: wait for none."
_NOT_BEFORE = "Start not before this time. `none`: as soon as it may."
_DEADLINE = "End the agent after this long. `none`: never."
_SILENCE = "End the agent when it has printed nothing for this long. `none`: never."
_MODEL = "The model. `none`: the agent program's own choice."
_PRIORITY = "Higher ones start first, from -1000 to 1000."
_PROMPT_FILE = "Read the text from a file; - is standard input."
_OPTION = "An option of the harness, such as max_turns=20; may be repeated."
_RETRIES = "How often to try again what failed for a passing reason."
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


@click.command(cls=WkCommand, name="edit", short_help="Change a task that waits for its turn.")
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option("--title", help="What lists call it.")
@click.option("--cwd", metavar="DIR", type=click.Path(), help="The directory to work in.")
@click.option("--prompt", metavar="TEXT", help="The task's text.")
@click.option("--prompt-file", metavar="FILE", type=click.Path(), help=_PROMPT_FILE)
@click.option("--model", metavar="NAME", help=_MODEL)
@click.option("--rights", type=click.Choice([each.value for each in CHOICES]), help="What the agent may do.")
@click.option("--option", "options", metavar="NAME=VALUE", type=OPTION, multiple=True, help=_OPTION)
@click.option("--account", metavar="NAME", type=ACCOUNT, help="With whose sign-in.")
@click.option("--priority", metavar="N", type=click.IntRange(-1000, 1000), help=_PRIORITY)
@click.option("--after", metavar="TASK", type=TASK_ID, multiple=True, help=_AFTER)
@click.option("--not-before", metavar="WHEN", type=WhenOrNone(), help=_NOT_BEFORE)
@click.option("--machine", metavar="NAME", type=MACHINE, help=_MACHINE)
@click.option("--label", "labels", metavar="NAME", type=LABEL, multiple=True, help="Add this label; may be repeated.")
@click.option("--no-label", "no_labels", metavar="NAME", type=LABEL, multiple=True, help="Take this label away.")
@click.option("--deadline", metavar="DUR", type=DurationOrNone(), help=_DEADLINE)
@click.option("--silence", metavar="DUR", type=DurationOrNone(), help=_SILENCE)
@click.option("--expect", type=click.Choice(EXPECTATIONS), help="What counts as done; see `wk run --help`.")
@click.option("--retries", metavar="N", type=click.IntRange(0, 20), help=_RETRIES)
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

    if not any(value not in {None, ()} for value in wished.values()):
        raise UsageError("Nothing was said to be changed.", hint="`wk edit --help` lists what can be.")
    _, found_id = call.find(task_id)
    wanted = edit.prepare(call.reading, call.caller, found_id, _request(call, wished))
    task, changed = wanted.was, wanted.changed
    if changed:
        if wanted.authorises and wanted.profile is not None:
            task_options.say_profile(call, wanted.profile, wanted.spec.cwd, as_json=as_json)
        parts = call.writing
        task = edit.edit(parts.store, parts.clock, parts.ids, wanted, by=call.person)
        _ = daemon.poke(call)
    if as_json:
        call.terminal.document({**plain.task(task), "changed": list(changed)})
    else:
        call.terminal.say(f"{task.id}  {'changed: ' + ', '.join(edit.words(changed)) if changed else 'is so already'}")
    task_options.say_waits(call, task)


def _request(call: Call, wished: dict[str, Any]) -> "EditRequest":
    """What is to be changed."""
    from watchkeeper.app.edit import AT_ONCE, EditRequest

    prompt, file = wished.pop("prompt"), wished.pop("prompt_file")
    if prompt is not None or file is not None:
        words = () if prompt is None else (prompt,)
        wished["prompt"] = prompts.read(call, words, file, may_be_absent=False)
    if wished["cwd"] is not None:
        wished["cwd"] = call.directory(wished["cwd"])
    if wished["model"] == NONE:
        wished["model"] = ""
    wished["after"] = () if wished["after"] == (NONE,) else wished["after"] or None
    if wished["not_before"] is not None:
        typed = wished["not_before"]
        wished["not_before"] = AT_ONCE if typed == NONE else from_now(typed, call.reading.clock.now())
    return EditRequest(**wished)
