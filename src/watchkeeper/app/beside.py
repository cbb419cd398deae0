"""Who else was at work in the same place: what changed there may be theirs."""

import os
from dataclasses import replace

from watchkeeper.domain.model import Changes, Run
from watchkeeper.domain.outcome_record import MOST_BESIDE
from watchkeeper.ports.runtime import ExecutionOrder
from watchkeeper.ports.store import Tx
from watchkeeper.ports.workspace import PLACE


def place_of(order: ExecutionOrder) -> str:
    """Where a run works, as the store compares it: the top of its checkout, or its directory with a slash at the end."""
    place = (order.before or {}).get(PLACE)
    if isinstance(place, str) and place:
        return place
    top = (order.before or {}).get("top")
    if isinstance(top, str) and top:
        return _storable(os.path.realpath(top))
    directory = _storable(os.path.realpath(order.cwd))
    return directory if directory.endswith("/") else f"{directory}/"


def with_others(tx: Tx, run: Run, changes: Changes | None) -> Changes | None:
    """The changes, and beside whom they came about. Where there are none, nobody is named."""
    if changes is None or not (changes.files or changes.commits):
        return changes
    return replace(changes, beside=tuple(tx.runs.beside(run, MOST_BESIDE)))


def _storable(path: str) -> str:
    """A path as text for a database: bytes that are not UTF-8 become replacement characters."""
    return os.fsencode(path).decode("utf-8", "replace")
