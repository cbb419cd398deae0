"""What is torn, what can be done about it, and whether that may be done now."""

from collections.abc import Sequence

from watchkeeper.domain.lock_state import LockState
from watchkeeper.domain.repair import Repair, choices
from watchkeeper.errors import NotFound, Refused, UsageError
from watchkeeper.ports.backup import Descriptions
from watchkeeper.ports.store import Damage, Store


def search(store: Store) -> list[Damage]:
    """Every record that cannot be read, and what is on record beside them. Takes seconds for a large database."""
    found = {(each.place, each.id): each for each in store.read(lambda tx: list(tx.damage.search()))}
    on_record = {(each.place, each.id): each for each in store.read(lambda tx: tx.damage.all())}
    return [on_record.get(key, each) for key, each in (on_record | found).items()]


def choose(found: Sequence[Damage], name: str) -> Damage:
    """The record that a person means, by its name or its task's id. Raises NotFound, UsageError."""
    named = [each for each in found if each.name == name] or [each for each in found if each.task_id == name]
    if not named:
        raise NotFound(f"No record of the name '{name}' is torn.", hint="`wk store repair` lists those that are.")
    if len(named) > 1:
        names = ", ".join(each.name for each in named)
        raise UsageError(f"Several records of task {name} cannot be read: {names}.", hint="Name one of them.")
    return named[0]


def require(damage: Damage, what: Repair, descriptions: Descriptions) -> None:
    """Refuse what cannot be done to a record.

    Raises:
        UsageError: it is none of the choices.
        Refused: an agent of its task may be at work.
        OSError: the directories cannot be read.
    """
    possible = choices(damage.place)
    if what not in possible or (what in {Repair.FAIL, Repair.FORGET} and damage.task_id is None):
        words = ", ".join(possible) or "none"
        raise UsageError(f"'{what}' cannot be done to {damage.name}.", hint=f"What can: {words}.")
    if what not in {Repair.FAIL, Repair.FORGET}:
        return
    alive = [
        one.execution_id
        for one in descriptions.described()
        if one.task_id == damage.task_id and one.lock is not LockState.FREE
    ]
    if alive:
        raise Refused(
            f"An agent of task {damage.task_id} may be at work ('executions/{alive[0]}'): nothing was changed.",
            hint=f"End it first: wk kill {damage.task_id}",
        )
