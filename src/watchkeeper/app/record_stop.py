"""Record that a person wants a task to end.

The request is durable before anything is signalled, and bars every further launch, because it is decided on the task and not on the run.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from watchkeeper.app.record import apply_run, apply_task
from watchkeeper.app.together import DecisionResult, transact_all
from watchkeeper.domain.model import FINAL_TASK_STATES, Proof, Run, RunState, StopRequest, Task
from watchkeeper.domain.resolution import resolve_held
from watchkeeper.domain.run_events import NeverLaunched, Settled, StopWanted
from watchkeeper.domain.task import RunSettled, StopAsked
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.store import Store, Tx


def record_stop(store: Store, clock: Clock, task_id: str, request: StopRequest) -> Task:
    """Record a request to end a task and return how the task stands now. A task that has ended stays as it ended.

    What happens to its run depends on how far that is: a reserved one is proven never launched here and now; one in the launch window is decided by
    the first process to take the decision; a running agent is ended by its shim; a held one is settled on the person's word, and what may be alive of it is
    ended afterwards. That holds too for a task that was settled before without proof of its end.

    Raises:
        NoSuchTask: no task has that id.
    """
    return store.transact("stop", partial(_record, task_id=task_id, request=request, at=clock.now()))


def record_stops(
    store: Store, clock: Clock, task_ids: Sequence[str], request: StopRequest
) -> list[DecisionResult[Task]]:
    """Record a request to end many tasks in few transactions. Returns each result, in this order; a task that fails keeps no other from being stopped."""
    at = clock.now()
    works = [partial(_record, task_id=task_id, request=request, at=at) for task_id in task_ids]
    return transact_all(store, "stop", works)


def _record(tx: Tx, task_id: str, request: StopRequest, at: datetime) -> Task:
    was = tx.tasks.get(task_id)
    task = apply_task(tx, was, StopAsked(request=request), at)
    wanted = StopWanted(how=request.how, grace_s=request.grace_s)
    if was.state in FINAL_TASK_STATES:
        for last in tx.runs.of_task(task_id)[-1:]:
            _ = apply_run(tx, last, wanted, at)
        return task
    if task.run_id is None or task == was:
        return task
    run = tx.runs.get(task.run_id)
    if run.state is RunState.HELD:
        _ = apply_run(tx, run, wanted, at)
        return settle_held(tx, task, run, at, request.by)
    # Of a reserved run nothing was prepared, and the transaction that would record it as prepared is refused from now on.
    never = NeverLaunched(reason="Stopped before it started.")
    _ = apply_run(tx, run, never if run.state is RunState.RESERVED else wanted, at)
    return task


def settle_held(tx: Tx, task: Task, run: Run, at: datetime, by: str, *, proof: Proof | None = None) -> Task:
    """Settle a held run on the word of the person who stopped its task. `proof`: what was found since it was held."""
    outcome = resolve_held(task, run, at, stopped=True, by=by, proof=None if run.proof is Proof.PROVEN else proof)
    _ = apply_run(tx, run, Settled(outcome=outcome), at)
    tx.outcomes.add(outcome)
    return apply_task(tx, task, RunSettled(outcome=outcome), at)
