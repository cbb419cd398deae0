"""What is torn, what can be done about it, and whether that may be done now."""

from collections.abc import Sequence

from watchkeeper.domain.lock_state import LockState
from watchkeeper.domain.repair import Repair, choices
from watchkeeper.errors import NotFound, Refused, UsageError
from watchkeeper.ports.backup import Descriptions
from watchkeeper.ports.store import Damage, Store, Tx


def search(store: Store) -> list[Damage]:
    """Every record that cannot be read, and what is on record beside them. Takes seconds for a large database."""
    found = {(each.place, each.id): each for each in store.read(lambda tx: list(tx.damage.search()))}
    on_record = {(each.place, each.id): each for each in store.read(_on_record)}
    return [on_record.get(key, each) for key, each in (on_record | found).items()]


def _on_record(tx: Tx) -> list[Damage]:
    """What is on record and cannot be read even now."""
    return [each for each in tx.damage.all() if tx.damage.read_again(each) is not None]


def choose(found: Sequence[Damage], name: str) -> Damage:
    """The record that a person means, by its name or its task's id. Raises NotFound, UsageError."""
    named = [each for each in found if each.name == name] or [each for each in found if each.task_id == name]
    if not named:
        raise NotFound(f"No unreadable record is called '{name}'.", hint="`wk store repair` lists those that are.")
    if len(named) > 1:
        names = ", ".join(each.name for each in named)
        raise UsageError(f"Several records of task {name} cannot be read: {names}.", hint="Name one of them.")
    return named[0]


def require(damage: Damage, what: Repair, descriptions: Descriptions) -> None:
    """Refuse what cannot be done to a record.

    Raises:
        UsageError: it is not one of the choices.
        Refused: an agent of its task may be at work.
        OSError: the directories cannot be read.
    """
    possible = choices(damage.place, of_task=damage.task_id is not None)
    if what not in possible:
        *others, last = possible or ["none"]
        words = f"{', '.join(others)} or {last}" if others else last
        raise UsageError(f"'{what}' is no choice for {damage.name}.", hint=f"Choose {words}.")
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
