"""Records that can be read and cannot be so: they break a rule of their table, or differ from what they follow from."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple, cast

from watchkeeper.domain.task_record import TaskState
from watchkeeper.errors import RecordTorn
from watchkeeper.ports.damage import Damage
from watchkeeper.store.values import torn
from watchkeeper.store.waits import wrong_place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from watchkeeper.store.rows import Row, Rows, SqlValue

USED_UP = 1 << 62
"""A number as large as this was never given: nothing could be numbered behind it for long."""

WAIT, META, NUMBER = "wait", "meta", "number"
"""What is kept of a task's wait, by its id; what is kept of the database itself; the numbers of a table, by its name."""

_PAGE = 500


class _Table(NamedTuple):
    """How the records of a table are named."""

    place: str
    key: str
    task: str = "NULL"
    numbered: bool = False


_OF_EXECUTION = "(SELECT run.{} FROM run WHERE run.execution_id = execution.id)"
_TABLES = {
    "meta": _Table(META, "id", numbered=True),
    "machine": _Table("machine", "id"),
    "task": _Table("task", "id", "id"),
    "spec": _Table("task", "task_id", "task_id"),
    "authorisation": _Table("authorisation", "id", "task_id"),
    "execution": _Table("run", _OF_EXECUTION.format("id"), _OF_EXECUTION.format("task_id")),
    "run": _Table("run", "id", "task_id"),
    "outcome": _Table("outcome", "run_id", "(SELECT run.task_id FROM run WHERE run.id = outcome.run_id)"),
    "journal": _Table("journal", "seq", "task_id", numbered=True),
    "outbox": _Table("outbox", "id", numbered=True),
    "operation": _Table("operation", "id"),
    "tally": _Table("tally", "state"),
    "lane": _Table("lane", "id", numbered=True),
    "label": _Table(WAIT, "task_id", "task_id"),
    "dependency": _Table(WAIT, "task_id", "task_id"),
    "queue_rule": _Table("queue_rule", "trim(scope || ' ' || name)"),
    "lane_closed": _Table("lane_closed", "lane", numbered=True),
    "account": _Table("account", "harness || ':' || name"),
    "account_state": _Table("account_state", "account || ' ' || machine"),
    "harness_state": _Table("harness_state", "harness || ' ' || machine"),
}
"""Every table whose rules are looked at. Those of the others speak of nothing but keys."""


def all_of(rows: Rows) -> Iterator[Damage]:
    """Look at every record. Takes seconds for a large database."""
    for table in _TABLES:
        yield from _breaking(rows, table)
    yield from _tally(rows)
    yield from _meta(rows)
    yield from _machines(rows)
    yield from _numbers(rows)
    yield from _waits(rows)


def of_one(rows: Rows, place: str, key: str) -> Iterator[Damage]:
    """Look at one record."""
    for table, how in _TABLES.items():
        if how.place == place:
            yield from _breaking(rows, table, key)
    others = {"tally": _tally, META: _meta, "machine": _machines, NUMBER: _numbers}
    if place in others:
        yield from (each for each in others[place](rows) if each.id == key)
    if place == WAIT:
        for (number,) in rows.all("damage_number_of_task", id=key):
            yield from _page(rows.all("damage_waits", after=cast("int", number) - 1, limit=1))


def checks(sql: str) -> list[str]:
    """The conditions of the CHECKs in the text of a table or a constraint."""
    found: list[str] = []
    _, *parts = sql.split("CHECK (")
    for part in parts:
        depth = 1
        for at, letter in enumerate(part):
            depth += (letter == "(") - (letter == ")")
            if not depth:
                found.append(" ".join(part[:at].split()))
                break
    return found


