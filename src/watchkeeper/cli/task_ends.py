"""What `wk stop` and `wk kill` share: record every wish, have a daemon act, wait for the ends, and report each.

wish on record ─▶ a daemon acts ─▶ ended and settled
    │                └▶ none acts: ended from here, settled when one does
    └▶ the database cannot take it: a note, ended from here, on record when that can be
"""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from watchkeeper.cli import daemon, direct, render
from watchkeeper.cli.end_report import Report, code_of, plain_report, print_dry_run, print_report
from watchkeeper.cli.selection import KILL, STOP, Picked, agree, matching, none_matches, pick
from watchkeeper.cli.stop_requests import ask, ask_all, find_all
from watchkeeper.domain.model import Run, RunState, StopHow, TaskState
from watchkeeper.errors import DatabaseBusy, DatabaseUnusable, WatchkeeperError

if TYPE_CHECKING:
    from watchkeeper.cli.call import Call
    from watchkeeper.domain.model import Task

_BEYOND_GRACE_S = 15.0
"""How long an outcome may take after the end of its agent."""

_KILL_S = 0.5
_ACTS_S = 2.5
"""A daemon that has done nothing about a wish after so long does not act: it hangs or is stopped."""

_NEW_S = 20.0
_SETTLES_S = 1.0
"""How long the outcome is waited for of what was ended from here, where no daemon has acted."""

_END_S = 4.0
"""How long beyond its grace an agent may live before the stop is said to have failed."""


def end(
    call: "Call", wanted: Picked, how: StopHow, *, grace_s: float | None, wait: bool, dry_run: bool, as_json: bool
) -> int:
    """End tasks and return the exit code. One that cannot be ended keeps none of the others from it.

    Raises:
        Refused: an agent calls.
        DaemonError: the wishes are on record, and no daemon could be had.
    """
    reports = _chosen(call, wanted, how, asks=not dry_run)
    if dry_run:
        return print_dry_run(call, reports, how, as_json=as_json)
    ask_all(call, reports, how, grace_s)
    _end_off_record(call, reports, how, grace_s)
    trouble = _wait(call, reports, how, grace_s, wait=wait)
    _prove(call, reports)
    for report in reports:
        print_report(call, report, waited=wait, as_json=as_json)
    if as_json:
        call.terminal.document([plain_report(report) for report in reports])
    if trouble is not None:
        raise trouble
    return code_of(reports, wait=wait)


def _chosen(call: "Call", wanted: Picked, how: StopHow, *, asks: bool) -> list[Report]:
    """What is meant. Where the database cannot tell, `--all` means all runs that the execution directories tell of."""
    verb = STOP if how is StopHow.STOP else KILL
    if wanted.task_ids or not wanted.is_filtered:
        return _find(call, pick(call, verb, wanted))
    try:
        found = direct.within(lambda: matching(call, verb, wanted))
    except DatabaseUnusable as error:
        if not (direct.is_away(error) and wanted.is_everything):
            raise
        reports = _found_off_record(call, "", error)
    else:
        reports = [Report(typed=task_id, task_id=task_id) for task_id in found]
    if not reports:
        nothing = "No task matches: nothing is running or waiting."
        call.terminal.note(nothing if wanted.is_everything else none_matches(verb))
    elif asks:
        agree(call, verb, len(reports), wanted)
    return reports


def _find(call: "Call", typed: Sequence[str]) -> list[Report]:
    reports: list[Report] = []
    away: DatabaseUnusable | None = None
    names = list(dict.fromkeys(typed))
    known = find_all(call, names)
    for name in names:
        report = Report(typed=name)
        try:
            if away is None and name in known:
                report.task_id = known[name].get()
            elif away is None:
                _, report.task_id = direct.within(lambda name=name: call.find(name))
        except DatabaseUnusable as error:
            if not direct.is_away(error):
                report.error = error
            else:
                away = error
        except WatchkeeperError as error:
            report.error = error
        if isinstance(away, DatabaseBusy) and not _is_live(call, name, away):
            away = None  # nothing of it can be alive here, so there is no hurry
            try:
                _, report.task_id = call.find(name)
            except WatchkeeperError as error:
                report.error = error
        if away is not None:
            reports += _found_off_record(call, name, away)
        elif report.task_id is None or all(known.task_id != report.task_id for known in reports):
            reports.append(report)
    return reports


