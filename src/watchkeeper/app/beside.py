"""Which other tasks ran in the same place: the changes there may be theirs."""

import os
from collections.abc import Mapping
from dataclasses import replace

from watchkeeper.domain.model import Changes, Run
from watchkeeper.domain.outcome_record import MOST_BESIDE
from watchkeeper.ports.store import Tx
from watchkeeper.ports.workspace import PLACE


def place_of(before: Mapping[str, object] | None, cwd: str) -> str:
    """Where a run works, as the store compares it: the top of its checkout, or its directory with a slash at the end."""
    place = (before or {}).get(PLACE)
    if isinstance(place, str) and place:
        return place
    top = (before or {}).get("top")
    if isinstance(top, str) and top:
        return _storable(os.path.realpath(top))
    directory = _storable(os.path.realpath(cwd))
    return directory if directory.endswith("/") else f"{directory}/"


def with_others(tx: Tx, run: Run, changes: Changes | None) -> Changes | None:
    """The changes, and the tasks that ran beside. Without changes no task is named."""
    if changes is None or not (changes.files or changes.commits):
        return changes
    return replace(changes, beside=tuple(tx.runs.beside(run, MOST_BESIDE)))


def _storable(path: str) -> str:
    """A path as text for a database: bytes that are not UTF-8 become replacement characters."""
    return os.fsencode(path).decode("utf-8", "replace")
