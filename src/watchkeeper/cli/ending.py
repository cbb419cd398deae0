"""What `wk stop` and `wk kill` share: record every wish, have a daemon act, wait for the ends, and report each."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from watchkeeper.cli import daemon, render
from watchkeeper.domain.model import FINAL_TASK_STATES, Proof, Run, StopHow, Task, TaskState
from watchkeeper.errors import Exit, WatchkeeperError

if TYPE_CHECKING:
    from watchkeeper.app.views.rows import TaskRow
    from watchkeeper.cli.call import Call

_BEYOND_GRACE_S = 15.0
_KILL_S = 5.0


@dataclass(slots=True, kw_only=True)
class Report:
    """What became of one wish."""

    typed: str
    task_id: str | None = None
    task: Task | None = None
    ended_before: bool = False
    run: Run | None = None
    """The newest run of one that was stopped."""
    proof: Proof | None = None
    """How sure it is that nothing of that run is alive."""
    left: Run | None = None
    """A run that is settled although its agent was seen alive: that is being ended."""
    alive: bool = False
    """Whether that agent is alive still."""
    error: WatchkeeperError | None = None


def end(
    call: "Call",
    typed: Sequence[str],
    how: StopHow,
    *,
    grace_s: float | None,
    wait: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """End tasks and return the exit code. One that cannot be ended keeps none of the others from it.

    Raises:
        Refused: an agent calls.
        DaemonError: the wishes are on record, and no daemon could be had.
    """
    reports = _find(call, typed)
    if dry_run:
        return _tell_dry(call, reports, how, as_json=as_json)
    for report in reports:
        if report.task_id is not None:
            _ask(call, report, how, grace_s)
    trouble = _wait(call, reports, how, grace_s, wait=wait)
    _prove(call, reports)
    for report in reports:
        _tell(call, report, waited=wait, as_json=as_json)
    if as_json:
        call.terminal.document([_plain(report) for report in reports])
    if trouble is not None:
        raise trouble
    return _code(reports, wait=wait)


def _find(call: "Call", typed: Sequence[str]) -> list[Report]:
    reports: list[Report] = []
    for name in dict.fromkeys(typed):
        report = Report(typed=name)
        try:
            _, report.task_id = call.find(name)
        except WatchkeeperError as error:
            report.error = error
        if report.task_id is None or all(known.task_id != report.task_id for known in reports):
            reports.append(report)
    return reports


def _ask(call: "Call", report: Report, how: StopHow, grace_s: float | None) -> None:
    from watchkeeper.app.stop import stop

    store, task_id = call.writing.store, report.task_id or ""
    try:
        was = store.read(lambda tx: tx.tasks.get(task_id)).state
        report.ended_before = was in FINAL_TASK_STATES
        # Looked at before, because a daemon may end it in the same instant.
        left = _left_alive(call, task_id) if report.ended_before or was is TaskState.HELD else None
        report.task = stop(store, call.writing.clock, task_id, how, call.person, grace_s)
    except WatchkeeperError as error:
        report.error = error
    else:
        if left is not None and report.task.state in FINAL_TASK_STATES:
            report.left, report.alive = left, True


def _wait(
    call: "Call", reports: list[Report], how: StopHow, grace_s: float | None, *, wait: bool
) -> WatchkeeperError | None:
    """Have a daemon act and wait for the ends; what went wrong on the way is returned, because the reports come first."""
    asked = [report for report in reports if report.task is not None and not report.ended_before]
    going = [report for report in asked if report.task is not None and report.task.state not in FINAL_TASK_STATES]
    left = [report for report in reports if report.left is not None]
    if not (asked or left):
        return None
    try:
        daemon.ensure(call, "The wish is on record", starts=False)
    except WatchkeeperError as error:
        return error if going or left else None
    if not wait:
        return None
    from watchkeeper.cli.errors import Detached
    from watchkeeper.cli.waiting import wait_for

    patience_s = (
        _KILL_S if how is StopHow.KILL else (grace_s if grace_s is not None else call.writing.settings.stop_grace_s)
    )
    ids = [report.task_id or "" for report in going]
    deadline = time.monotonic() + patience_s + _BEYOND_GRACE_S
    try:
        tasks = wait_for(
            call,
            call.writing.store,
            ids,
            lambda now: all(task.state in FINAL_TASK_STATES for task in now),
            patience_s + _BEYOND_GRACE_S,
            lambda now, passed_s: call.terminal.status(f"stopping {len(now)} · {render.duration(passed_s)}"),
        )
        for report in left:
            report.alive = not _dies(call, report.left, deadline - time.monotonic())
    except KeyboardInterrupt:
        raise Detached("Detached; the wish stays on record and is acted on. Look: wk ls") from None
    known = {task.id: task for task in tasks}
    for report in going:
        report.task = known.get(report.task_id or "", report.task)
    return None


def _left_alive(call: "Call", task_id: str) -> Run | None:
    """The last run of a task that is held or has ended, with its agent, if that is alive all the same: a person's word is not its end."""
    runs = call.writing.store.read(lambda tx: tx.runs.of_task(task_id))
    if not runs or runs[-1].proof is Proof.PROVEN:
        return None
    agent = call.writing.runtime.living_agent(runs[-1])
    return None if agent is None else replace(runs[-1], agent=agent)


