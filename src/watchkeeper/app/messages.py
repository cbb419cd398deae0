"""What becomes of a task's messages when its run is reserved or settled, or a person stops it: part of the transaction that decides that."""

from dataclasses import replace
from datetime import datetime

from watchkeeper.domain.message import (
    Addressed,
    Message,
    MessageEvent,
    RunCame,
    Taken,
    TaskStopped,
    decide_message,
    goes_on,
    next_turn,
)
from watchkeeper.domain.model import Run, Task
from watchkeeper.domain.task import RunSettled
from watchkeeper.ports.store import Tx


def apply_message(tx: Tx, message: Message, event: MessageEvent, at: datetime) -> Message:
    """Apply an event to a message: write it guarded, and journal it if it came to another state.

    Raises:
        Refused: the event is not allowed in this state.
        Stale: the row has moved on since it was read.
    """
    after = decide_message(message, event)
    if after == message:
        return message
    tx.messages.save(after, message)
    if after.state is not message.state:
        run = None if after.run_id is None else tx.runs.get(after.run_id)
        data: dict[str, object] = {"message": after.receipt, "state": after.state.value}
        if after.kind is not None:
            data["kind"] = after.kind.value
        _ = tx.journal.append(f"message.{after.state.value}", at, task_id=after.task_id, run=run, data=data)
    return after


def conversation(tx: Tx, task_id: str) -> tuple[str, str] | None:
    """The newest conversation of a task that is on record, and the id of the machine that keeps it; None: no run was seen to begin one."""
    for run in reversed(tx.runs.of_task(task_id)):
        if run.harness_session:
            return run.harness_session, run.machine
    return None


def take(tx: Tx, task: Task, run: Run, at: datetime) -> None:
    """Give a new run the messages that wait. The run's fence is the lease: only its outcome gives them back."""
    waiting = tx.messages.waiting(task.id)
    if not waiting:
        return
    session, machine = conversation(tx, task.id) or (None, "")
    turn = next_turn(run.id, task.id, waiting, session, machine)
    if turn is None:
        return
    tx.messages.add_turn(turn)
    for message in waiting:
        if message.number in turn.numbers:
            _ = apply_message(tx, message, Taken(run_id=run.id), at)


def settle(tx: Tx, task: Task, event: RunSettled) -> RunSettled:
    """Settle the messages that the run had, and say in the event whether the task continues with those that came meanwhile."""
    outcome = event.outcome
    came = tx.messages.waiting(task.id)
    for message in tx.messages.taken(task.id):
        _ = apply_message(tx, message, RunCame(outcome=outcome, again=event.again), outcome.at)
    if event.again or task.stop is not None or not goes_on(outcome, came):
        return event
    known = conversation(tx, task.id)
    for message in came:
        _ = apply_message(tx, message, Addressed(continues=known is not None), outcome.at)
    return replace(event, goes_on=True, machine=home_of(tx, known))


def stop(tx: Tx, task_id: str, at: datetime) -> None:
    """Answer what waits with "stopped"."""
    for message in tx.messages.waiting(task_id):
        _ = apply_message(tx, message, TaskStopped(at=at), at)


def home_of(tx: Tx, known: tuple[str, str] | None) -> str:
    """The machine that a task is bound to because its conversation is kept there; empty where only one machine can be meant."""
    return known[1] if known is not None and len(tx.machines.all()) > 1 else ""
