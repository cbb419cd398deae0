"""`wk queue`: what waits and why, and a person's word on parts of it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from watchkeeper.cli import daemon, render
from watchkeeper.cli import queue_view as view
from watchkeeper.cli.call import NOTHING_YET, Call
from watchkeeper.cli.command import SETTINGS, WkCommand, debug_option, json_option
from watchkeeper.cli.types import ACCOUNT, HARNESS, MACHINE
from watchkeeper.domain.lanes import MOST_AT_ONCE
from watchkeeper.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchkeeper.app.queue_rules import PartRequest, RuleResult

F = TypeVar("F", bound=Callable[..., object])

_MOST = 10_000
_LIMIT = 100
_DIGITS = 9
_ALL = 1 << 31
_HOW_MANY = f"Show at most this many tasks. [default: {_LIMIT}; all with --json]"


def scope_options(function: F) -> F:
    """`--harness`, `--account`, `--project`, `--machine`: a part of the queue."""
    function = click.option("--machine", metavar="NAME", type=MACHINE, help="Only on this machine.")(function)
    function = click.option("--project", metavar="NAME", help="Only tasks of this project.")(function)
    function = click.option("--account", metavar="HARNESS:NAME", type=ACCOUNT, help="Only tasks of this account.")(
        function
    )
    return click.option("--harness", metavar="NAME", type=HARNESS, help="Only tasks for this agent program.")(function)


@click.group(name="queue", short_help="The queue: show, pause, resume, limit.", context_settings=SETTINGS)
def command() -> None:
    """Look at the queue, pause and resume it or a part of it, and limit how many agents work at once.

    These rules are kept in the database and hold for every machine that works on it, until a person says
    otherwise. Beside them stands the setting `queue.limit`: how many agents run on this machine at once.
    """


@command.command(cls=WkCommand, short_help="Show what waits, in order, and why.")
@click.option("--limit", type=click.IntRange(1, _MOST), help=_HOW_MANY)
@json_option
@debug_option
@click.pass_obj
def show(call: Call, limit: int | None, as_json: bool) -> None:
    """Show what waits, in the order in which it would be started, and what keeps each task.

    Tasks that agree on machine, harness, account and project share a lane: what closes it keeps them all.
    """
    from watchkeeper.app.views import why
    from watchkeeper.cli.machines import this_machine

    store = call.store
    if store is None:
        if as_json:
            call.terminal.document(view.NOTHING)
        else:
            call.terminal.prose(NOTHING_YET)
        return
    where = this_machine(call)
    found = why.queue(store, where, limit or (_ALL if as_json else _LIMIT))
    if as_json:
        call.terminal.document(view.plain(call, found, where))
    else:
        view.show(call, found, where)
    daemon.warn_if_none(call, len(found.waiting) + found.left_out)


@command.command(cls=WkCommand, short_help="Start nothing more, in all or of one part.")
@scope_options
@json_option
@debug_option
@click.pass_obj
def pause(call: Call, as_json: bool, **part: str | None) -> None:
    """Pause the queue or one part of it; running tasks continue.

    \b
    Examples:
      wk queue pause
      wk queue pause --harness claude
      wk queue pause --project shop
    """
    from watchkeeper.app.queue_rules import pause as pause_part

    done = pause_part(call.writing, call.caller, _part(part))
    word = "is paused" if done.changed else "was paused already"
    _say(call, done, f"{{}} {word}; running tasks continue", as_json=as_json)


@command.command(cls=WkCommand)
@scope_options
@json_option
@debug_option
@click.pass_obj
def resume(call: Call, as_json: bool, **part: str | None) -> None:
    """Start tasks again that a pause kept. A pause of a part is lifted by naming that part."""
    from watchkeeper.app.queue_rules import resume as resume_part

    done = resume_part(call.writing, call.caller, _part(part))
    _say(call, done, "{} goes on" if done.changed else "{} was not paused", as_json=as_json)
    if done.changed:
        daemon.poke(call)


@command.command(cls=WkCommand, short_help="Let at most N agents work at once.")
@click.argument("at_once", metavar="N|none")
@scope_options
@json_option
@debug_option
@click.pass_obj
def limit(call: Call, at_once: str, as_json: bool, **part: str | None) -> None:
    """Let at most N agents work at once, in all or for one part, on all machines together.

    The setting `queue.limit` holds beside it, for each machine by itself. Running tasks continue.

    \b
    Examples:
      wk queue limit 2 --account claude:work
      wk queue limit none --account claude:work
    """
    from watchkeeper.app.queue_rules import LimitRequest
    from watchkeeper.app.queue_rules import limit as limit_part

    most = _number(at_once)
    done = limit_part(call.writing, call.caller, LimitRequest(part=_part(part), at_once=most))
    detail = "{} has no limit of its own" if most is None else f"{{}}: at most {render.counted(most, 'agent')} at once"
    _say(call, done, detail if done.changed else f"{detail}, as before", as_json=as_json)
    if done.changed:
        daemon.poke(call)


def _number(typed: str) -> int | None:
    if typed == "none":
        return None
    if not typed.isascii() or not typed.isdigit() or len(typed) > _DIGITS:
        raise UsageError(
            f"'{render.clean(typed)[:40]}' is not a concurrency limit.",
            hint=f"Give a whole number from 1 to {MOST_AT_ONCE}, or `none`.",
        )
    return int(typed)


def _part(typed: "Mapping[str, str | None]") -> "PartRequest":
    """The part that was named."""
    from watchkeeper.app.queue_rules import PartRequest

    return PartRequest(**typed)


def _say(call: Call, done: "RuleResult", detail: str, *, as_json: bool) -> None:
    from watchkeeper.app.views import plain
    from watchkeeper.cli.machines import names
    from watchkeeper.domain.lanes import describe_scope

    rule = done.rule
    if as_json:
        call.terminal.document({"changed": done.changed, **plain.rule(rule, None)})
        return
    called = names(call, call.writing.store.read(lambda tx: tx.machines.all()), call.writing.node)
    what = render.clean(describe_scope(rule.scope, rule.name, called))
    call.terminal.prose(f"{detail.format(what)}.".capitalize() if rule.scope == "all" else f"{detail.format(what)}.")