def _dies(call: "Call", run: Run | None, within_s: float) -> bool:
    """Wait for the end of a run's agent; whether it came."""
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


def _tell(call: "Call", report: Report, *, waited: bool, as_json: bool) -> None:
    from watchkeeper.cli import errors
    from watchkeeper.cli.machines import where

    if report.error is not None:
        _ = errors.ours(report.error, call.terminal, as_json=as_json)
    elif report.task is not None and not as_json:
        there = where(call, report.task) if report.task.state is TaskState.RUNNING else ""
        call.terminal.say(f"{report.task.id}  {_says(report, report.task, waited=waited)}{there}")


def _says(report: Report, task: Task, *, waited: bool) -> str:
    if report.ended_before:
        when = f" at {render.clock(task.ended_at)}" if task.ended_at is not None else ""
        return f"had ended already: {task.state.value}{when}{_left(report, waited=waited)}"
    if task.state is TaskState.STOPPED:
        return f"stopped{_left(report, waited=waited) or _doubt(report)}"
    if task.state in FINAL_TASK_STATES:
        return f"ended by itself before it could be stopped: {task.state.value}"
    if not waited:
        return "will be stopped"
    return f"is still being stopped (wk show {task.id})"


def _left(report: Report, *, waited: bool) -> str:
    """What is said of an agent that was alive although its run is settled."""
    run = report.left
    if run is None or run.agent is None:
        return ""
    agent = f"its agent, pid {run.agent.pid},"
    if not report.alive:
        return f"; {agent} was alive and has ended, but it is not proven that nothing else of it is (wk show {run.task_id})"
    if waited:
        return f", but {agent} is still alive (wk kill {run.task_id}, or wk show {run.task_id})"
    return f"; {agent} is alive and will be ended"


def _doubt(report: Report) -> str:
    """What a person must know before another agent works there."""
    run = report.run
    if run is None or report.proof is Proof.PROVEN:
        return ""
    if report.proof is Proof.SWEPT:
        return "; nothing of it was found alive, which is no proof"
    pid = f"; its agent was pid {run.agent.pid}" if run.agent is not None else ""
    return f", but it is not proven that nothing of it is alive{pid} (wk show {run.task_id})"


def _code(reports: list[Report], *, wait: bool) -> int:
    for report in reports:
        if report.error is not None:
            return report.error.exit_code
    going = any(
        report.alive or (report.task is not None and report.task.state not in FINAL_TASK_STATES) for report in reports
    )
    return Exit.TIMEOUT if going and wait else Exit.OK


def _tell_dry(call: "Call", reports: list[Report], how: StopHow, *, as_json: bool) -> int:
    from watchkeeper.app.views import plain
    from watchkeeper.app.views.rows import one

    rows: list[TaskRow] = []
    for report in reports:
        if report.error is not None or report.task_id is None:
            _tell(call, report, waited=False, as_json=as_json)
            continue
        store = call.store
        if store is None:
            continue
        row = one(store, call.runtime, report.task_id)
        rows.append(row)
        if not as_json:
            call.terminal.say(f"{row.task.id}  {_would(row, how)}")
    if as_json:
        call.terminal.document([{**plain.row(row), "would": _would(row, how)} for row in rows])
    return _code(reports, wait=False)


def _would(row: "TaskRow", how: StopHow) -> str:
    task = row.task
    if task.state in FINAL_TASK_STATES:
        return f"has ended already ({task.state.value}); nothing would be done"
    if task.state is TaskState.HELD:
        known = row.run is None or row.run.proof in {Proof.PROVEN, Proof.SWEPT}
        then = "nothing would be signalled" if known else "what of it is found alive would be ended"
        return f"is held; it would be stopped, and {then}"
    evidence = row.standing.evidence
    agent = (evidence.agent if evidence is not None else None) or (row.run.agent if row.run is not None else None)
    if agent is None:
        return f"is {row.standing.word}; it would be stopped, and no agent of it would start"
    signals = "KILL" if how is StopHow.KILL else "TERM, then KILL"
    return f"is {row.standing.word}; {signals} would go to its agent (pid {agent.pid}) and everything it started"


def _plain(report: Report) -> dict[str, object]:
    from watchkeeper.app.views import plain

    return {
        "asked": report.typed,
        "ended_before": report.ended_before,
        "error": None if report.error is None else str(report.error),
        "task": None if report.task is None else plain.task(report.task),
        "proof": None if report.proof is None else report.proof.value,
        "alive": report.left.agent.pid if report.alive and report.left is not None and report.left.agent else None,
    }
