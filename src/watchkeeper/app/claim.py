"""Take the next task from the queue for a new run: one transaction with all eligibility inside it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from watchkeeper.app.announce import announce_blocked
from watchkeeper.app.lane_conditions import lane_conditions
from watchkeeper.app.messages import take
from watchkeeper.app.record import apply_task
from watchkeeper.domain.lanes import Lane, LaneConditions, Reason, closed, open_lanes, probed_accounts
from watchkeeper.domain.model import Cause, Run, RunState, Task
from watchkeeper.domain.service import ProbeStarted, rests_until
from watchkeeper.domain.task import Claimed
from watchkeeper.errors import DaemonError, DatabaseUnusable, RecordTorn, Refused, WatchkeeperError
from watchkeeper.ports.clock import Clock
from watchkeeper.ports.damage import START
from watchkeeper.ports.ids import Ids
from watchkeeper.ports.store import BatchLimitReached, Claim, Damage, MachineRecord, Store, Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """Who claims: a machine in its present incarnation, with room for so many at once."""

    machine: MachineRecord
    limit: int


class _Again:
    """There was so much to wake or to block that the transaction ended with that."""


def claim(store: Store, clock: Clock, ids: Ids, claimant: Claimant, operation_id: str) -> Claim | None:
    """Claim the next task, or None if there is none that may run here now; each change of why its lane is closed is journalled once.

    The same operation id gives the same answer again, so a caller that did not see the answer asks once more.

    Raises:
        DatabaseUnusable: nothing was claimed, or the answer was lost: ask again with the same id.
    """
    machine = claimant.machine
    chosen: list[str] = []

    def work(tx: Tx) -> Claim | _Again | None:
        chosen.clear()
        at = clock.now()  # now that it is our turn: while we waited for it, or were stopped, the lease may have ended
        earlier = tx.queue.operation(operation_id)
        if earlier is not None:
            return earlier.claim
        newest = _own(tx, machine, is_shared=store.is_shared)
        if newest is None or (newest.incarnation, newest.holder) != (machine.incarnation, machine.holder):
            return None  # a newer daemon has taken over; this one claims nothing more
        if newest.lease_until is not None and newest.lease_until <= at:
            return None  # we slept, or could not reach the database: the lease is renewed first
        if tx.queue.wake(at):
            return _Again()
        conditions = lane_conditions(tx, machine.id, claimant.limit, at)
        unblock_free_checkouts(tx, conditions)
        lanes = tx.queue.lanes()
        blocked = partial(announce_blocked, tx, at)
        probed = probed_accounts(conditions)
        task = tx.queue.first(open_lanes(lanes, conditions), machine.id, blocked, probed)
        if isinstance(task, BatchLimitReached):
            return _Again()
        if task is None:
            _announce_closed(tx, lanes, conditions)
            return None
        chosen.append(task.id)
        claimed = _reserve(tx, task, claimant, ids, at)
        if task.spec.account_id in probed:
            _begin_probe(tx, task, claimed, conditions)
        tx.queue.record_operation(operation_id, claimed, at=at)
        return claimed

    if store.read(lambda tx: _is_idle(tx, claimant, operation_id, clock.now())):
        return None  # an idle daemon takes no turn and writes nothing
    while isinstance(answer := _try(store, clock, work, chosen), _Again):
        pass
    return answer


def _own(tx: Tx, machine: MachineRecord, *, is_shared: bool) -> MachineRecord | None:
    """This machine's record. If the database is not shared, the daemon's lock proves the record's content, so a torn one is rebuilt."""
    try:
        found = tx.machines.get(machine.id)
        if found is not None or is_shared:
            return found
    except RecordTorn:
        if is_shared:
            raise
    tx.machines.mend(machine)
    return machine


def _try(
    store: Store, clock: Clock, work: Callable[[Tx], Claim | _Again | None], chosen: list[str]
) -> Claim | _Again | None:
    """One try. A task that cannot be claimed because of what is stored about it is set aside, and keeps no other from its turn.

    Raises:
        DatabaseUnusable: as a whole.
    """
    chosen.clear()
    try:
        return store.transact("claim", work)
    except RecordTorn as torn:
        if torn.task_id is None:
            raise
        damage = Damage.from_error(torn)
    except (DatabaseUnusable, DaemonError):
        raise
    except WatchkeeperError as problem:
        if not chosen:
            raise
        damage = Damage(place=START, id=chosen[0], task_id=chosen[0], reason=str(problem))
    store.transact("set_aside", lambda tx: set_aside(tx, damage, clock.now()))
    return _Again()