def _is_live(call: "Call", typed: str, error: DatabaseUnusable) -> bool:
    """Whether the execution directories tell of a run of that task that is not proven to have ended."""
    try:
        return bool(direct.found_runs(call, typed, error))
    except WatchkeeperError as wrong:
        return wrong is not error


def _found_off_record(call: "Call", typed: str, error: DatabaseUnusable) -> list[Report]:
    try:
        found = direct.found_runs(call, typed, error)
    except WatchkeeperError as wrong:
        before = direct.noted(call, typed) if wrong is error and typed else None
        if before is not None:
            return [Report(typed=typed, task_id=before, unwritten=error, noted=True, noted_before=True)]
        return [Report(typed=typed, error=wrong)]
    tasks = {each.run.task_id: [one for one in found if one.run.task_id == each.run.task_id] for each in found}
    return [
        Report(typed=typed or task_id, task_id=task_id, unwritten=error, found=runs) for task_id, runs in tasks.items()
    ]


def _end_off_record(call: "Call", reports: list[Report], how: StopHow, grace_s: float | None) -> None:
    """End what the database could not be told of, noted first."""
    off = [report for report in reports if report.unwritten is not None and not report.noted_before]
    for report in off:
        if report.unwritten is not None and not report.found:
            try:
                report.found = direct.found_runs(call, report.task_id or report.typed, report.unwritten)
            except WatchkeeperError as wrong:
                _ask_patiently(call, report, how, grace_s, wrong)
                continue
        report.noted = direct.note(call, report.found, how, grace_s)
    pairs = [(report, each.run) for report in off for each in report.found]
    if not pairs:
        return
    grace = grace_s if grace_s is not None else call.writing.settings.stop_grace_s
    ended = direct.end_all(call.writing.runtime_alone, [run for _, run in pairs], how, grace)
    for (report, _), came in zip(pairs, ended, strict=True):
        if report.direct is None or report.direct.over:
            report.direct = came


def _ask_patiently(call: "Call", report: Report, how: StopHow, grace_s: float | None, wrong: WatchkeeperError) -> None:
    """Nothing of it is alive here, so there is no hurry: the database may be slow, and is asked once more for as long as that takes."""
    if isinstance(report.unwritten, DatabaseBusy):
        report.unwritten = None
        ask(call, [report], how, grace_s)
        wrong = report.unwritten or wrong
        if report.task is not None:
            return
    report.unwritten, report.error = None, report.error or wrong


def _wait(
    call: "Call", reports: list[Report], how: StopHow, grace_s: float | None, *, wait: bool
) -> WatchkeeperError | None:
    """Have a daemon act and wait for the ends; what went wrong on the way is returned, because the reports come first."""
    asked = [report for report in reports if report.task is not None and not report.ended_before]
    going = [report for report in asked if report.is_going]
    left = [report for report in reports if report.left is not None]
    if not (asked or left):
        return None
    trouble: WatchkeeperError | None = None
    try:
        daemon.ensure(call, "The wish is on record", starts=False)
    except WatchkeeperError as error:
        if not going and not left:
            return None
        trouble = error
    if not wait:
        return trouble
    from watchkeeper.cli.errors import Detached

    grace = grace_s if grace_s is not None else call.writing.settings.stop_grace_s
    patience_s = _KILL_S if how is StopHow.KILL else grace
    try:
        acts = trouble is None and not daemon.is_stopped(call)
        _wait_for_ends(call, going, how, grace, patience_s, acts=acts)
        deadline = time.monotonic() + patience_s + _BEYOND_GRACE_S
        for report in left:
            report.alive = trouble is not None or not _dies(call, report.left, deadline - time.monotonic())
    except KeyboardInterrupt:
        raise Detached("Detached; the wish stays on record and is acted on. Look: wk ls") from None
    return trouble


