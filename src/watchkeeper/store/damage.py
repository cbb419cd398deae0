"""Records that cannot be read: those on record, and the search for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from watchkeeper.domain.task_record import TaskState
from watchkeeper.errors import NoSuchTask, NotFound, RecordTorn
from watchkeeper.ports.damage import START, Damage
from watchkeeper.store import (
    accounts,
    contradictions,
    journal,
    machines,
    notices,
    outbox,
    outcomes,
    queue,
    rules,
    tasks,
)
from watchkeeper.store.commands import StoredCommands
from watchkeeper.store.messages import StoredMessages
from watchkeeper.store.runs import StoredRuns
from watchkeeper.store.values import Columns, ticks, torn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from watchkeeper.store.rows import Row, Rows, SqlValue

_PAGE = 500

_SMALL: Mapping[str, tuple[str, Callable[[Row], object]]] = {
    "account": ("accounts_all", accounts.account_from),
    "account_state": ("damage_states", accounts.state_from),
    "harness_state": ("damage_harnesses", accounts.harness_from),
    "notice_sink": ("notices_all", notices.sink_from),
    "machine": ("machines_all", machines.machine_from),
    "queue_rule": ("rules_all", rules.rule_from),
    "lane": ("damage_lanes", queue.lane_from),
    "lane_closed": ("damage_lanes_closed", rules.announced_from),
    "tally": ("tasks_counts", tasks.count_from),
}
"""Tables that are read as a whole."""


class StoredDamages:
    """The port's `Damages`."""

    def __init__(self, rows: Rows) -> None:
        """Work within one transaction."""
        self._rows = rows

    def note(self, problem: RecordTorn) -> None:
        self._rows.met.note(problem)

    def all(self) -> list[Damage]:
        return [_damage(row) for row in self._rows.all("damage_all")]

    def of_task(self, task_id: str) -> list[Damage]:
        return [_damage(row) for row in self._rows.all("damage_of_task", task_id=task_id)]

    def keep(self, damage: Damage, at: datetime) -> bool:
        known = self._rows.run(
            "damage_keep", place=damage.place, id=damage.id, task_id=damage.task_id, reason=damage.reason, at=ticks(at)
        )
        return known == 1

    def drop(self, damage: Damage) -> None:
        _ = self._rows.run("damage_drop", place=damage.place, id=damage.id)

    def read_again(self, damage: Damage) -> Damage | None:
        return self._read_again(damage) or _first(contradictions.of_one(self._rows, damage.place, damage.id))

    def _read_again(self, damage: Damage) -> Damage | None:
        if damage.place in _SMALL:
            return next((each for each in self._small(damage.place) if each.id == damage.id), None)
        if damage.place == "claim":
            return next((each for each in self._claims() if each.id == damage.id), None)
        if damage.place == START:
            return damage if self._is_queued(damage.id) else None
        return _first(self._one(damage.place, damage.id))

    def search(self) -> Iterator[Damage]:
        yield from contradictions.all_of(self._rows)
        for place in _SMALL:
            yield from self._small(place)
        yield from self._claims()
        for row in self._pages("damage_tasks"):
            yield from self._one("task", row[1] if isinstance(row[1], str) else f"#{row[0]}")
            yield from self._one("message", str(row[1]))
        for row in self._pages("damage_runs"):
            yield from self._one("run", str(row[1]))
            yield from self._one("side_command", str(row[1]))
            yield from self._one("turn", str(row[1]))
            if row[3] == "settled":
                yield from self._one("outcome", str(row[1]))
        for row in self._pages("damage_authorisations"):
            yield from _try(lambda row=row: outcomes.authorisation_from(row[1:]))
        for row in self._pages("damage_outbox"):
            yield from _try(lambda row=row: _effect(row))
        after = 0
        while page := self._rows.all("journal_after", seq=after, limit=_PAGE):
            after = cast("int", page[-1][0])
            for row in page:
                yield from _try(lambda row=row: journal.entry_from(row))

    def _small(self, place: str) -> Iterator[Damage]:
        statement, decode = _SMALL[place]
        for row in self._rows.all(statement):
            yield from _try(lambda row=row: decode(row))

    def _claims(self) -> Iterator[Damage]:
        """Claims that cannot be read, or that have no run and task: nothing would release what they hold."""
        for row in self._rows.all("damage_whole_claims"):
            yield from _try(lambda row=row: _claim(row))
        for task_id, run_id in self._rows.all("damage_claims"):
            there = self._rows.one("damage_has_task", id=task_id) is not None
            detail = f"task and run {run_id} do not fit it" if there else "its task is gone"
            yield Damage.from_error(torn("claim", task_id, detail, str(task_id) if there else None))

    def _one(self, place: str, key: str) -> Iterator[Damage]:
        """Read one record by its key."""
        by_key = {
            "task": lambda: self._task(key),
            "run": lambda: StoredRuns(self._rows).get(key),
            "outcome": lambda: self._outcome(key),
            "side_command": lambda: StoredCommands(self._rows).of_run(key),
            "message": lambda: StoredMessages(self._rows).of_task(key.rpartition(".m")[0] or key),
            "turn": lambda: StoredMessages(self._rows).turn(key),
            "authorisation": lambda: self._numbered("damage_authorisation", outcomes.authorisation_from, id=key),
            "outbox": lambda: self._numbered("damage_outbox_one", _effect, id=int(key)),
            "journal": lambda: self._numbered("damage_journal_one", journal.entry_from, seq=int(key)),
        }
        if place not in by_key:
            return  # a place that this version does not know: nothing keeps it on record
        try:
            yield from _try(by_key[place])
        except (NoSuchTask, NotFound, ValueError):
            return  # it is gone

    def _task(self, key: str) -> None:
        """By its id, or by its number where the id cannot be read."""
        if not key.startswith("#"):
            _ = tasks.StoredTasks(self._rows).get(key)
            return
        for row in self._rows.all("damage_tasks", after=int(key[1:]) - 1, limit=1):
            if f"#{row[0]}" == key and not isinstance(row[1], str):
                raise torn("task", key, "its id is not a text")

    def _outcome(self, run_id: str) -> None:
        if outcomes.StoredOutcomes(self._rows).get(run_id) is None:
            raise torn("outcome", run_id, "it is missing", run_id.rpartition(".")[0])

    def _numbered(self, statement: str, decode: Callable[[Row], object], **key: SqlValue) -> None:
        for row in self._rows.all(statement, **key):
            _ = decode(row)

    def _is_queued(self, task_id: str) -> bool:
        try:
            return tasks.StoredTasks(self._rows).get(task_id).state is TaskState.QUEUED
        except NoSuchTask:
            return False
        except RecordTorn:
            return True

    def _pages(self, statement: str) -> Iterator[Row]:
        """All rows of a statement that pages by the number in its first column."""
        after = 0
        while page := self._rows.all(statement, after=after, limit=_PAGE):
            after = cast("int", page[-1][0])
            yield from page
            if len(page) < _PAGE:
                return


def _effect(row: Row) -> None:
    """A step. Raises RecordTorn, also for a kind that is not known here."""
    if outbox.row_from(row) is None:
        raise torn("outbox", row[0], f"its kind '{row[1]}' is not known to this version")


def _claim(row: Row) -> None:
    with Columns(row, "claim", task_id=str(row[0])) as column:
        _, _, _ = column.text(), column.text(), column.number()
        _, _, _ = column.text(), column.number(), column.text_or_none()


def _try(read: Callable[[], object]) -> Iterable[Damage]:
    try:
        _ = read()
    except RecordTorn as problem:
        return (Damage.from_error(problem),)
    return ()


def _first(found: Iterator[Damage]) -> Damage | None:
    return next(found, None)


def _damage(row: Row) -> Damage:
    with Columns(row, "damage") as column:
        return Damage(
            place=column.text(),
            id=column.text(),
            task_id=column.text_or_none(),
            reason=column.text(),
            at=column.time(),
        )
