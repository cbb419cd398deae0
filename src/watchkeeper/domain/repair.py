"""What can be done about a record that cannot be read. A person chooses; nothing is done by guess."""

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watchkeeper.domain.task_record import TaskSpec

UNREADABLE = "(cannot be read)"
"""Stands for a text of a task that could not be read when it was ended by a repair."""


class Repair(StrEnum):
    """What can be done."""

    DROP = "drop"
    MEND = "mend"
    FAIL = "fail"
    FORGET = "forget"


_OF_A_TASK = {
    Repair.FAIL: "end its task as failed, of unknown cause; what can be read of it is kept, and so are its directories",
    Repair.FORGET: "delete its task with everything that is recorded about it; its directories stay, and are of no run then",
}

CHOICES: dict[str, dict[Repair, str]] = {
    "task": _OF_A_TASK,
    "run": _OF_A_TASK,
    "claim": {Repair.DROP: "delete it, with everything that is recorded about its task, which is gone", **_OF_A_TASK},
    "outcome": _OF_A_TASK,
    "side_command": _OF_A_TASK,
    "message": _OF_A_TASK,
    "turn": _OF_A_TASK,
    "authorisation": _OF_A_TASK,
    "start": {Repair.DROP: "let its task be tried again", **_OF_A_TASK},
    "outbox": {Repair.DROP: "delete this step: what it was to do is not done, and the daemon looks at its run anew"},
    "journal": {Repair.DROP: "delete this entry of the history"},
    "account": {Repair.DROP: "forget the account: its tasks wait until it is added again (wk account add)"},
    "account_state": {Repair.DROP: "forget what is known of the account: it is found out anew"},
    "harness_state": {Repair.DROP: "forget what is known of the program: it is found out anew"},
    "lane_closed": {Repair.DROP: "forget what was announced: it is announced again"},
    "queue_rule": {Repair.DROP: "forget the rule: what it paused or limited is free (wk queue sets another)"},
    "machine": {Repair.DROP: "forget the machine: its next daemon makes the record anew"},
    "notice_sink": {Repair.DROP: "forget how far notices were sent there: they continue with what happens from now on"},
    "lane": {Repair.MEND: "find the lanes of the tasks in it anew, from what was asked for"},
    "tally": {Repair.MEND: "count the tasks anew"},
    "wait": {Repair.MEND: "find out anew what its task waits for and where it stands, from what was asked for"},
    "meta": {Repair.MEND: "make it anew from what is on record and in the execution directories"},
    "number": {Repair.MEND: "continue after the largest valid number; records beyond it are numbered again"},
    "operation": {Repair.DROP: "delete this note of a claim"},
}
"""By the table of the record: each choice, and what it does."""


def choices(place: str, *, of_task: bool) -> dict[Repair, str]:
    """What can be done about a record of that table; `of_task`: it is about a task that is there."""
    found = CHOICES.get(place, {})
    if not of_task:
        return {choice: detail for choice, detail in found.items() if choice not in _OF_A_TASK}
    return _OF_A_TASK if place == "claim" else found


def can_run_again(spec: "TaskSpec") -> bool:
    """Whether it is still known what the task was to do: not so, where that could not be read when it was repaired."""
    return spec.prompt != UNREADABLE and (spec.harness != "command" or bool(spec.argv))