def _wait_for_ends(
    call: "Call", going: list[Report], how: StopHow, grace_s: float, patience_s: float, *, acts: bool
) -> None:
    """Wait until they are settled. Where no daemon acts they are ended from here; what is alive beyond its time is not waited for any longer."""
    began = time.monotonic()
    if acts:
        _follow_until(call, going, _ACTS_S, lambda report: not report.is_going or _is_acted_on(call, report))
    idle = [report for report in going if report.is_going and not (acts and _is_acted_on(call, report))]
    runs = [(report, run) for report in idle if (run := _run_of(call, report)) is not None]
    came = direct.end_all(call.writing.runtime, [run for _, run in runs], how, grace_s)
    for (report, _), ended in zip(runs, came, strict=True):
        report.direct = ended
    settles_s = _BEYOND_GRACE_S if acts and _is_new(call) else _SETTLES_S
    _follow_until(call, [report for report, _ in runs], settles_s, lambda report: not report.is_going)
    rest = [report for report in going if report.is_going and report.direct is None]
    _follow_until(
        call,
        rest,
        began + patience_s + _END_S - time.monotonic(),
        lambda report: not report.is_going or _waits_for_room(call, report),
    )
    for report in rest:
        run = _run_of(call, report) if report.is_going else None
        if run is not None and call.writing.runtime.living_agent(run) is not None:
            report.failed = run.stop_failed or "Its agent has not ended in time."
    slow = [report for report in rest if report.is_going and report.failed is None and not report.waits_for_room]
    _follow_until(
        call, slow, began + patience_s + _BEYOND_GRACE_S - time.monotonic(), lambda report: not report.is_going
    )
    for report in slow:
        run = _run_of(call, report) if report.is_going else None
        report.failed = None if run is None else run.stop_failed


def _is_new(call: "Call") -> bool:
    """Whether a daemon is just starting: one that has been there for long, and does nothing, will not do anything in a moment either."""
    info = daemon.running(call)
    return info is None or (call.writing.system_clock.now() - info.started_at).total_seconds() < _NEW_S


def _follow_until(call: "Call", reports: list[Report], within_s: float, enough: "Callable[[Report], bool]") -> None:
    """Wait for so long until it is enough with each, and keep how each task stands then."""
    from watchkeeper.cli.task_rest import wait_for

    if not reports:
        return

    def refresh(now: "list[Task]") -> bool:
        known = {task.id: task for task in now}
        for report in reports:
            report.task = known.get(report.task_id or "", report.task)
        return all(enough(report) for report in reports)

    ids = [report.task_id or "" for report in reports]
    _ = wait_for(
        call,
        call.writing.store,
        ids,
        refresh,
        max(0.0, within_s),
        lambda now, passed_s: call.terminal.status(f"stopping {len(now)} · {render.duration(passed_s)}"),
    )


def _run_of(call: "Call", report: Report) -> Run | None:
    """The run that is to end, if there is one that a shim was started for."""
    task_id = report.task_id or ""
    runs = call.writing.store.read(lambda tx: tx.runs.of_task(task_id))
    mine = call.writing.runtime.machine
    alive = bool(runs) and runs[-1].state not in {RunState.RESERVED, RunState.SETTLED}
    return runs[-1] if alive and (not mine or runs[-1].machine == mine) else None


def _is_acted_on(call: "Call", report: Report) -> bool:
    """Whether a daemon has acted on a request, or another machine must, because the run is there."""
    run = _run_of(call, report)
    return run is None or run.stop_told is not None or run.stop_failed is not None


def _waits_for_room(call: "Call", report: Report) -> bool:
    """Whether its agent has ended, and its shim cannot write the rest because the disk is full. That can take forever, and is not waited for."""
    from watchkeeper.domain.evidence import ENDED_WITHOUT_ROOM, judge

    run = _run_of(call, report)
    if run is not None:
        try:
            seen = judge(call.writing.runtime.observe(run, stop_asked=True))
        except OSError:
            return False
        report.waits_for_room = seen.reason == ENDED_WITHOUT_ROOM
    return report.waits_for_room


def _dies(call: "Call", run: Run | None, within_s: float) -> bool:
    """Wait for the end of a run's agent; whether it came."""
    import os
    import select

    fd = None if run is None else call.writing.runtime.watch(run)
    if fd is None:
        return True
    try:
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        return bool(poller.poll(max(0.0, within_s) * 1000))
    finally:
        os.close(fd)


def _prove(call: "Call", reports: list[Report]) -> None:
    """Look up what is proven of those that were stopped."""
    for report in reports:
        task_id = report.task_id
        if task_id is None or report.task is None or report.ended_before or report.task.state is not TaskState.STOPPED:
            continue
        runs = call.writing.store.read(lambda tx, task_id=task_id: tx.runs.of_task(task_id))
        if runs:
            report.run, report.proof = runs[-1], runs[-1].proof
