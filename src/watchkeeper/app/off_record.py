"""Stops that the database could not take: end the runs all the same, keep a note of each, and put it on record as soon as that can be.

    note ─▶ shim told, or gone past ─▶ … the database is back: stop and note in one order ─▶ stop on record ─▶ note forgotten

A note is recorded before anything else is concluded of its run, so that no run that a person stopped is tried again.
"""

import os
import select
import time
from dataclasses import dataclass
from datetime import datetime

from watchkeeper.app.enforce import step
from watchkeeper.app.record_stop import record_stop
from watchkeeper.domain.effects import EndExecution
from watchkeeper.domain.evidence import DecidedBy, VerdictKind, judge
from watchkeeper.domain.model import EndReason, Run, StopHow, StopRequest, Task
from watchkeeper.errors import NotFound, RecordTorn
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.off_record import StopNote
from watchkeeper.ports.runtime import Runtime
from watchkeeper.ports.store import Store, Tx

_BEYOND_S = 4.0
"""How long an end may take beyond its grace before it is said to have failed."""

_AGAIN_S = 0.1
_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What the attempt to end a run from here came to."""

    over: bool
    """Its agent is not alive any more, or will never be."""
    detail: str = ""
    """Why not."""


def end_now(runtime: Runtime, run: Run, how: StopHow, grace_s: float) -> Ended:
    """End a run directly, even if a daemon does so too, and wait for the end of its agent: the grace, and a few seconds more.

    Raises:
        OSError: the system is in trouble.
    """
    deadline = time.monotonic() + (0.0 if how is StopHow.KILL else grace_s) + _BEYOND_S
    if run.agent is None and runtime.executions().still_open(run) and runtime.take_decision(run, DecidedBy.STOP):
        return Ended(over=True)
    if _is_over(runtime, run):
        return Ended(over=True)
    effect = EndExecution(
        run_id=run.id,
        fence=run.fence,
        execution_id=run.execution_id,
        how=how,
        why=EndReason(how.value),
        grace_s=grace_s,
    )
    while True:
        made = step(runtime, run, effect, lambda sweep: sweep)
        if made.swept or (made.done and _has_ended(runtime, run, deadline)):
            return Ended(over=True)
        if time.monotonic() >= deadline:
            return Ended(
                over=False, detail=made.detail or "Its shim received the request, and its agent has not ended."
            )
        time.sleep(min(made.wait_s or _AGAIN_S, _AGAIN_S))


def _is_over(runtime: Runtime, run: Run) -> bool:
    """Whether it is proven, before anything is done, that nothing of it is alive or will be."""
    seen = runtime.observe(run, stop_asked=True)
    found = judge(seen)
    if found.kind is VerdictKind.ENDED:
        return found.empty or seen.gone is not None
    return found.kind in {VerdictKind.NEVER_LAUNCHED, VerdictKind.LOST_TO_REBOOT}


def _has_ended(runtime: Runtime, run: Run, deadline: float) -> bool:
    """Wait for the end of a run's agent; whether it came."""
    while True:
        agent = runtime.living_agent(run)
        fd = None if agent is None else runtime.watch_agent(agent)
        if fd is None:
            return True
        try:
            poller = select.poll()
            poller.register(fd, select.POLLIN)
            if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
                return False
        finally:
            os.close(fd)


def note_of(run: Run, database_id: str, how: StopHow, by: str, clock: Clock, grace_s: float | None) -> StopNote:
    """The note of a person's stop of a run."""
    return StopNote(
        database_id=database_id,
        task_id=run.task_id,
        run_id=run.id,
        fence=run.fence,
        execution_id=run.execution_id,
        how=how,
        by=by,
        at=clock.now(),
        grace_s=grace_s,
    )


def put_on_record(store: Store, clock: Clock, runtime: Runtime, task_id: str | None = None) -> bool:
    """Record the stops that the database could not take when they were made; of one task, or of all; True if there were any.

    Where there are none, the database is neither read nor written.

    Raises:
        StateError: the database cannot be used; the notes stay.
        OSError: the notes cannot be read.
    """
    notes = [note for note in runtime.off_record.notes() if task_id in {None, note.task_id}]
    for note in notes:
        if store.read(lambda tx: tx.machines.database_id()) != note.database_id:
            continue
        try:
            _record(store, clock, note)
        except RecordTorn:
            if task_id is not None:
                raise
            continue  # its task is held and named where people look; the note stays, and keeps no other from being recorded
        runtime.off_record.forget(note)
    return bool(notes)


def _record(store: Store, clock: Clock, note: StopNote) -> None:
    """Stop its task, unless the task has started another run since: a person must have asked for that. The note is recorded in either case."""
    at = clock.recorded(note.at)

    def concerned(tx: Tx) -> Task | None:
        try:
            run, task = tx.runs.get(note.run_id), tx.tasks.get(note.task_id)
        except NotFound:
            return None
        same = (run.fence, run.task_id) == (note.fence, note.task_id) and task.runs == run.number
        return task if same else None

    was = store.read(concerned)
    if was is not None:
        request = StopRequest(how=note.how, by=note.by, at=at, grace_s=note.grace_s)
        task = record_stop(store, clock, note.task_id, request)
        by_it = task.stop is not None and (task.stop.by, task.stop.how) == (note.by, note.how)
        if task != was or by_it:
            return
    store.transact("stop_noted", lambda tx: _record_stop(tx, note, clock.now()))


def _record_stop(tx: Tx, note: StopNote, at: datetime) -> None:
    """Put a stop into the history that changes nothing any more: its task was repaired, or came to its end otherwise. Twice is once."""
    told: dict[str, object] = {
        "how": note.how.value,
        "by": note.by,
        "asked_at": note.at.isoformat(),
        "run": note.run_id,
        "execution": note.execution_id,
    }
    after = 0
    while page := tx.journal.after(after, _PAGE, note.task_id):
        if any(entry.kind == "task.stopped_off_record" and dict(entry.data) == told for entry in page):
            return
        after = page[-1].seq
    _ = tx.journal.append("task.stopped_off_record", at, task_id=note.task_id, data=told)
