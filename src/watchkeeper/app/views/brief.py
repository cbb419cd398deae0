"""The first reason why a task waits, in a word and a few more, as lists show it: told from what is kept beside its row, so that a list stays quick.

`why` has every reason, computed at this moment. Here the lane's own reason is the one that a claim of the daemon last told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from watchkeeper.domain.task_record import FINAL_TASK_STATES, Task, TaskState
from watchkeeper.domain.wait import BriefWait, Wait
from watchkeeper.errors import RecordTorn

if TYPE_CHECKING:
    from watchkeeper.ports.store import Tx


# A named tuple, as in `settings`: every command waits for the class.
class Brief(NamedTuple):
    """A word of the closed list, and what a line has room for."""

    wait: str
    detail: str = ""


def brief(tx: Tx, task: Task) -> Brief | None:
    """The first reason why a queued task waits, as far as it is known without looking further."""
    if task.state is not TaskState.QUEUED:
        return None
    try:
        return from_facts(task, tx.tasks.brief(task.id))
    except RecordTorn as problem:
        tx.damage.note(problem)
        return Brief(Wait.RECORD_TORN.value, "wk store repair")


def from_facts(task: Task, known: BriefWait) -> Brief | None:
    """The same from what was read."""
    if known.torn is not None:
        return Brief(Wait.RECORD_TORN.value, "wk store repair")
    if known.unmet:
        stands = f" {known.on_state}" if known.on_state in FINAL_TASK_STATES else ""
        more = f" and {known.unmet - 1} more" if known.unmet > 1 else ""
        return Brief(Wait.DEPENDENCY.value, f"task {known.on}{stands}{more}")
    if not known.ready and task.wakes_for is not None:
        return Brief(task.wakes_for.value, task.reason)
    if known.holder is not None or known.blocked:
        return Brief(Wait.CHECKOUT_BUSY.value, "" if known.holder is None else f"task {known.holder}")
    return None if known.lane_announced is None else Brief(known.lane_announced)
