"""From what somebody typed to the id of a task."""

from watchkeeper.errors import AmbiguousId, NoSuchTask
from watchkeeper.ports.store import Tx

CANDIDATES = 8
"""How many ids an ambiguous answer names."""

_LONGEST = 64


def resolve(tx: Tx, typed: str) -> str:
    """The whole id of the one task that `typed`, an id or its beginning, means.

    Raises:
        NoSuchTask: none starts like this.
        AmbiguousId: several do.
    """
    prefix = typed.strip().lower()
    found = tx.tasks.ids_like(prefix, CANDIDATES + 1) if prefix and len(prefix) <= _LONGEST else []
    if prefix in found:
        return prefix
    if not found:
        shown = "".join(letter if letter.isprintable() else "?" for letter in typed[:_LONGEST])
        msg = f"There is no task '{shown}'."
        raise NoSuchTask(msg)
    if len(found) > 1:
        raise AmbiguousId(prefix, found[:CANDIDATES], more=len(found) > CANDIDATES)
    return found[0]
