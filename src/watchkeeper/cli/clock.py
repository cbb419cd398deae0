"""A clock that jumped, in words."""

from typing import TYPE_CHECKING

from watchkeeper.cli import render

if TYPE_CHECKING:
    from watchkeeper.app.ages import Ages
    from watchkeeper.cli.call import Call
    from watchkeeper.domain.clocks import Watched

TRUST = "If the clock is right: wk prune --trust-clock"


def compare(ages: "Ages", *, trust: bool, keep: bool) -> "Watched":
    """Look at the clocks, and keep what was seen if `keep`. Raises OSError."""
    from watchkeeper.domain import clocks

    if keep:
        return ages.trust() if trust else ages.check()
    return clocks.trusting(ages.watched()) if trust else ages.watched()


def describe(watched: "Watched") -> str:
    """What is wrong with the clock, as a sentence; empty if nothing is known to be."""
    if not watched.jumps:
        return ""
    newest = watched.jumps[-1]
    length = render.duration(round(newest.length.total_seconds()))
    at = newest.after.isoformat(sep=" ", timespec="minutes")
    more = f", and {len(watched.jumps) - 1} more times before" if len(watched.jumps) > 1 else ""
    return f"The clock went forward by {length}, to {at}{more}, and no other clock saw that time pass: it makes nothing older"


def warn(call: "Call", watched: "Watched") -> None:
    """Print it to the person who prunes."""
    told = describe(watched)
    if told:
        call.terminal.note(f"{told}, so what ended before is kept. {TRUST}")


def plain(watched: "Watched") -> list[dict[str, object]]:
    """The jumps, as JSON values."""
    return [{"before": jump.before.isoformat(), "after": jump.after.isoformat()} for jump in watched.jumps]
