"""Repair a record that cannot be read, as a person chose, in one transaction.

Ours are the rows of one record or of one task. What the database's own rules forbid (a settled run is final, a fact once known stays) is what a torn record
may have broken, so the triggers are set aside; the checks and keys of the tables hold all the while.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, replace
from functools import partial
from typing import TYPE_CHECKING, cast

from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.message import MessageState
from watchkeeper.domain.outcome_record import Disposition, Outcome, OutcomeStatus
from watchkeeper.domain.repair import UNREADABLE, Repair
from watchkeeper.domain.run_record import Proof, RunState
from watchkeeper.domain.task_record import TaskSpec
from watchkeeper.errors import RecordTorn, Refused
from watchkeeper.ports.damage import START
from watchkeeper.store import commands, contradictions, messages
from watchkeeper.store.damage import StoredDamages
from watchkeeper.store.deletion import StoredDeletion
from watchkeeper.store.facts import exit_from
from watchkeeper.store.outcomes import StoredOutcomes, authorisation_from
from watchkeeper.store.rows import RowConflict
from watchkeeper.store.runs import StoredRuns
from watchkeeper.store.tasks import StoredTasks, spec_from, spec_text
from watchkeeper.store.values import record, ticks, to_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from watchkeeper.ports.damage import Damage, Known
    from watchkeeper.store.moving import DatabaseLocation, OpenStore
    from watchkeeper.store.rows import Rows, SqlValue
    from watchkeeper.store.tx import StoredTx

_DROPS = {
    "outbox": "repair_drop_outbox",
    "journal": "repair_drop_journal",
    "account": "repair_drop_account",
    "account_state": "repair_drop_account_state",
    "harness_state": "repair_drop_harness_state",
    "lane_closed": "repair_drop_lane_closed",
    "queue_rule": "repair_drop_queue_rule",
    "machine": "repair_drop_machine",
    "notice_sink": "repair_drop_notice_sinks",
    "operation": "repair_drop_operation",
}
"""By table, the statement that deletes one record."""

_NUMBERED = frozenset({"outbox", "journal", "lane_closed"})
"""Tables whose keys are numbers."""

_NUMBERS = {"task": "seq", "authorisation": "seq", "journal": "seq", "outbox": "id", "lane": "id"}
"""By table, the column of its numbers."""

_GAP = 1000
"""So many fences, or numbers, are passed over, lest one is given twice whose record is gone."""


def repair(
    store: OpenStore,
    there: DatabaseLocation,
    damage: Damage,
    what: Repair,
    *,
    reason: str,
    by: str,
    at: datetime,
    known: Known,
) -> None:
    """Do to a record that cannot be read what a person chose, and journal it, in one transaction.

    Args:
        store: the database, open.
        there: the same, for what each kind of database does in its own way.
        damage: the record.
        what: the choice.
        reason: what its task is said to have failed of.
        by: who chose.
        at: when.
        known: what the execution directories tell of the database.

    Raises:
        Refused: it cannot be read even so, or another record stands against it. Nothing was changed.
        DatabaseUnusable: and its kinds. Nothing was changed.
    """

    def work(tx: StoredTx) -> None:
        rows = tx.rows
        aside = there.set_rules_aside(rows)
        if damage.place == contradictions.NUMBER:
            for table in contradictions.torn_numbers(rows):  # every table: the journal's entry takes a number, too
                _renumber(rows, there, table)
        _repair(rows, damage, what, reason, at, known)
        there.put_rules_back(rows, aside)
        data = {"record": damage.name, "what": what.value, "by": by, "reason": damage.reason}
        _ = tx.journal.append("record.repaired", at, task_id=damage.task_id, data=data)

    store.transact("repair", work)


def _repair(rows: Rows, damage: Damage, what: Repair, reason: str, at: datetime, known: Known) -> None:
    try:
        _do(rows, damage, what, reason, at, known)
    except (RowConflict, RecordTorn) as problem:
        raise Refused(
            f"'{what}' does not go for {damage.name} ({problem}): nothing was changed.", hint="Choose another."
        ) from problem
    left = None if damage.place == START else StoredDamages(rows).read_again(damage)
    if left is not None:
        raise Refused(
            f"After '{what}' {damage.name} is as it was ({left.reason}): nothing was changed.", hint="Choose another."
        )


def _do(rows: Rows, damage: Damage, what: Repair, reason: str, at: datetime, known: Known) -> None:
    if what is Repair.DROP and damage.place == "claim":
        _let_go(rows, damage.id)
        StoredDeletion(rows).remove_remains(damage.id)
    elif what is Repair.DROP and damage.place in _DROPS:
        key = int(damage.id) if damage.place in _NUMBERED else damage.id
        _ = rows.run(_DROPS[damage.place], key=key)
    elif what is Repair.MEND and damage.place == "lane":
        _mend_lane(rows, damage.id)
    elif what is Repair.MEND and damage.place == contradictions.WAIT:
        _mend_wait(rows, damage.id)
    elif what is Repair.MEND and damage.place == contradictions.META:
        fence = max(known.fence, contradictions.largest_fence(rows)) + _GAP
        _ = rows.run("repair_meta", database_id=known.database_id, fence=fence, most=contradictions.USED_UP - 1)
    elif what is Repair.FAIL and damage.task_id is not None:
        _fail(rows, damage.task_id, reason, at)
    elif what is Repair.FORGET and damage.task_id is not None:
        _let_go(rows, damage.task_id)
        StoredDeletion(rows).remove_task(damage.task_id)
    _ = rows.run("repair_tally_states")
    _ = rows.run("repair_tally")
    _ = rows.run("damage_drop", place=damage.place, id=damage.id)
    if what in {Repair.FAIL, Repair.FORGET}:
        _ = rows.run("repair_forget_damage", task_id=damage.task_id)


def _mend_lane(rows: Rows, lane: str) -> None:
    key = int(lane)
    tasks = StoredTasks(rows)
    ids = [str(row[0]) for row in rows.all("repair_lane_tasks", key=key)]
    for task in tasks.some(ids):
        tasks.place_anew(task)
    _ = rows.run("repair_claim_lanes", key=key)
    if not rows.all("repair_lane_tasks", key=key):
        _ = rows.run("repair_drop_lane", key=key)


def _mend_wait(rows: Rows, task_id: str) -> None:
    tasks = StoredTasks(rows)
    tasks.place_anew(tasks.get(task_id))
    _ = rows.run("repair_dependency_on_itself", id=task_id)
    _ = rows.run("repair_empty_label", id=task_id)
    _ = rows.run("tasks_count_unmet", id=task_id)
    _ = rows.run("repair_claim_place", id=task_id)


def _renumber(rows: Rows, there: DatabaseLocation, table: str) -> None:
    """Number records anew that are beyond every valid number, and continue after the largest. No trigger may act."""
    key = _NUMBERS[table]
    most = contradictions.USED_UP
    ((largest,),) = rows.query(f"SELECT coalesce(max({key}), 0) FROM {table} WHERE {key} < :most", {"most": most})  # noqa: S608 - names of our own
    last = cast("int", largest)
    for (was,) in rows.query(f"SELECT {key} FROM {table} WHERE {key} >= :most ORDER BY {key}", {"most": most}):  # noqa: S608 - as above
        last += 1
        _ = rows.query(f"UPDATE {table} SET {key} = :now WHERE {key} = :was", {"now": last, "was": was})  # noqa: S608 - as above
    there.set_numbers(rows, {**there.numbers(rows), table: last + _GAP})


def _fail(rows: Rows, task_id: str, reason: str, at: datetime) -> None:
    """End a task as failed. What can be read of it stays."""
    _let_go(rows, task_id)
    body = rows.one("repair_spec", task_id=task_id)
    _ = rows.run("repair_put_spec", task_id=task_id, body=spec_text(_salvaged("" if body is None else body[0])))
    _ = rows.run("repair_task", task_id=task_id, reason=reason, at=ticks(at))
    tasks = StoredTasks(rows)
    tasks.place_anew(tasks.get(task_id))
    for run_id, fence, state, execution_id, found in rows.all("repair_runs", task_id=task_id):
        if state == RunState.SETTLED.value and _is_whole(rows, str(run_id)):
            continue
        _ = rows.run("repair_add_execution", id=execution_id, task_id=task_id)
        _ = rows.run("repair_execution", id=execution_id, exit=_exit(found))
        _ = rows.run("repair_run", id=run_id, reason=reason, at=ticks(at))
        _ = rows.run("repair_drop_outcome", run_id=run_id)
        outcome = Outcome(
            run_id=str(run_id),
            fence=cast("int", fence),
            status=OutcomeStatus.FAILED,
            disposition=Disposition.FAILED,
            kind=FailureKind.UNKNOWN,
            reason=reason,
            at=at,
            proof=Proof.UNPROVEN,
        )
        StoredOutcomes(rows).add(outcome)
    for row in rows.all("repair_authorisations", task_id=task_id):
        try:
            _ = authorisation_from(row)
        except RecordTorn:
            _ = rows.run("repair_drop_launches", id=row[0])
            _ = rows.run("repair_drop_authorisation", id=row[0])
    _drop_torn(rows, task_id)
    kept = messages.StoredMessages(rows)
    for was in (*kept.waiting(task_id), *kept.taken(task_id)):
        kept.save(replace(was, state=MessageState.FAILED, kind=FailureKind.UNKNOWN, settled_at=at), was)


def _drop_torn(rows: Rows, task_id: str) -> None:
    """Let go of what of a task's commands, messages and turns cannot be read: nothing is decided by it any more."""
    for row in rows.all("repair_side_commands", task_id=task_id):
        if _is_torn(partial(commands.command_from, row[:3])):
            _ = rows.run("repair_drop_side_command", run_id=row[0], kind=row[3], number=row[4])
    for row in rows.all("messages_of_task", task_id=task_id):
        if _is_torn(partial(messages.message_from, row)):
            _ = rows.run("repair_drop_message", task_id=task_id, number=row[1])
    for row in rows.all("repair_turns", task_id=task_id):
        if _is_torn(partial(messages.turn_from, row)):
            _ = rows.run("repair_drop_turn", run_id=row[0])


