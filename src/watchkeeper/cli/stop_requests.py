"""Putting the stops of many tasks on record: in few transactions, and each with its own result."""

import contextlib
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from watchkeeper.cli import direct
from watchkeeper.domain.model import StopHow
from watchkeeper.errors import DatabaseFull, DatabaseUnusable, WatchkeeperError

if TYPE_CHECKING:
    from watchkeeper.app.together import DecisionResult
    from watchkeeper.cli.call import Call
    from watchkeeper.cli.end_report import Report

_TOGETHER = 16
"""So many stops are prepared at once; the daemon acts on these while the next ones are recorded."""


def find_all(call: "Call", names: Sequence[str]) -> "dict[str, DecisionResult[str]]":
    """The ids of the tasks that were meant, or why there is none. When the database makes trouble, the remaining names are left out."""
    from watchkeeper.app.together import DecisionResult

    found: dict[str, DecisionResult[str]] = {}

    def work() -> None:
        for name in names:
            try:
                found[name] = DecisionResult(value=call.find(name)[1])
            except WatchkeeperError as error:
                if direct.is_away(error):
                    return
                found[name] = DecisionResult(problem=error)

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
    from watchkeeper.app.stop import StopTaskRequest, stop_all

    requests = [StopTaskRequest(task_id=report.task_id or "", how=how, grace_s=grace_s) for report in reports]
    results = stop_all(call.writing, call.caller, requests)
    for report, result in zip(reports, results, strict=True):
        if result.problem is None:
            found = result.get()
            report.task, report.ended_before = found.task, found.had_ended
            report.left, report.alive = found.survivor, found.survivor is not None
    return [result.problem for result in results]
