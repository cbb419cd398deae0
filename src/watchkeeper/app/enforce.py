"""End a run that is not settled, because its task is to stop or the service ends with its agents: by its shim if that answers, else by identity.

    tell the shim ─▶ it acknowledges: it acts, and an overdue request is sent again (`renew`)
        └▶ it does not: one step after the other past it, until nothing is found alive; what stands in the way is on record and shown

A wish is dropped by nothing but the end of the run: neither by a shim that was killed, nor by a directory that was deleted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from watchkeeper.app.record import apply_run, journal_sweep
from watchkeeper.app.record_stop import settle_held
from watchkeeper.domain.effects import EndExecution
from watchkeeper.domain.model import EndReason, Proof, Run, RunState, StopHow, Task
from watchkeeper.domain.run_events import (
    StopFailed,
    StopOverdue,
    StopTold,
)
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.runtime import Forced, Runtime, ShimUnreachable, SweepReport
from watchkeeper.ports.store import OutboxRow, Store, Tx

OVERDUE_S = 4.0
"""How long after its grace a run that was asked to end may take before the request is sent again and reported."""

_FORCED = frozenset({EndReason.STOP, EndReason.KILL, EndReason.INTERRUPTED})
"""A person wants these ended. What only we judged hopeless is left to its shim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one attempt came to."""

    done: bool
    """The effect is done: the shim has acknowledged it."""
    wait_s: float | None = None
    """When to try again; None: as late as its attempts say."""
    detail: str | None = None
    """Why it has failed so far."""
    sweep: SweepReport | None = None
    event: StopTold | None = None
    swept: bool = False
    """Nothing of the run is found alive any more."""


def step(runtime: Runtime, run: Run, effect: EndExecution, hide: Callable[[SweepReport], SweepReport]) -> Step:
    """Try once. `hide` takes the secrets out of what a sweep tells. Raises OSError if the system is in trouble."""
    event = StopTold(how=effect.how) if effect.why.value == effect.how.value else None
    try:
        acknowledged = runtime.end(run, effect.how, grace_s=effect.grace_s, why=effect.why)
    except ShimUnreachable as problem:
        if effect.why not in _FORCED:
            return Step(done=False)
        return _step_from(runtime.force(run, effect.how, grace_s=effect.grace_s, signalled=False), str(problem), hide)
    if acknowledged or effect.why not in _FORCED:
        return Step(done=True, event=event)
    return _step_from(runtime.force(run, effect.how, grace_s=effect.grace_s, signalled=True), "Its shim is deaf.", hide)


def _step_from(forced: Forced, why: str, hide: Callable[[SweepReport], SweepReport]) -> Step:
    if forced.sweep is None:
        return Step(done=False, wait_s=forced.wait_s)
    sweep = hide(forced.sweep)
    if sweep.proof is not Proof.UNPROVEN:
        return Step(done=False, sweep=sweep, swept=True)
    return Step(done=False, detail=" ".join((why, *sweep.spared)), sweep=sweep)


def record(tx: Tx, row: OutboxRow, run: Run, made: Step, clock: Clock, wait_s: float) -> None:
    """Record what an attempt came to; `wait_s`: after how long there is another, unless the attempt says so itself."""
    at = clock.now()
    now = tx.runs.get(run.id)
    same = now.fence == run.fence and now.state is not RunState.SETTLED
    if made.sweep is not None and (made.sweep.ended or made.swept) and same:
        journal_sweep(tx, now, made.sweep, at)
    if same and made.event is not None:
        now = apply_run(tx, now, made.event, at)
    if same and made.detail is not None and now.stop_failed != made.detail:
        now = apply_run(tx, now, StopFailed(reason=made.detail), at)
    if same and made.swept and now.state is RunState.HELD:
        _settle(tx, now, clock)
    if made.done:
        tx.outbox.done(row.id)
    else:
        tx.outbox.again(row.id, at + timedelta(seconds=wait_s if made.wait_s is None else made.wait_s))


def _settle(tx: Tx, run: Run, clock: Clock) -> None:
    """A run was held after its task had been told to stop. Its stop is the person's word on it, and nothing of it is left."""
    task = tx.tasks.get(run.task_id)
    if task.stop is not None and task.run_id == run.id:
        _ = settle_held(tx, task, run, clock.now(), task.stop.by, proof=Proof.SWEPT)


def renew(store: Store, clock: Clock, machine: str) -> list[str]:
    """Send the request again to every run that was asked to stop and has not ended in time; returns these. It was acknowledged, so nothing else would be done.

    Raises:
        StateError: the database cannot be used.
    """
    now = clock.now()

    def overdue(tx: Tx) -> list[str]:
        told = [run for run in tx.runs.live(machine) if run.stop_told is not None]
        return [run.id for run in told if _is_overdue(tx.tasks.get(run.task_id), run, now.timestamp())]

    late = store.read(overdue)

    def work(tx: Tx) -> None:
        for run_id in late:
            run = tx.runs.get(run_id)
            task = tx.tasks.get(run.task_id)
            if task.stop is not None and run.state is not RunState.SETTLED:
                event = StopOverdue(how=task.stop.how, reason=_describe_overdue(run))
                _ = apply_run(tx, run, event, clock.now())

    if late:
        store.transact("renew_stops", work)
    return late


def _is_overdue(task: Task, run: Run, now_s: float) -> bool:
    stop = task.stop
    if stop is None or run.stop_told is None or task.run_id != run.id:
        return False
    grace_s = 0.0 if stop.how is StopHow.KILL else stop.grace_s if stop.grace_s is not None else _LONGEST_GRACE_S
    return now_s > stop.at.timestamp() + grace_s + OVERDUE_S


_LONGEST_GRACE_S = 15.0
"""Of a stop that names no grace: the usual one, and what its leftovers may take."""


def _describe_overdue(run: Run) -> str:
    if run.exit is not None:
        return "Its shim received the request and its agent has ended, but what that left has not, or the rest of the output waits for room on the disk."
    agent = f"its agent (pid {run.agent.pid})" if run.agent is not None else "its agent"
    return f"Its shim received the request, and {agent} has not ended; it may wait for a disk or a device."