def _breaking(rows: Rows, table: str, key: str | None = None) -> Iterator[Damage]:
    """Records that break a CHECK of their table."""
    how = _TABLES[table]
    rules = [rule for (text,) in rows.all("damage_rules", name=table) for rule in checks(str(text))]
    if not rules:
        return
    cases = " ".join(f"WHEN NOT ({rule}) THEN {number}" for number, rule in enumerate(rules))
    broken = " OR ".join(f"NOT ({rule})" for rule in rules)
    values: dict[str, SqlValue] = {}
    if key is not None:
        try:
            values["key"] = int(key) if how.numbered else key
        except ValueError:
            return
        broken = f"({broken}) AND {how.key} = :key"
    question = f"SELECT {how.key}, {how.task}, CASE {cases} END FROM {table} WHERE {broken}"  # noqa: S608 - names and rules of our own
    for found, task_id, number in rows.query(question, values or None):
        detail = f"it breaks a rule of its table: {rules[cast('int', number)]}"
        yield Damage.from_error(
            torn(how.place, "?" if found is None else found, detail, None if task_id is None else str(task_id))
        )


def _tally(rows: Rows) -> Iterator[Damage]:
    counts = {str(state): cast("int", number) for state, number in rows.all("damage_counts")}
    kept = {str(state): number for state, number in rows.all("tasks_counts")}
    for state in TaskState:
        really = counts.get(state.value, 0)
        if kept.get(state.value, 0) != really:
            yield Damage.from_error(
                torn(
                    "tally",
                    state.value,
                    f"{kept.get(state.value, 0)} tasks are kept as {state.value}; there are {really}",
                )
            )


def _meta(rows: Rows) -> Iterator[Damage]:
    found = rows.one("damage_meta")
    largest = largest_fence(rows)
    if found is None:
        yield Damage.from_error(torn(META, 1, "it is missing"))
    elif not found[0]:
        yield Damage.from_error(torn(META, 1, "the id of the database is empty"))
    elif not largest <= cast("int", found[1]) < USED_UP:
        yield Damage.from_error(
            torn(META, 1, f"the last fence is kept as {found[1]}; the largest on record is {largest}")
        )


def largest_fence(rows: Rows) -> int:
    """Of those on record."""
    row = rows.one("damage_largest_fence")
    return 0 if row is None else cast("int", row[0])


def _machines(rows: Rows) -> Iterator[Damage]:
    for key, incarnation in rows.all("damage_incarnations"):
        if isinstance(incarnation, int) and incarnation >= USED_UP:
            yield Damage.from_error(torn("machine", key, f"the number of its daemons is used up ({incarnation})"))


def _numbers(rows: Rows) -> Iterator[Damage]:
    for row in rows.all("damage_numbers"):
        name, largest, last = row[0], cast("int", row[1]), cast("int", row[2])
        if max(largest, last) >= USED_UP:
            yield Damage.from_error(
                torn(NUMBER, name, f"the numbers of the table are used up: the last is {max(largest, last)}")
            )
        elif last < largest:
            yield Damage.from_error(
                torn(NUMBER, name, f"the last number is kept as {last}; the largest in the table is {largest}")
            )


def torn_numbers(rows: Rows) -> list[str]:
    """The tables whose numbers cannot be."""
    return [each.id for each in _numbers(rows)]


def _waits(rows: Rows) -> Iterator[Damage]:
    after = 0
    while page := rows.all("damage_waits", after=after, limit=_PAGE):
        after = cast("int", page[-1][0])
        yield from _page(page)


def _page(page: list[Row]) -> Iterator[Damage]:
    for row in page:
        task_id, (unmet, really, blocked, claimed) = str(row[1]), row[9:]
        detail = [f"it is kept as waiting for {unmet} tasks, and waits for {really}"] if unmet != really else []
        detail += ["it is blocked, though nothing is before it in its checkout"] if blocked else []
        detail += ["its claim stands for another place than it"] if claimed else []
        with contextlib.suppress(RecordTorn):  # the task's request is torn, which is reported separately
            detail += ["it stands in another place of the queue than was asked for"] if wrong_place(row[:9]) else []
        if detail:
            yield Damage.from_error(torn(WAIT, task_id, "; ".join(detail), task_id))
