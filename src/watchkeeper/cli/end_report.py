"""How the ends of tasks are reported: what `wk stop` and `wk kill` print, in words and as JSON, and their exit code."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from watchkeeper.cli import direct, render
from watchkeeper.domain.model import FINAL_TASK_STATES, Proof, Run, StopHow, Task, TaskState
from watchkeeper.errors import DatabaseUnusable, Exit, WatchkeeperError

if TYPE_CHECKING:
    from watchkeeper.app.off_record import Ended
    from watchkeeper.app.views.rows import TaskRow
    from watchkeeper.cli.call import Call
    from watchkeeper.ports.off_record import FoundRun

_HANG = 4


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
    unwritten: DatabaseUnusable | None = None
    """Why the database could not take the wish: then it is carried out off the record."""
    found: "list[FoundRun]" = field(default_factory=list["FoundRun"])
    """The runs of the task, as the execution directories tell, if it is off the record."""
    noted: bool = False
    """Whether a note is kept of it, until it is on record."""
    noted_before: bool = False
    """Whether it was stopped off the record before, and nothing of it is alive."""
    direct: "Ended | None" = None
    """What came of ending it from here."""
    failed: str | None = None
    """Why its agent is alive beyond its time."""
    waits_for_room: bool = False
    """Whether its agent has ended, and the rest of its output has no room on the disk."""

    @property
    def is_going(self) -> bool:
        """Whether its task has not come to its end yet."""
        return self.task is not None and self.task.state not in FINAL_TASK_STATES

    @property
    def stop_failed(self) -> str | None:
        """Why it is not ended, if that is so."""
        if self.direct is not None and not self.direct.over:
            return self.direct.detail
        return self.failed


def print_report(call: "Call", report: Report, *, waited: bool, as_json: bool) -> None:
    """Tell what became of one wish; with JSON only what was wrong."""
    from watchkeeper.cli import errors
    from watchkeeper.cli.machines import where

    if report.error is not None:
        _ = errors.ours(report.error, call.terminal, as_json=as_json)
    elif report.unwritten is not None:
        if not as_json:
            call.terminal.prose(f"{report.task_id}  {_off_record(report, report.unwritten)}", hang=_HANG)
    elif report.task is not None and not as_json:
        there = where(call, report.task) if report.task.state is TaskState.RUNNING else ""
        call.terminal.prose(f"{report.task.id}  {_sentence(report, report.task, waited=waited)}{there}", hang=_HANG)


def _off_record(report: Report, error: DatabaseUnusable) -> str:
    why = direct.describe(error)
    if report.stop_failed is not None:
        return f"stop failed: {render.clean(report.stop_failed)} {why[0].upper()}{why[1:]}; type it again"
    if report.noted_before:
        return f"had been stopped off the record already: {why}; it is recorded as soon as it can be"
    later = "it is recorded as soon as it can be"
    if not report.noted:
        later = "not even a note of it could be kept, so `wk show` it when the database is back"
    return f"stopped off the record: {why}; {later}"


def _sentence(report: Report, task: Task, *, waited: bool) -> str:
    if report.ended_before:
        when = f" at {render.clock(task.ended_at)}" if task.ended_at is not None else ""
        return f"had ended already: {task.state.value}{when}{_left(report, waited=waited)}"
    if task.state is TaskState.STOPPED:
        return f"stopped{_left(report, waited=waited) or _doubt(report)}"
    if task.state in FINAL_TASK_STATES:
        return f"ended by itself before it could be stopped: {task.state.value}"
    if not waited:
        return "will be stopped"
    if report.stop_failed is not None:
        return (
            f"stop failed: {render.clean(report.stop_failed)} It stays wished, and is tried again (wk show {task.id})"
        )
    if report.direct is not None:
        return "its agent has ended; no daemon has acted, and the outcome is decided when one does (wk daemon status)"
    if report.waits_for_room:
        return "its agent has ended; the rest of its output waits for room on the disk"
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
        return "; nothing of it was found alive, which does not prove its end"
    pid = f"; its agent was pid {run.agent.pid}" if run.agent is not None else ""
    return f", but it is not proven that nothing of it is alive{pid} (wk show {run.task_id})"


def code_of(reports: list[Report], *, wait: bool) -> int:
    """The exit code: that of the first error, or 12 if an agent is not at its end."""
    for report in reports:
        if report.error is not None:
            return report.error.exit_code
    going = any(
        report.alive
        or report.stop_failed is not None
        or (report.is_going and report.direct is None and not report.waits_for_room)
        for report in reports
    )
    failed = any(report.unwritten is not None and report.stop_failed is not None for report in reports)
    return Exit.TIMEOUT if failed or (going and wait) else Exit.OK


def print_dry_run(call: "Call", reports: list[Report], how: StopHow, *, as_json: bool) -> int:
    """Tell what would be done, and return the exit code."""
    from watchkeeper.app.views import plain
    from watchkeeper.app.views.rows import one

    rows: list[TaskRow] = []
    off: list[dict[str, object]] = []
    for report in reports:
        if report.error is not None or report.task_id is None:
            print_report(call, report, waited=False, as_json=as_json)
            continue
        if report.unwritten is not None:
            off.append(_plain_off(report, report.unwritten, how))
            if not as_json:
                call.terminal.say(f"{report.task_id}  {off[-1]['would']}")
            continue
        store = call.store
        if store is None:
            continue
        row = one(store, call.runtime, report.task_id)
        rows.append(row)
        if not as_json:
            call.terminal.prose(f"{row.task.id}  {_would(row, how)}", hang=_HANG)
    if as_json:
        call.terminal.document([*({**plain.row(row), "would": _would(row, how)} for row in rows), *off])
    return code_of(reports, wait=False)


def _plain_off(report: Report, error: DatabaseUnusable, how: StopHow) -> dict[str, object]:
    """What would be done off the record, as JSON values."""
    why = direct.describe(error)
    pids = ", ".join(f"pid {each.run.agent.pid}" for each in report.found if each.run.agent is not None)
    signals = "KILL" if how is StopHow.KILL else "TERM, then KILL"
    then = (
        f"{signals} would go to its agent ({pids}) and everything it started" if pids else "no agent of it would start"
    )
    would = f"would be stopped off the record ({why}); {then}"
    if report.noted_before:
        would = f"had been stopped off the record already ({why}); nothing would be done"
    return {"id": report.task_id, "off_record": why, "would": would}


def _would(row: "TaskRow", how: StopHow) -> str:
    task = row.task
    if task.state in FINAL_TASK_STATES:
        return f"has ended already ({task.state.value}); nothing would be done"
    if task.state is TaskState.HELD:
        known = row.run is None or row.run.proof in {Proof.PROVEN, Proof.SWEPT}
        then = "nothing would be signalled" if known else "what of it is found alive would be ended"
        return f"is held; would be stopped, and {then}"
    evidence = row.standing.evidence
    agent = (evidence.agent if evidence is not None else None) or (row.run.agent if row.run is not None else None)
    if agent is None:
        return f"{_stands(row)}; would be stopped, and no agent of it would start"
    signals = "KILL" if how is StopHow.KILL else "TERM, then KILL"
    return f"{_stands(row)}; {signals} would go to its agent (pid {agent.pid}) and everything it started"


def _stands(row: "TaskRow") -> str:
    """Where it stands, as the beginning of a sentence: some of the words are verbs."""
    word = row.standing.word
    return word if word == "needs you" else f"is {word}"


def _has_ended(report: Report) -> bool:
    if report.direct is not None:
        return report.direct.over
    return report.noted_before or (report.task is not None and (not report.is_going or report.waits_for_room))


def plain_report(report: Report) -> dict[str, object]:
    """What became of one wish, as JSON values."""
    from watchkeeper.app.views import plain

    return {
        "asked": report.typed,
        "ended_before": report.ended_before,
        "error": None if report.error is None else str(report.error),
        "task": None if report.task is None else plain.task(report.task),
        "proof": None if report.proof is None else report.proof.value,
        "off_record": None if report.unwritten is None else direct.describe(report.unwritten),
        "noted": report.noted,
        "ended": _has_ended(report),
        "stop_failed": report.stop_failed,
        "alive": report.left.agent.pid if report.alive and report.left is not None and report.left.agent else None,
    }
