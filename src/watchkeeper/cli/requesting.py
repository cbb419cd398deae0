"""Putting the stops of many tasks on record: in few transactions, and each with its own result."""

import contextlib
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from watchkeeper.cli import direct
from watchkeeper.domain.model import FINAL_TASK_STATES, Proof, Run, StopHow, StopRequest, Task, TaskState
from watchkeeper.errors import DatabaseFull, DatabaseUnusable, RecordTorn, WatchkeeperError

if TYPE_CHECKING:
    from watchkeeper.app.together import Result
    from watchkeeper.cli.call import Call
    from watchkeeper.cli.ending_words import Report

_TOGETHER = 16
"""So many stops are prepared at once; the daemon acts on these while the next ones are recorded."""


def find_all(call: "Call", names: Sequence[str]) -> "dict[str, Result[str]]":
    """The ids of the tasks that were meant, or why there is none. When the database makes trouble, the remaining names are left out."""
    from watchkeeper.app.together import Result

    found: dict[str, Result[str]] = {}

    def work() -> None:
        for name in names:
            try:
                found[name] = Result(value=call.find(name)[1])
            except WatchkeeperError as error:
                if direct.is_away(error):
                    return
                found[name] = Result(problem=error)

    with contextlib.suppress(DatabaseUnusable):
        direct.within(work, tasks=len(names))
    return dict(found)


def ask_all(call: "Call", reports: "list[Report]", how: StopHow, grace_s: float | None) -> None:
    """Put every stop on record. What the database cannot take, or not in time, is noted in the report."""
    asked = [report for report in reports if report.task_id is not None and report.unwritten is None]
    given_up = threading.Event()

    def work() -> None:
        for at in range(0, len(asked), _TOGETHER):
            if given_up.is_set():  # no caller waits for this any more
                return
            ask(call, asked[at : at + _TOGETHER], how, grace_s)

    try:
        direct.within(work, tasks=len(asked))
    except DatabaseUnusable as error:
        given_up.set()
        for report in asked:
            if report.task is None and report.error is None and report.unwritten is None:
                report.unwritten = error


def ask(call: "Call", reports: "Sequence[Report]", how: StopHow, grace_s: float | None) -> None:
    """Put these stops on record. On a full disk the room that was set aside is used."""
    problems = _record(call, reports, how, grace_s)
    full = [report for report, problem in zip(reports, problems, strict=True) if isinstance(problem, DatabaseFull)]
    if full and direct.make_room(call):
        again = dict(zip(map(id, full), _record(call, full, how, grace_s), strict=True))
        problems = [again.get(id(report), problem) for report, problem in zip(reports, problems, strict=True)]
    for report, problem in zip(reports, problems, strict=True):
        if isinstance(problem, DatabaseUnusable) and direct.is_away(problem):
            report.unwritten = problem
        elif isinstance(problem, WatchkeeperError):
            report.error = problem
        elif problem is not None:
            raise problem


def _record(call: "Call", reports: "Sequence[Report]", how: StopHow, grace_s: float | None) -> list[Exception | None]:
    """Record what can be recorded, and return the problem of each report, in their order."""
    from watchkeeper.app.stop import stop_all

    parts = call.writing
    problems: list[Exception | None] = [
        _before(call, report, was)
        for report, was in zip(reports, _tasks(call, [report.task_id or "" for report in reports]), strict=True)
    ]
    ready = [number for number, problem in enumerate(problems) if problem is None]
    request = StopRequest(how=how, by=call.person, at=parts.clock.now(), grace_s=grace_s)
    made = stop_all(parts.store, parts.clock, [reports[number].task_id or "" for number in ready], request)
    for number, result in zip(ready, made, strict=True):
        report = reports[number]
        problems[number] = result.problem
        if result.problem is None:
            report.task = result.get()
            report.alive = report.left is not None and report.task.state in FINAL_TASK_STATES
        if not report.alive:
            report.left = None
    return problems


def _tasks(call: "Call", task_ids: Sequence[str]) -> "list[Result[Task]]":
    """How the tasks stand before they are stopped. Earlier stops that are not on record yet are recorded first."""
    from watchkeeper.app.off_record import put_on_record
    from watchkeeper.app.together import Result

    parts = call.writing
    for_all: WatchkeeperError | None = None
    try:
        for task_id in task_ids:
            _ = put_on_record(parts.store, parts.clock, parts.runtime, task_id)
        return [Result(value=task) for task in parts.store.read(lambda tx: [tx.tasks.get(one) for one in task_ids])]
    except WatchkeeperError as problem:
        if len(task_ids) == 1 or (direct.is_away(problem) and not isinstance(problem, RecordTorn)):
            for_all = problem
    if for_all is not None:
        return [Result(problem=for_all) for _ in task_ids]
    return [result for task_id in task_ids for result in _tasks(call, [task_id])]


def _before(call: "Call", report: "Report", was: "Result[Task]") -> Exception | None:
    """Note how a task stands before it is stopped; returns why that is not known."""
    if was.problem is not None:
        return was.problem
    state = was.get().state
    report.ended_before = state in FINAL_TASK_STATES
    # Looked at before, because a daemon may end it in the same instant.
    try:
        if report.ended_before or state is TaskState.HELD:
            report.left = _left_alive(call, report.task_id or "")
    except WatchkeeperError as problem:
        return problem
    return None


def _left_alive(call: "Call", task_id: str) -> Run | None:
    """The last run of a task that is held or has ended, with its agent, if that is alive all the same: a person's word is not its end."""
    from dataclasses import replace

    runs = call.writing.store.read(lambda tx: tx.runs.of_task(task_id))
    if not runs or runs[-1].proof is Proof.PROVEN:
        return None
    agent = call.writing.runtime.living_agent(runs[-1])
    return None if agent is None else replace(runs[-1], agent=agent)
