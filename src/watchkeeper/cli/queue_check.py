"""`wk doctor` on the queue: what is kept beside the tasks must be what it comes from, and what keeps tasks waiting for good is named."""

from typing import TYPE_CHECKING

from watchkeeper.cli.checks import Check, Level
from watchkeeper.errors import Exit, WatchkeeperError

if TYPE_CHECKING:
    from watchkeeper.cli.call import Call

_NAMED = 3


def check(call: "Call") -> Check:
    """Compare every kept fact about a wait with what it is derived from."""
    try:
        store = call.store
        if store is None:
            return Check(name="queue", level=Level.OK, says="empty")
        faults, rules = store.read(lambda tx: (tx.waits.audit(), tx.rules.all()))
    except WatchkeeperError as error:
        return Check(name="queue", level=Level.BAD, says=str(error), hint=error.hint, code=Exit.STATE)
    if faults:
        more = f" And {len(faults) - _NAMED} more." if len(faults) > _NAMED else ""
        return Check(
            name="queue",
            level=Level.BAD,
            says=" ".join(faults[:_NAMED]) + more,
            hint="That is a fault of ours: please report it. `wk edit ID --priority N` sets the facts of one task anew.",
            code=Exit.STATE,
            facts={"faults": faults},
        )
    paused = [rule for rule in rules if rule.paused]
    if any(rule.scope == "all" for rule in paused):
        return Check(name="queue", level=Level.NOTE, says="paused: nothing is started", hint="`wk queue resume`.")
    parts = f"; {len(paused)} paused part{'s' if len(paused) > 1 else ''} (wk queue show)" if paused else ""
    return Check(name="queue", level=Level.OK, says=f"what is kept of waits is what it comes from{parts}")
