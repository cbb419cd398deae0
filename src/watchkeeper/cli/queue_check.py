"""`wk doctor` on the queue: what is kept beside the tasks must be what it comes from, and a pause of everything is worth a word."""

from typing import TYPE_CHECKING, NamedTuple

from watchkeeper.cli.render import counted

if TYPE_CHECKING:
    from watchkeeper.cli.call import Call

_NAMED = 3


class QueueFinding(NamedTuple):
    """What the look found."""

    level: str
    """`ok`, `note` or `bad`."""
    detail: str
    hint: str = ""
    faults: tuple[str, ...] = ()


def check_queue(call: "Call") -> QueueFinding:
    """Compare every kept fact about a wait with what it is derived from. Raises StateError."""
    store = call.store
    if store is None:
        return QueueFinding("ok", "empty")
    faults, rules = store.read(lambda tx: (tuple(tx.waits.audit()), tx.rules.all()))
    if faults:
        more = f" And {len(faults) - _NAMED} more." if len(faults) > _NAMED else ""
        hint = "wk store repair"
        return QueueFinding("note", " ".join(faults[:_NAMED]) + more, hint, faults)
    paused = [rule for rule in rules if rule.paused]
    if any(rule.scope == "all" for rule in paused):
        return QueueFinding("note", "paused: nothing is started", "`wk queue resume` resumes it.")
    parts = f"; {counted(len(paused), 'part')} paused (wk queue show)" if paused else ""
    return QueueFinding("ok", f"waiting reasons are consistent{parts}")
