"""Take the next task from the queue for a new run: one transaction with all eligibility inside it."""

from dataclasses import dataclass

from watchkeeper.app.record import apply_run, apply_task
from watchkeeper.domain.model import Cause, Run, RunState, Task
from watchkeeper.domain.run import NeverLaunched
from watchkeeper.domain.task import Claimed
from watchkeeper.errors import Refused
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.ids import Ids
from watchkeeper.ports.store import Claim, MachineRecord, Store, Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """Who claims: a machine in its present incarnation, with room for so many at once."""

    machine: MachineRecord
    limit: int


def claim(store: Store, clock: Clock, ids: Ids, claimant: Claimant, operation_id: str) -> Claim | None:
    """Claim the next task, or None if there is none or no room.

    The same operation id gives the same answer again, so a caller that did not see the answer asks once more; one that was cancelled claims nothing.

    Raises:
        DatabaseUnusable: nothing was claimed, or the answer was lost: ask again with the same id.
    """
    at = clock.now()

    def work(tx: Tx) -> Claim | None:
        earlier = tx.queue.operation(operation_id)
        if earlier is not None:
            return None if earlier.cancelled else earlier.claim
        newest = tx.machines.get(claimant.machine.id)
        if newest is None or newest.incarnation != claimant.machine.incarnation:
            return None  # a newer daemon has taken over; this one claims nothing more
        if tx.queue.live_claims() >= claimant.limit:
            return None
        task = tx.queue.next_ready(at)
        if task is None:
            return None
        claimed = _reserve(tx, task)
        tx.queue.record_operation(operation_id, claimed, cancelled=False, at=at)
        return claimed

    def _is_idle(tx: Tx) -> bool:
        nothing = tx.queue.live_claims() >= claimant.limit or tx.queue.next_ready(at) is None
        return nothing and tx.queue.operation(operation_id) is None

    def _reserve(tx: Tx, task: Task) -> Claim:
        number = task.runs + 1
        run = Run(
            id=f"{task.id}.{number}",
            task_id=task.id,
            number=number,
            fence=tx.runs.next_fence(),
            execution_id=ids.execution(),
            cause=Cause.INITIAL if number == 1 else Cause.RETRY,
            state=RunState.RESERVED,
            machine=claimant.machine.id,
            incarnation=claimant.machine.incarnation,
            claimed_at=at,
        )
        tx.runs.add(run)
        _ = apply_task(tx, task, Claimed(run_id=run.id, at=at), at)
        approval = tx.outcomes.authorisation(task.id)
        if approval is None:
            raise Refused(f"Nobody has authorised task {task.id}, so it is not launched.")
        tx.outcomes.record_launch(run, approval.id)
        _ = tx.journal.append("run.reserved", at, task_id=task.id, run=run, data={"state": run.state.value})
        return Claim(task_id=task.id, run_id=run.id, fence=run.fence)

    if store.read(_is_idle):
        return None  # an idle daemon takes no turn and writes nothing
    return store.transact("claim", work)


def cancel_claim(store: Store, clock: Clock, operation_id: str) -> None:
    """Make sure that this operation id claims nothing, now or later; what it had claimed and not prepared goes back to the queue."""
    at = clock.now()

    def work(tx: Tx) -> None:
        earlier = tx.queue.operation(operation_id)
        tx.queue.record_operation(operation_id, earlier.claim if earlier else None, cancelled=True, at=at)
        if earlier is None or earlier.claim is None or earlier.cancelled:
            return
        run = tx.runs.get(earlier.claim.run_id)
        if run.state is RunState.RESERVED:
            _ = apply_run(tx, run, NeverLaunched(reason="The claim was given back."), at)

    store.transact("cancel_claim", work)
