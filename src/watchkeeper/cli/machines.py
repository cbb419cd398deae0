"""Machines that share a database, as commands speak of them: by their host's name, or the beginning of their id."""

from dataclasses import replace
from typing import TYPE_CHECKING

from watchkeeper.cli.render import clean
from watchkeeper.errors import BadTask, NotFound

if TYPE_CHECKING:
    from watchkeeper.cli.call import Call
    from watchkeeper.domain.model import Task, TaskSpec
    from watchkeeper.ports.store import MachineRecord

ANY = "any"


def own(call: "Call") -> str:
    """The id of this machine where the database is shared, else nothing: there only one can be meant."""
    return call.writing.state.node() if call.reading.settings.store_url is not None else ""


def bind(call: "Call", spec: "TaskSpec", word: str | None, *, names: tuple[str, ...]) -> "TaskSpec":
    """The task, bound to the machine that was meant; without a word to this one. `names` are the variables that it passes on.

    Raises:
        BadTask: it passes on variables of this machine, and another one could run it.
        NotFound: there is no such machine.
    """
    if call.reading.settings.store_url is None:
        if word in {None, ANY, call.reading.host_name}:
            # What was bound elsewhere when the database was shared comes here by that word.
            return spec if word is None else replace(spec, machine=None)
        raise NotFound(
            f"There is no machine '{clean(word or '')[:60]}': the database is this machine's alone.",
            hint=f"Leave --machine away, or say {call.reading.host_name}. Machines share a database on PostgreSQL: docs/fleet.md.",
        )
    machine = None if word == ANY else own(call) if word is None else _find(call, word)
    if machine != own(call) and names:
        raise BadTask(
            f"The task passes on {', '.join(names)}, which only this machine has, and may run on another one.",
            hint="Leave --machine away, or the variables; a setting `environment.names` passes some on, too.",
        )
    return replace(spec, machine=machine)


def where(call: "Call", task: "Task") -> str:
    """In brackets, on which other machine a task is at work, and since when that was not heard of; empty for one that is at work here."""
    store = call.store
    if store is None or not store.is_shared or task.run_id is None:
        return ""
    from watchkeeper.app.views.rows import one
    from watchkeeper.app.views.whereabouts import elsewhere, of_run

    run, there = one(store, call.runtime, task.id).run, None
    if run is not None:
        there = elsewhere(run, store.read(lambda tx: of_run(store, tx, run)), call.runtime())
    return f" ({clean(there.says)})" if there is not None else ""


def _find(call: "Call", word: str) -> str:
    store = call.store
    known = store.read(lambda tx: tx.machines.all()) if store is not None else []
    found = {each.id for each in known if each.name == word} or {each.id for each in known if each.id.startswith(word)}
    if word == call.reading.host_name and not found:
        return own(call)
    if len(found) != 1:
        raise _nobody(word, known, found)
    return found.pop()


def _nobody(word: str, known: "list[MachineRecord]", found: "set[str]") -> NotFound:
    """There is none of that name, or there are several."""
    if found:
        ids = ", ".join(f"{each.name or 'no name'} is {each.id[:12]}" for each in known if each.id in found)
        return NotFound(f"Several machines are called '{clean(word)[:60]}'.", hint=f"Say which by its id: {ids}.")
    names = ", ".join(f"{each.name or each.id} ({each.id[:6]})" for each in known)
    return NotFound(
        f"There is no machine '{clean(word)[:60]}'.",
        hint=f"There are: {names}; or {ANY}." if names else "A machine is known once its daemon has run.",
    )