def set_aside(tx: Tx, damage: Damage, at: datetime) -> None:
    """Put a task aside if one of its records cannot be read or contradicts the others: it is not claimed until that is mended. Its agent continues."""
    if tx.damage.keep(damage, at):
        data = {"record": damage.name, "reason": damage.reason}
        _ = tx.journal.append(
            "task.torn" if damage.place == START else "record.torn", at, task_id=damage.task_id, data=data
        )


def _is_idle(tx: Tx, claimant: Claimant, operation_id: str, at: datetime) -> bool:
    """Whether a claim would find nothing to do and nothing to tell. Reads only."""
    if tx.queue.operation(operation_id) is not None:
        return False
    due = tx.queue.next_wake()
    if due is not None and due <= at:
        return False
    announced, lanes = tx.rules.announced(claimant.machine.id), tx.queue.lanes()
    blocked = [lane for _, lane in tx.queue.blocked_for_others(claimant.machine.id)]
    if not lanes and not blocked:
        return not announced
    conditions = lane_conditions(tx, claimant.machine.id, claimant.limit, at)
    return not open_lanes([*lanes, *blocked], conditions) and _closed(lanes, conditions) == announced


def next_check_at(tx: Tx, machine: str, looked: datetime) -> datetime | None:
    """When a claim on that machine may find more than one that looked at `looked`, by the mere passing of time; None: never.

    The next task becomes due, or the next probe of a service.
    """
    times = [rests_until(state, looked) for state in tx.accounts.states(machine).values()]
    times.append(tx.queue.next_wake())
    return min((at for at in times if at is not None and at > looked), default=None)


def _begin_probe(tx: Tx, task: Task, claimed: Claim, conditions: LaneConditions) -> None:
    """The run tries the service for all tasks of its account: until it ends, or shows an answer, no other one starts."""
    account = task.spec.account_id
    _ = tx.accounts.observe(account, conditions.machine, ProbeStarted(run_id=claimed.run_id))
    data = {"account": account, "machine": conditions.machine}
    run = tx.runs.get(claimed.run_id)
    _ = tx.journal.append("account.probe", conditions.now, task_id=task.id, run=run, data=data)


def unblock_free_checkouts(tx: Tx, conditions: LaneConditions) -> None:
    """Tasks that any machine may run, and that are blocked for their checkout on another one, may be claimed here, where that checkout is free."""
    for checkout, lane in tx.queue.blocked_for_others(conditions.machine):
        if open_lanes([lane], conditions):
            tx.queue.unblock(checkout, lane)


def _reserve(tx: Tx, task: Task, claimant: Claimant, ids: Ids, at: datetime) -> Claim:
    """Make the run that owns the task from now on."""
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
        raise Refused(f"Task {task.id} has no authorisation, so it is not launched.")
    tx.outcomes.record_launch(run, approval.id)
    take(tx, task, run, at)
    _ = tx.journal.append("run.reserved", at, task_id=task.id, run=run, data={"state": run.state.value})
    return Claim(task_id=task.id, run_id=run.id, fence=run.fence)


def _closed(lanes: Sequence[Lane], conditions: LaneConditions) -> dict[int, str]:
    """By lane, the word for why it is closed; open ones are left out."""
    return {lane: reason.wait.value for lane, reason in _first_reasons(lanes, conditions).items()}


def _first_reasons(lanes: Sequence[Lane], conditions: LaneConditions) -> dict[int, Reason]:
    """By lane, the most lasting reason for which it is closed; open ones are left out."""
    return {lane.id: reasons[0] for lane in lanes if (reasons := closed(lane, conditions))}


def _announce_closed(tx: Tx, lanes: Sequence[Lane], conditions: LaneConditions) -> None:
    """Journal each change of why a lane's tasks wait, once. A lane without ready tasks is skipped."""
    announced, reasons = tx.rules.announced(conditions.machine), _first_reasons(lanes, conditions)
    known = {lane.id: lane for lane in lanes}
    for lane_id in announced.keys() | reasons.keys():
        reason = reasons.get(lane_id)
        word = None if reason is None else reason.wait.value
        if announced.get(lane_id) == word:
            continue
        lane = known.get(lane_id)
        if lane is None:
            tx.rules.forget(conditions.machine, lane_id)
            continue
        tx.rules.announce(conditions.machine, lane, word, conditions.now)
        about = {
            "machine": conditions.machine,
            "harness": lane.harness,
            "account": lane.account,
            "project": lane.project,
        }
        data = {**about, "wait": word, "detail": "" if reason is None else reason.detail}
        _ = tx.journal.append("queue.moving" if reason is None else "queue.waiting", conditions.now, data=data)
