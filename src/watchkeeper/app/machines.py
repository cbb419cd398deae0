"""The machines that share a database: which one a person means, and which one a task may run on."""

from dataclasses import replace

from watchkeeper.app.parts import Parts
from watchkeeper.domain.model import TaskSpec
from watchkeeper.domain.plain_text import clean
from watchkeeper.errors import BadTask, NotFound

ANY = "any"
"""The word for no machine in particular."""


def find(parts: Parts, typed: str) -> str:
    """The id of the machine that a person names by its host's name, its id or the beginning of its id.

    A whole name or id wins over the beginning of another id.

    Raises:
        NotFound: no machine is called so, or several are.
    """
    store = parts.existing_store
    known = [] if store is None else store.read(lambda tx: tx.machines.all())
    names = {each.id: each.name for each in known} | {parts.node: parts.host_name}
    found = [machine for machine, name in names.items() if typed in {machine, name}]
    found = found or [machine for machine in names if machine.startswith(typed)]
    if len(found) == 1:
        return found[0]
    shown = clean(typed)[:60]
    if found:
        ids = ", ".join(f"{names[each] or 'no name'} is {each[:12]}" for each in found)
        raise NotFound(f"Several machines are called '{shown}'.", hint=f"Say which by its id: {ids}.")
    listed = ", ".join(sorted(f"{name or 'no name'} ({machine[:6]})" for machine, name in names.items()))
    raise NotFound(f"There is no machine '{shown}'.", hint=f"There are: {listed}; or {ANY}.")


def bind(parts: Parts, spec: TaskSpec, typed: str | None) -> TaskSpec:
    """The task, bound to the machine that a person names; to this one if `typed` is None.

    Raises:
        BadTask: it passes on variables of this machine, and another one could run it.
        NotFound: there is no such machine.
    """
    if parts.settings.store_url is None:
        if typed in {None, ANY, parts.host_name}:
            # A task that was bound to another machine when the database was shared comes here by its name.
            return spec if typed is None else replace(spec, machine=None)
        raise NotFound(
            f"There is no machine '{clean(typed or '')[:60]}': the database is this machine's alone.",
            hint=f"Leave --machine away, or say {parts.host_name}. Machines share a database on PostgreSQL: docs/fleet.md.",
        )
    own = parts.machine
    machine = None if typed == ANY else own if typed is None else find(parts, typed)
    if machine != own and spec.environment_names:
        raise BadTask(
            f"The task passes on {', '.join(spec.environment_names)}, which only this machine has, and may run on another one.",
            hint="Leave --machine away, or the variables; a setting `environment.names` passes some on, too.",
        )
    return replace(spec, machine=machine)
