"""What is torn, what can be done about it, and whether that may be done now."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from watchkeeper.app.parts import Caller, Parts
from watchkeeper.domain.lock_state import LockState
from watchkeeper.domain.repair import Repair, choices
from watchkeeper.errors import NotFound, Refused, UsageError
from watchkeeper.ports.backup import Descriptions
from watchkeeper.ports.damage import Known
from watchkeeper.ports.store import Damage, Store, Tx


class RepairParts(Parts, Protocol):
    """The parts that a repair needs beside all others'."""

    @cached_property
    def descriptions(self) -> Descriptions:
        """What the execution directories tell without the database."""
        ...

    def repair_record(self, damage: Damage, what: Repair, *, reason: str, by: str, known: Known) -> None:
        """Do to a record what a person chose, and journal it. Raises Refused, DatabaseUnusable and its kinds."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRequest:
    """What a person chose to do about a record that cannot be read."""

    record: str
    """Its name, or the id of its task."""
    what: Repair


def repair(parts: RepairParts, caller: Caller, request: RepairRequest) -> Damage:
    """Do to a record what a person chose; returns what was wrong with it.

    Raises:
        NotFound: no such record is torn.
        UsageError: several are meant, or it is not one of the choices.
        Refused: an agent of its task may be at work, or the record is as it was even so.
        DatabaseUnusable: and its kinds.
    """
    damage = choose(search(parts.store), request.record)
    require(damage, request.what, parts.descriptions)
    reason = f"Its record {damage.name} could not be read ({damage.reason}); {caller.by} ended it."
    parts.repair_record(damage, request.what, reason=reason, by=caller.by, known=_known(parts))
    return damage


def _known(parts: RepairParts) -> Known:
    """What the execution directories tell of the database."""
    described = parts.descriptions.described()
    ids = Counter(each.database_id for each in described if each.database_id)
    found = ids.most_common(1)[0][0] if ids else parts.ids.operation()
    return Known(found, max((each.fence for each in described), default=0))


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
