"""The facts behind the wait of a single task, and their audit: what is kept must be what it is derived from."""

from watchkeeper.domain.model import RunState, TaskState
from watchkeeper.domain.waiting import Dependency, WaitFacts
from watchkeeper.errors import NoSuchTask
from watchkeeper.store.queue import lane_from
from watchkeeper.store.rows import Row, Rows
from watchkeeper.store.tasks import spec_from
from watchkeeper.store.values import Columns, readable, torn

_TOLD = 20
"""How many faults of one kind are listed."""

_PAGE = 500


class StoredWaits:
    """The port's `Waits`."""

    def __init__(self, rows: Rows) -> None:
        """Work within one transaction."""
        self._rows = rows

    def facts(self, task_id: str) -> WaitFacts:
        row, lane = self._rows.one("waits_facts", task_id=task_id), self._rows.one("waits_lane", task_id=task_id)
        if row is not None and lane is None:
            raise torn("lane", row[4], "it is missing", task_id)
        if row is None or lane is None:
            raise NoSuchTask(f"There is no task '{task_id}'.")
        with Columns(row, "task") as column:
            ready, unmet, blocked = bool(column.number()), column.number(), bool(column.number())
            checkout, lane_id, priority = column.text_or_none(), column.number(), column.number()
        place = lane_from(lane)
        holders = [] if checkout is None else self._rows.all("waits_holders", checkout=checkout)
        here = [
            (str(holder), state, str(machine))
            for machine, holder, state in holders
            if holder != task_id and place.machine in {None, machine}
        ]
        before = None
        if blocked:
            before = self._rows.one("waits_before", id=task_id, checkout=checkout, lane=lane_id, priority=priority)
        return WaitFacts(
            lane=place,
            ready=ready,
            unmet=unmet,
            blocked=blocked,
            holders=tuple(holder for holder, *_ in here),
            taken_on=tuple(machine for *_, machine in here),
            held=tuple(holder for holder, state, _ in here if state == RunState.HELD),
            before=None if before is None else str(before[0]),
        )

    def dependencies(self, task_id: str) -> list[Dependency]:
        return readable(self._rows, self._rows.all("waits_dependencies", task_id=task_id), _dependency)

    def dependents(self, task_id: str) -> list[str]:
        return [str(row[0]) for row in self._rows.all("waits_dependents", on_id=task_id)]

    def is_wanted(self, checkout: str) -> bool:
        return self._rows.one("waits_is_wanted", checkout=checkout) is not None

    def audit(self) -> list[str]:
        faults = [
            f"Task {task_id} is kept as waiting for {kept} tasks; it waits for {really}."
            for task_id, kept, really in self._rows.all("waits_wrong_unmet", limit=_TOLD)
        ]
        faults += [
            f"Task {task_id} is blocked, though no task is before it in {checkout}."
            for task_id, checkout in self._rows.all("waits_wrong_blocked", limit=_TOLD)
        ]
        faults += [
            f"The claim of task {task_id} stands for another place than the task."
            for (task_id,) in self._rows.all("waits_wrong_claim", limit=_TOLD)
        ]
        faults += [
            f"The probe of account {account} is {run}, which is a run of another account or machine."
            for account, run in self._rows.all("waits_wrong_probe", limit=_TOLD)
        ]
        return faults + self._wrong_places()

    def _wrong_places(self) -> list[str]:
        """Tasks whose place in the queue is not what was asked for."""
        faults: list[str] = []
        after = 0
        while (page := self._rows.all("waits_bodies", after=after, limit=_PAGE)) and len(faults) < _TOLD:
            after = max(int(row[0] or 0) for row in page)
            faults += [fault for fault in readable(self._rows, page, wrong_place) if fault]
        return faults


def wrong_place(row: Row) -> str:
    """What is wrong with a task's place in the queue, as a sentence; empty: nothing. Raises RecordTorn."""
    with Columns(row, "task", key=str(row[1]), task_id=str(row[1])) as column:
        _, task_id = column.number(), column.text()
        kept = (column.number(), *(column.text_or_none() for _ in range(5)))
        spec = spec_from(column.text())
    asked = (spec.priority, spec.checkout, spec.machine or "", spec.harness, spec.account_id, spec.project)
    return "" if kept == asked else f"Task {task_id} stands in another place of the queue than was asked for."


def _dependency(row: Row) -> Dependency:
    with Columns(row, "task", task_id=str(row[0])) as column:
        return Dependency(task_id=column.text(), state=column.choice(TaskState))
