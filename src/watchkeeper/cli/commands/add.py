"""`wk add`: put tasks into the queue, and start nothing for them."""

from typing import TYPE_CHECKING

import click

from watchkeeper.app.add import Handed
from watchkeeper.cli import asking, daemon, handing, not_passed, prompts, render
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import SplittingCommand, debug_option, json_option
from watchkeeper.domain.model import RESTING_TASK_STATES
from watchkeeper.errors import UsageError

if TYPE_CHECKING:
    from watchkeeper.app.add import AddRequest, Plan


@click.command(cls=SplittingCommand, name="add", short_help="Put tasks into the queue; starts no daemon for them.")
@click.argument("words", metavar="[TASK]", nargs=-1)
@click.option("-f", "--file", metavar="FILE", type=click.Path(), help="Read from a file; - is standard input.")
@click.option("--lines", is_flag=True, help="Every line of the file is a task; empty ones are passed over.")
@click.option("--json-lines", is_flag=True, help="Every line of the file is a task as a JSON object.")
@asking.task_options
@click.option("--dry-run", is_flag=True, help="Only check, and say what the agents might do; hand nothing over.")
@click.option("-v", "--verbose", is_flag=True, help="Say in full what the agents may do.")
@json_option
@debug_option
@click.pass_obj
def command(
    call: Call,
    words: tuple[str, ...],
    file: str | None,
    *,
    lines: bool,
    json_lines: bool,
    dry_run: bool,
    verbose: bool,
    as_json: bool,
    **wished: object,
) -> None:
    """Put one task or many into the queue. As `wk run`, but it never waits and starts no daemon.

    A daemon that runs is told and may start them at once; without one they wait for `wk daemon start`, or for the next
    command that starts one. So a queue can be filled, ordered and looked at before anything happens.

    Of several tasks either all are added or none. The options hold for each of them. With --json-lines an object has
    the options' names as keys (`prompt`, `argv`, `title`, `harness`, `priority`, `after`, `labels` …), which win over
    the options; with `name` a line gets a name that the `after` of later lines can use. With `key` a line can be handed
    over again: the same one gives the same task, and another one under its key is refused.

    \b
    Examples:
      wk add "bring the dependencies up to date"
      wk add --lines -f todo.txt --label chores --priority -5
      wk add --json-lines -f plan.jsonl
      wk add --after 7f3a -- make deploy
    """
    wishes = asking.Wishes(**wished)  # pyright: ignore[reportArgumentType] - click gives each option its kind
    if lines or json_lines:
        handed = _many(call, wishes, words, file, lines=lines, json_lines=json_lines)
    else:
        wishes = asking.begin(call, wishes)
        words, argv = asking.split(call, words)
        prompt = prompts.read(call, words, file, may_be_absent=argv is not None)
        before = handing.known(call, wishes._asdict(), prompt, argv or ())
        if before is not None and dry_run:
            tried = [(before, None, handing.agreed_before(call, before))]
            handing.tell_dry(call, call.terminal.line, tried, as_json=as_json)
            return
        if before is not None:
            _finish(call, [Handed(task=before, already=True, key=wishes.key or "")], [{}], as_json=as_json)
            return
        handed = [asking.request(call, wishes, prompt, argv or ())]
    asking.say_rights(call, [agreed for _, agreed in handed], verbose=verbose or dry_run, as_json=as_json)
    not_passed.say(call, [agreed for _, agreed in handed], as_json=as_json)
    if dry_run:
        tried = [(handing.would_be(call, each), each, asking.rights(agreed)) for each, agreed in handed]
        handing.tell_dry(call, call.terminal.line, tried, as_json=as_json)
        return
    given = asking.add(call, handed)
    _finish(call, given, [asking.rights(agreed) for _, agreed in handed], as_json=as_json)


def _finish(call: Call, given: "list[Handed]", rights: "list[dict[str, object]]", *, as_json: bool) -> None:
    """Tell of what was handed over, now or before, and tell a daemon: whoever handed it over before may not have come to that."""
    rights = [
        handing.agreed_before(call, each.task) if each.already else of for each, of in zip(given, rights, strict=True)
    ]
    _say(call, given, rights, as_json=as_json)
    waiting = sum(each.task.state not in RESTING_TASK_STATES for each in given)
    if waiting and not daemon.poke(call):
        daemon.say_none(call, waiting)


def _many(
    call: Call, wishes: asking.Wishes, words: tuple[str, ...], file: str | None, *, lines: bool, json_lines: bool
) -> "list[tuple[AddRequest, Plan]]":
    from watchkeeper.cli import batch
    from watchkeeper.cli.command import after_dashes

    if wishes.key is not None:
        raise UsageError(
            "--key names one hand-over, and these are many.", hint='With --json-lines each line can have a "key".'
        )
    if lines and json_lines:
        raise UsageError("--lines and --json-lines exclude each other.", hint="Choose one.")
    if after_dashes() is not None or words not in {(), ("-",)}:
        raise UsageError(
            "With --lines and --json-lines the tasks come from a file.", hint="Name it with -f, or pipe it in."
        )
    text = prompts.read(call, words, file, may_be_absent=False)
    return batch.requests(call, batch.from_json(text, wishes) if json_lines else batch.from_lines(text, wishes))


def _say(call: Call, given: "list[Handed]", rights: "list[dict[str, object]]", *, as_json: bool) -> None:
    for each in given:
        if each.already:
            handing.say_already(call, each)
    if as_json:
        from watchkeeper.app.views import plain

        for each, agreed in zip(given, rights, strict=True):
            call.terminal.line({**plain.handed(each), **agreed})
    elif call.terminal.is_terminal and len(given) > 1:
        for each in given:
            call.terminal.say(call.terminal.fit(f"{each.task.id}  {render.clean(each.task.spec.title)}"))
    else:
        for each in given:
            call.terminal.say(each.task.id)
    call.terminal.stdout.flush()
    if len(given) == 1 and given[0].task.state not in RESTING_TASK_STATES:
        asking.say_waits(call, given[0].task)
