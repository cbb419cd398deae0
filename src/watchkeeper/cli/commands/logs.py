"""`wk logs`: what an agent printed."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import daemon
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.errors import Detached
from watchkeeper.cli.types import SINCE, TASK_ID, until_now
from watchkeeper.domain.run_record import RunState
from watchkeeper.errors import NoSuchTask, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from watchkeeper.cli.printers import Printer, RawPrinter
    from watchkeeper.domain.model import Task
    from watchkeeper.ports.harness import StreamEvent
    from watchkeeper.ports.store import Store


@click.command(cls=WkCommand, name="logs", short_help="What an agent printed.")
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option(
    "-f", "--follow", is_flag=True, help="Follow the log as it grows, through later runs, until the task rests."
)
@click.option(
    "--run", "number", metavar="N", type=click.IntRange(min=1), help="The output of run N. [default: the newest]"
)
@click.option("--stderr", "stderr", is_flag=True, help="What it printed on standard error.")
@click.option("--raw/--pretty", default=None, help="The bytes themselves, or events in words. [default: --pretty]")
@click.option("--since", metavar="DUR|TIME", type=SINCE, help="Only what came later: 15m ago, or a time such as 14:00.")
@click.option("--tail", metavar="N", type=click.IntRange(min=0), help="Only the newest N events, or lines with --raw.")
@click.option("--check", "check", metavar="N", type=click.IntRange(min=1), help="What check N printed instead.")
@click.option("--setup", metavar="N", type=click.IntRange(min=1), help="What set-up N of the worktree printed instead.")
@click.option(
    "--teardown", metavar="N", type=click.IntRange(min=1), help="What teardown N of the worktree printed instead."
)
@json_option
@debug_option
@click.pass_obj
def command(  # noqa: PLR0913, PLR0917 - one for each option
    call: Call,
    task_id: str,
    follow: bool,
    number: int | None,
    stderr: bool,
    raw: bool | None,
    since: str | None,
    tail: int | None,
    check: int | None,
    setup: int | None,
    teardown: int | None,
    as_json: bool,
) -> None:
    """Print what an agent printed, as events in words; --raw gives the bytes.

    Of a run that failed, the end of what it printed on standard error follows.
    Secrets that the run knows, and what looks like one, are shown as [redacted NAME], with --raw too. Ctrl-C ends the looking, not the agent.
    """
    from watchkeeper.cli.commands.wait import ended
    from watchkeeper.cli.output import Idle, pieces
    from watchkeeper.cli.stderr import print_stderr
    from watchkeeper.cli.task_rest import Outlook, at_rest

    _refuse_raw(raw=bool(raw), others=as_json or since is not None)
    store, found_id = _find(call, task_id)
    others = stderr or as_json or since is not None or tail is not None
    numbers = {"check": check, "setup": setup, "teardown": teardown}
    if _print_side_command(call, store, found_id, number, numbers, raw=bool(raw), follow=follow, others=others):
        return
    task = store.read(lambda tx: tx.tasks.get(found_id))
    stream = "stderr" if stderr else "stdout"
    emit, heading = None if raw else _emit(call, as_json=as_json), None if as_json else call.terminal.say
    sink = _sink(call, task, stream, emit, tail=tail, since=_time(call, since), heading=heading)
    daemon.warn_if_none(call, int(follow and not at_rest(task)))
    try:
        began, printed, outlook = False, False, Outlook(call, store)
        for piece in pieces(call, store, found_id, number=number, stream=stream, follow=follow):
            began = began or not isinstance(piece, Idle)
            printed = printed or isinstance(piece, bytes)
            sink.take(piece)
            if isinstance(piece, Idle) and (still := outlook.standstills([piece.task])):
                call.terminal.note(ended(piece.task, still[0]))
                break
        sink.flush()
    except KeyboardInterrupt:
        raise Detached(f"Detached; {found_id} goes on. Stop it: wk stop {found_id}") from None
    if not as_json:
        call.has_seen(task)
    _say_what_is_missing(call, store, found_id, number, stream, began=began, printed=printed)
    if began and stderr:
        _say_complaints(call, store, found_id, number)
    elif began:
        print_stderr(call, store, found_id, number, emit, heading)
    _say_unstamped(call, sink, asked=began and since is not None and not raw)


def _refuse_raw(*, raw: bool, others: bool) -> None:
    if raw and others:
        raise UsageError("--raw gives bytes, which have neither a time nor a JSON form.", hint="Leave --raw away.")


def _say_unstamped(call: Call, sink: "Printer | RawPrinter", *, asked: bool) -> None:
    """Say why output is shown that is older than asked for."""
    if asked and not getattr(sink, "stamped", True):
        call.terminal.note("This output has no time stamps, so all of it was shown.")


def _print_side_command(
    call: Call,
    store: "Store",
    task_id: str,
    run: int | None,
    numbers: "Mapping[str, int | None]",
    *,
    raw: bool,
    follow: bool,
    others: bool,
) -> bool:
    """Print what a check, a set-up or a teardown printed, if one is asked for; whether one is. Raises UsageError, NotFound."""
    from watchkeeper.cli.command_lines import Wanted, print_log
    from watchkeeper.domain.side_command import CommandKind

    named = [(name, number) for name, number in numbers.items() if number is not None]
    if not named:
        return False
    if others or len(named) > 1:
        raise UsageError(
            "--check, --setup and --teardown go with --follow, --run and --raw only, and not together.",
            hint="Leave the other options away.",
        )
    ((name, number),) = named
    wanted = Wanted(task_id=task_id, run=run, kind=CommandKind(name), number=number)
    try:
        print_log(call, store, wanted, raw=raw, follow=follow)
    except KeyboardInterrupt:
        raise Detached(f"Detached; {task_id} goes on. Stop it: wk stop {task_id}") from None
    return True


def _find(call: Call, typed: str) -> "tuple[Store, str]":
    """The task that was meant. Raises NoSuchTask, which says of one that was removed who did so and when."""
    try:
        return call.find(typed)
    except NoSuchTask as problem:
        from watchkeeper.cli.gone import removed

        raise removed(call, typed, problem) from problem


def _say_what_is_missing(
    call: Call, store: "Store", task_id: str, number: int | None, stream: str, *, began: bool, printed: bool
) -> None:
    """Say what became of output that is not there, or why the end of it may be missing."""
    from watchkeeper.app.observe import END_MAY_BE_MISSING
    from watchkeeper.cli.gone import output
    from watchkeeper.cli.stderr import count_lines

    if gone := output(call, store, task_id, number):
        call.terminal.note(gone)
        return
    if not began:
        call.terminal.note(f"{task_id} has not been started yet, so there is no output.")
        return
    runs = store.read(lambda tx: tx.runs.of_task(task_id))
    run = next((run for run in reversed(runs) if number in {None, run.number}), None)
    if run is not None and not printed and (stream == "stderr" or not count_lines(call.runtime().executions(), run)):
        nothing = "It printed nothing" if run.state is RunState.SETTLED else "It has printed nothing yet"
        call.terminal.note(f"{nothing}{' on standard error' if stream == 'stderr' else ''}.")
    if run is not None and call.runtime().executions().may_lack_end(run):
        call.terminal.note(END_MAY_BE_MISSING)


def _say_complaints(call: Call, store: "Store", task_id: str, number: int | None) -> None:
    """Name the file in which the run's shim complained, if it did: what an agent prints does not hold it."""
    runs = store.read(lambda tx: tx.runs.of_task(task_id))
    run = next((run for run in reversed(runs) if number in {None, run.number}), None)
    complaints = call.runtime().executions().complaints(run) if run is not None else None
    if complaints is not None:
        call.terminal.note(f"The shim's own complaints: {complaints}")


def _sink(
    call: Call,
    task: "Task",
    stream: str,
    emit: "Callable[[StreamEvent, int], None] | None",
    *,
    tail: int | None,
    since: "datetime | None",
    heading: "Callable[[str], None] | None",
) -> "Printer | RawPrinter":
    from watchkeeper.cli.printers import Printer, RawPrinter, make_reader

    if emit is None:
        return RawPrinter(call.terminal.write, tail=tail)
    return Printer(emit, make_reader(call, task, stream), tail=tail, since=since, heading=heading)


def _emit(call: Call, *, as_json: bool) -> "Callable[[StreamEvent, int], None]":
    from watchkeeper.app.views import plain
    from watchkeeper.cli.printers import pretty

    if not as_json:
        return pretty(call.terminal)
    return lambda event, number: call.terminal.line(plain.stream_event(event, number))


def _time(call: Call, since: str | None) -> "datetime | None":
    return None if since is None else until_now(since, call.reading.clock.now())
