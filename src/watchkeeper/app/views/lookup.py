"""From a typed prefix to the id of a task."""

from watchkeeper.domain.plain_text import clean
from watchkeeper.errors import NOTHING_YET, AmbiguousId, NoSuchTask
from watchkeeper.ports.store import Store, Tx

CANDIDATES = 8
"""How many ids an ambiguous answer names."""

_LONGEST = 64


def find(store: Store | None, typed: str) -> str:
    """As `resolve`, in a database that may not be there yet."""
    if store is None:
        raise NoSuchTask(f"There is no task '{clean(typed)[:64]}', nor any other.", hint=NOTHING_YET)
    return store.read(lambda tx: resolve(tx, typed))


def resolve(tx: Tx, typed: str) -> str:
    """The whole id of the one task that `typed`, an id or its beginning, means.

    Raises:
        NoSuchTask: none starts like this, or only one that was removed.
        AmbiguousId: several do, or one does and one that was removed did.
    """
    prefix = typed.strip().lower()
    usable = bool(prefix) and len(prefix) <= _LONGEST
    found = tx.tasks.ids_like(prefix, CANDIDATES + 1) if usable else []
    if prefix in found:
        return prefix
    # A beginning that once meant a task that is gone must not mean another one without a word.
    removed = tx.deletion.removed_like(prefix, 2) if usable else []
    if not found and len(removed) == 1:
        msg = f"Task {removed[0]} was removed."
        raise NoSuchTask(msg)
    if not found:
        shown = "".join(letter if letter.isprintable() else "?" for letter in typed[:_LONGEST])
        msg = f"There is no task '{shown}'."
        raise NoSuchTask(msg)
    if len(found) > 1 or removed:
        candidates = found[:CANDIDATES]
        raise AmbiguousId(prefix, candidates, more=len(found) > CANDIDATES, removed="".join(removed[:1]))
    return found[0]