def _is_torn(read: Callable[[], object]) -> bool:
    try:
        _ = read()
    except RecordTorn:
        return True
    return False


def _let_go(rows: Rows, task_id: str) -> None:
    """Release what its claim holds."""
    for (checkout,) in rows.all("repair_drop_claim", task_id=task_id):
        if checkout is not None:
            _ = rows.run("queue_unblock", checkout=checkout)


def _is_whole(rows: Rows, run_id: str) -> bool:
    try:
        _ = StoredRuns(rows).get(run_id)
        return StoredOutcomes(rows).get(run_id) is not None
    except RecordTorn:
        return False


def _exit(found: SqlValue) -> str | None:
    """The exit fact, if it can be read."""
    try:
        return found if isinstance(found, str) and exit_from(found) is not None else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _salvaged(body: SqlValue) -> TaskSpec:
    """What was asked for, as far as it can be read, field by field."""
    try:
        data = record(str(body))
    except ValueError:
        data = {}
    kept: dict[str, object] = {
        "prompt": UNREADABLE,
        "title": UNREADABLE,
        "harness": "command",
        "model": None,
        "cwd": "/",
    }
    for field in fields(TaskSpec):
        if field.name in data:
            one = kept | {field.name: data[field.name]}
            try:
                _ = spec_from(to_json(one))
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
                continue
            kept = one
    assert all(field.default is not MISSING or field.name in kept for field in fields(TaskSpec))  # noqa: S101 - a field without a default has one here
    return spec_from(to_json(kept))
