"""`wk add`: put tasks into the queue, and start nothing for them."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import daemon, handover, prompts, render, task_options
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import SplittingCommand, debug_option, json_option
from watchkeeper.domain.model import RESTING_TASK_STATES
from watchkeeper.errors import UsageError

if TYPE_CHECKING:
    from watchkeeper.app.add import Handed
    from watchkeeper.app.hand_over import HandOverRequest, NumberedRequest


@click.command(cls=SplittingCommand, name="add", short_help="Put tasks into the queue; starts no daemon for them.")
@click.argument("words", metavar="[TASK]", nargs=-1)
@click.option("-f", "--file", metavar="FILE", type=click.Path(), help="Read from a file; - is standard input.")
@click.option("--lines", is_flag=True, help="Every line of the file is a task; empty ones are passed over.")
@click.option("--json-lines", is_flag=True, help="Every line of the file is a task as a JSON object.")
@task_options.task_options
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

    A running daemon is notified and may start them at once; without one they wait for `wk daemon start`, or for the next
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
    call = call.strictly()
    request = task_options.request(call, wished)
    many = lines or json_lines
    tasks = _lines(call, request, words, file, lines=lines, json_lines=json_lines) if many else []
    request = request if many else task_options.with_text(call, request, words, file)
    checks = handover.checker(call)
    found = checks.check_all(tasks) if many else checks.known(request) or [checks.check(request)]
    emit = call.terminal.line
    given = handover.hand_over(call, checks, found, emit, verbose=verbose, dry_run=dry_run, as_json=as_json)
    _say(call, given, as_json=as_json)
    # A daemon is poked for a task of an earlier call too: that call may not have come to it.
    waiting = sum(handed.task.state not in RESTING_TASK_STATES for handed, _ in given)
    if waiting and not daemon.poke(call):
        daemon.say_none(call, waiting)


def _lines(
    call: Call, common: "HandOverRequest", words: tuple[str, ...], file: str | None, *, lines: bool, json_lines: bool
) -> "list[NumberedRequest]":
    from watchkeeper.cli import batch
    from watchkeeper.cli.command import after_dashes

    if common.key is not None:
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
    return batch.from_json(call, text, common) if json_lines else batch.from_lines(text, common)


def _say(call: Call, given: "list[tuple[Handed, handover.Rights]]", *, as_json: bool) -> None:
    tasks = [handed.task for handed, _ in given]
    for handed, _ in given:
        if handed.already:
            handover.say_already(call, handed)
    if as_json:
        from watchkeeper.app.views import plain

        for handed, rights in given:
            call.terminal.line({**plain.handed(handed), **rights})
    elif call.terminal.is_terminal and len(given) > 1:
        for task in tasks:
            call.terminal.say(call.terminal.fit(f"{task.id}  {render.clean(task.spec.title)}"))
    else:
        for task in tasks:
            call.terminal.say(task.id)
    call.terminal.stdout.flush()
    if len(tasks) == 1 and tasks[0].state not in RESTING_TASK_STATES:
        task_options.say_waits(call, tasks[0])
