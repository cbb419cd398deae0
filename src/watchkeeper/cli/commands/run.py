"""`wk run`: hand a task over."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import daemon, handover, render, task_options
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import SplittingCommand, debug_option, json_option
from watchkeeper.domain.model import RESTING_TASK_STATES, Task
from watchkeeper.errors import Exit

if TYPE_CHECKING:
    from collections.abc import Callable

    from watchkeeper.app.add import Handed
    from watchkeeper.ports.harness import StreamEvent


@click.command(
    cls=SplittingCommand, name="run", short_help="Hand a task over to an agent; returns at once with its id."
)
@click.argument("words", metavar="[TASK]", nargs=-1)
@click.option("-f", "--file", metavar="FILE", type=click.Path(), help="Read the task from a file; - is standard input.")
@task_options.task_options
@click.option("--wait", is_flag=True, help="Return when the task has come to rest; the exit code says how.")
@click.option("--follow", is_flag=True, help="The same, and show what the agent does.")
@click.option("--dry-run", is_flag=True, help="Only check, and say what the agent might do; hand nothing over.")
@click.option("-v", "--verbose", is_flag=True, help="Say in full what the agent may do.")
@json_option
@debug_option
@click.pass_obj
def command(
    call: Call,
    words: tuple[str, ...],
    file: str | None,
    *,
    wait: bool,
    follow: bool,
    dry_run: bool,
    verbose: bool,
    as_json: bool,
    **wished: object,
) -> int:
    """Hand a task over to an agent in the background, and return at once with its id.

    TASK is the text of the task; without it, the text is read from standard input. After `--` comes a command line to
    run instead of an agent program, or a text that begins with a dash.

    First one line says what the agent may do; -v says it in full. That is stored with the task, and all its runs use
    it: a later change of a setting does not touch it. The task is on disk before anything starts.

    In a git repository one task at a time works in a checkout. Others wait, unless they are --shared. `wk add` puts
    tasks into the queue without starting a daemon.

    \b
    Examples:
      wk run "make the tests in tests/api pass"
      wk run --harness claude --cwd ~/src/shop --follow "fix the search box"
      git diff | wk run - --expect answer --title "review my change"
      wk run -- "- [ ] rename the module"
      wk run -f plan.md --deadline 2h --retries 0
      wk run --account claude:work "answer the review"
      wk run --env NPM_TOKEN "publish the package"
      wk run --rights read "explain how the parser works"
      wk run --harness claude --option max_turns=20 "fix the lint errors"
      wk run --after 7f3a --not-before 22:00 "tidy the changelog"
      wk run -- make test
      wk run "review this" -- mytool --ask {prompt}
      id=$(wk run "write the changelog") && wk wait "$id"
      wk run --key "$CI_JOB_ID" --wait "review the change"

    \b
    With --wait and --follow the exit code is 0 done, 1 failed, 7 no daemon runs,
    10 needs you (or cannot continue without you), 11 stopped.
    Ctrl-C detaches and never stops anything; `wk stop ID` does.
    """
    call = call.strictly()
    request = task_options.with_text(call, task_options.request(call, wished), words, file)
    checks = handover.checker(call)
    found, emit = checks.known(request) or [checks.check(request)], call.terminal.document
    given = handover.hand_over(call, checks, found, emit, verbose=verbose, dry_run=dry_run, as_json=as_json)
    return Exit.OK if dry_run else _given(call, *given[0], wait=wait, follow=follow, as_json=as_json)


def _given(
    call: Call, handed: "Handed", rights: "dict[str, object]", *, wait: bool, follow: bool, as_json: bool
) -> int:
    """Tell of a task that was handed over, now or before, and stay with it if that was asked."""
    task = handed.task
    if handed.already:
        handover.say_already(call, handed)
    _say_id(call, handed, rights, as_json=as_json, more=wait or follow)
    if task.state not in RESTING_TASK_STATES:
        task_options.say_waits(call, task)
        daemon.ensure(call, f"{task.id} waits for its turn")
    return _stay(call, task, follow=follow, as_json=as_json) if wait or follow else Exit.OK


def _say_id(call: Call, handed: "Handed", rights: "dict[str, object]", *, as_json: bool, more: bool) -> None:
    task = handed.task
    if as_json:
        from watchkeeper.app.views import plain

        call.terminal.line({**plain.handed(handed), **rights})
    elif call.terminal.is_terminal and not more:
        # The id has its line for itself, so that a double click or a triple one takes it and nothing else.
        call.terminal.say(call.terminal.style(task.id, render.BOLD))
        call.terminal.say(call.terminal.style(f"look: wk logs -f {task.id} · end it: wk stop {task.id}", render.DIM))
    else:
        call.terminal.say(task.id)
    call.terminal.stdout.flush()


def _stay(call: Call, task: Task, *, follow: bool, as_json: bool) -> int:
    from watchkeeper.app.views import plain
    from watchkeeper.cli.commands.wait import HANG, ended
    from watchkeeper.cli.printers import pretty
    from watchkeeper.cli.task_rest import code_of
    from watchkeeper.cli.task_rest import plain as plain_still
    from watchkeeper.cli.task_watch import stay

    emit: Callable[[StreamEvent, int], None] | None = None
    if follow:
        emit = (
            (lambda event, number: call.terminal.line(plain.stream_event(event, number)))
            if as_json
            else pretty(call.terminal)
        )
    task, still = stay(call, call.writing.store, task, emit)
    if as_json:
        call.terminal.line({**plain.task(task), "standstill": plain_still(still)})
    else:
        call.terminal.prose(ended(task, still), hang=HANG)
    return code_of(task, still)
