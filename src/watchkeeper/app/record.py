"""Apply one event to one record inside a transaction: decide, write guarded, journal, queue the effects."""

import re
from dataclasses import fields
from datetime import datetime
from enum import Enum
from typing import cast

from watchkeeper.app import messages
from watchkeeper.app.announce import announce_dependents
from watchkeeper.domain.model import Run, Task
from watchkeeper.domain.run import decide_run
from watchkeeper.domain.run_events import (
    RunEvent,
    RunLost,
)
from watchkeeper.domain.task import RunSettled, StopAsked, TaskEvent, decide_task
from watchkeeper.ports.runtime import SweepReport
from watchkeeper.ports.store import Tx


def apply_run(tx: Tx, run: Run, event: RunEvent, at: datetime) -> Run:
    """Apply an event to a run and return what it became.

    An event that changes nothing and wants nothing done leaves no trace: late news is not history.

    Raises:
        Refused: the event is not allowed in this state.
        Stale: the row has moved on since it was read.
    """
    decision = decide_run(run, event)
    if decision.run == run and not decision.effects:
        return run
    if decision.run != run:
        tx.runs.save(decision.run, run)
    tx.outbox.put(decision.effects, at, run.machine)  # its directory and its processes are there
    facts: dict[str, object] = {"state": decision.run.state.value, **_facts(event)}
    _ = tx.journal.append(f"run.{_kind(event)}", at, task_id=run.task_id, run=run, data=facts)
    return decision.run


def apply_task(tx: Tx, task: Task, event: TaskEvent, at: datetime) -> Task:
    """Apply an event to a task and return what it became, with its new version.

    Raises:
        Refused: the event is not allowed in this state.
        Stale: the row has moved on since it was read.
    """
    if isinstance(event, RunSettled):
        event = messages.settle(tx, task, event)
    decision = decide_task(task, event)
    if isinstance(event, StopAsked):
        messages.stop(tx, task.id, at)
    if decision.task == task and not decision.effects:
        return task
    tx.tasks.save(decision.task, task)
    tx.outbox.put(
        decision.effects, at, task.environment_machine
    )  # all that a task's effects concern is its environment
    facts: dict[str, object] = {"state": decision.task.state.value, **_facts(event)}
    _ = tx.journal.append(f"task.{_kind(event)}", at, task_id=task.id, data=facts)
    announce_dependents(tx, task, decision.task, at)
    return tx.tasks.get(task.id)


_ONLY_IF_SO = frozenset({"again", "goes_on", "machine"})
"""Facts that are in the entry only where they hold."""


def journal_sweep(tx: Tx, run: Run, sweep: SweepReport, at: datetime) -> None:
    """Tell what a sweep for the survivors of a dead shim ended and what it left alone."""
    told: dict[str, object] = {
        "proof": sweep.proof.value,
        "ended": list(sweep.ended),
        "spared": list(sweep.spared),
    }
    _ = tx.journal.append("run.swept", at, task_id=run.task_id, run=run, data=told)


def _kind(event: object) -> str:
    """`ShimStarted` is journalled as `shim_started`, and `RunLost` as `lost`, because a run is what it is about."""
    name = "Lost" if isinstance(event, RunLost) else type(event).__name__
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _facts(event: RunEvent | TaskEvent) -> dict[str, object]:
    """The event's own small facts. Records that have rows of their own (an outcome) are named, not copied."""
    facts: dict[str, object] = {}
    for field in fields(event):
        value = cast("object", getattr(event, field.name))
        if field.name == "outcome":
            facts |= _outcome_facts(value)
        elif field.name in _ONLY_IF_SO and not value:
            continue
        elif field.name not in {"at", "environment_id", "environment_machine", "run_id", "spec", "place"}:
            facts |= _plain(field.name, value)
    return facts


def _outcome_facts(outcome: object) -> dict[str, object]:
    names = ("status", "disposition", "kind", "reason", "proof", "wake_at")
    merged: dict[str, object] = {}
    for name in names:
        merged |= _plain(name, cast("object", getattr(outcome, name)))
    return merged


def _plain(name: str, value: object) -> dict[str, object]:
    """A value as JSON can hold it; nested records are spread with their own field names."""
    if value is None:
        return {}
    if isinstance(value, Enum):
        return {name: cast("object", value.value)}
    if isinstance(value, datetime):
        return {name: value.isoformat()}
    if isinstance(value, str | int | float | bool):
        return {name: value}
    merged: dict[str, object] = {}
    for field in fields(cast("RunEvent", value)):
        merged |= _plain(f"{name}_{field.name}", cast("object", getattr(value, field.name)))
    return merged
