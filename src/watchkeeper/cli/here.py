"""This machine and its fellows, as they are named on the command line."""

from typing import TYPE_CHECKING

from watchkeeper.cli.render import clean
from watchkeeper.errors import NotFound, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from watchkeeper.app.views.why import Here
    from watchkeeper.cli.call import Call
    from watchkeeper.ports.store import MachineRecord

ANY = "any"
"""The word for no machine in particular."""


def here(call: "Call") -> "Here":
    """This machine at this moment. Looks only: what has no id yet gets none by this."""
    from watchkeeper.app.views.why import Here

    parts = call.reading
    machine = parts.state.node() if parts.state.node_file.exists() else ""
    return Here(machine=machine, limit=parts.settings.queue_limit, now=parts.clock.now())


def find(call: "Call", typed: str, own_id: str) -> str:
    """The id of the machine that was typed by its name or its whole id; `own_id` is this one's.

    Raises:
        NotFound: there is no such machine.
        UsageError: several have that name.
    """
    store = call.store
    known = [] if store is None else store.read(lambda tx: tx.machines.all())
    names = {each.id: each.name for each in known} | {own_id: call.reading.host_name}
    found = [machine for machine, name in names.items() if typed in {machine, name}]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"Several machines are called {clean(typed)[:60]}.", hint=f"Give the id: {', '.join(found)}.")
    listed = ", ".join(sorted(f"{name or 'no name'} ({machine[:6]})" for machine, name in names.items()))
    raise NotFound(f"There is no machine '{clean(typed)[:60]}'.", hint=f"There are: {listed}; or {ANY}.")


def names(call: "Call", machines: "Iterable[MachineRecord]", own_id: str) -> dict[str, str]:
    """What machines are called, by their ids."""
    own = {own_id: call.reading.host_name} if own_id else {}
    return {each.id: each.name or each.id for each in machines} | own
