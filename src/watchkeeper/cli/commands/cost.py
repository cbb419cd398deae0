"""`wk cost`: what runs cost."""

from typing import TYPE_CHECKING

import click

from watchkeeper.cli import render
from watchkeeper.cli.call import NOTHING_YET, Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.costs import money, tokens, words
from watchkeeper.cli.types import SINCE, until_now

if TYPE_CHECKING:
    from watchkeeper.app.views.cost import Costs
    from watchkeeper.domain.cost import CostTotal

_BY = ("task", "harness", "account", "project", "model", "day")


@click.command(cls=WkCommand, name="cost", short_help="What runs cost, as far as it is known.")
@click.option(
    "--since",
    metavar="DUR|TIME",
    type=SINCE,
    help="Only runs settled since then, such as 2d or yesterday. [default: all]",
)
@click.option("--by", type=click.Choice(_BY), default="harness", show_default=True, help="How to group runs.")
@json_option
@debug_option
@click.pass_obj
def command(call: Call, since: str | None, by: str, as_json: bool) -> None:
    """Add up what settled runs cost, as their programs reported it.

    KNOWN is the total of programs that ended by themselves. CLAIMED is what programs reported before they were ended: those
    runs cost at least that. UNKNOWN counts runs that reported no cost; a subscription or a plain command reports none.
    """
    from watchkeeper.app.views.cost import costs

    store = call.store
    if store is None:
        if as_json:
            call.terminal.document(_nothing(by))
        else:
            call.terminal.prose(NOTHING_YET)
        return
    found = costs(store, by, None if since is None else until_now(since, call.reading.clock.now()))
    if as_json:
        from watchkeeper.app.views import plain

        call.terminal.document(plain.costs(found))
        return
    if not found.all.runs:
        call.terminal.prose("No run was settled in that time." if since is not None else "No run is settled yet.")
        return
    _print(call, found)


def _nothing(by: str) -> object:
    from watchkeeper.app.views import plain
    from watchkeeper.app.views.cost import Costs
    from watchkeeper.domain.cost import CostTotal

    return plain.costs(Costs(by=by, since=None, oldest=None, groups=(), all=CostTotal()))


def _print(call: Call, found: "Costs") -> None:
    rows = [_row(render.clean(name), each) for name, each in found.groups]
    call.terminal.table(("RUNS", "KNOWN", "CLAIMED", "UNKNOWN", found.by.upper()), rows)
    since = found.since or found.oldest
    start = "" if since is None else f"Since {render.clock(since)}: "
    call.terminal.prose(f"{start}{words(found.all)}; {tokens(found.all)}.")


def _row(name: str, each: "CostTotal") -> tuple[str, ...]:
    return (
        str(each.runs),
        money(each.known_usd) if each.known_runs else "-",
        f"≥ {money(each.claimed_usd)}" if each.claimed_runs else "-",
        render.counted(each.unknown_runs, "run") if each.unknown_runs else "-",
        name,
    )
