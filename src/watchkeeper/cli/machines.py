"""This machine and its fellows, as commands show them."""

from typing import TYPE_CHECKING

from watchkeeper.cli.render import clean

if TYPE_CHECKING:
    from collections.abc import Iterable

    from watchkeeper.app.views.why import Here
    from watchkeeper.cli.call import Call
    from watchkeeper.domain.model import Task
    from watchkeeper.ports.store import MachineRecord


def this_machine(call: "Call") -> "Here":
    """This machine at this moment. Looks only: what has no id yet gets none by this."""
    from watchkeeper.app.views.why import Here

    parts = call.reading
    machine = parts.state.node() if parts.state.node_file.exists() else ""
    return Here(machine=machine, limit=parts.settings.queue_limit, now=parts.clock.now())


def where(call: "Call", task: "Task") -> str:
    """In brackets, on which other machine a task runs, and since when that machine is silent; empty for one that runs here."""
    store = call.store
    if store is None or not store.is_shared or task.run_id is None:
        return ""
    from watchkeeper.app.views.rows import one
    from watchkeeper.app.views.whereabouts import elsewhere, of_run

    run, there = one(store, call.runtime, task.id).run, None
    if run is not None:
        there = elsewhere(run, store.read(lambda tx: of_run(store, tx, run)), call.runtime())
    return f" ({clean(there.detail)})" if there is not None else ""


def names(call: "Call", machines: "Iterable[MachineRecord]", own_id: str) -> dict[str, str]:
    """What machines are called, by their ids."""
    own = {own_id: call.reading.host_name} if own_id else {}
    return {each.id: each.name or each.id for each in machines} | own
