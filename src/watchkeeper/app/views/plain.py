"""What is shown, as JSON values. Keys are an interface: they are added, never renamed, and a test lists them."""

from datetime import datetime
from typing import TYPE_CHECKING

from watchkeeper.app.views import commands, directory, profile
from watchkeeper.app.views.cost import Costs
from watchkeeper.app.views.detail import RunDetail, TaskDetail
from watchkeeper.app.views.health import Health
from watchkeeper.app.views.report import Report, ReportRow
from watchkeeper.app.views.rows import TaskRow
from watchkeeper.app.views.standing import Standing
from watchkeeper.app.views.whereabouts import Whereabouts
from watchkeeper.domain.cost import CostTotal
from watchkeeper.domain.lanes import Lane, QueueRule, Reason
from watchkeeper.domain.model import Changes, ExitFact, FileChange, Outcome, Run, StopRequest, Task, Trace, Usage
from watchkeeper.domain.worktree import Worktree
from watchkeeper.ports.harness import StreamEvent
from watchkeeper.ports.store import Authorisation, JournalEntry

if TYPE_CHECKING:
    from watchkeeper.app.add import Handed
    from watchkeeper.app.views.thread import Thread
    from watchkeeper.app.views.why import Why
    from watchkeeper.domain.message import Message
    from watchkeeper.domain.notice import SinkState

Json = dict[str, object]


def row(row: TaskRow) -> Json:
    """A task as every list shows it."""
    return {
        **task(row.task),
        "shown": row.standing.word,
        "why": row.standing.why,
        "waits": None if row.brief is None else {"wait": row.brief.wait, "detail": row.brief.detail},
        "result": row.result,
        "verdict": row.verdict,
        "run": None if row.run is None else run(row.run),
    }


def task(task: Task) -> Json:
    """A task as recorded."""
    return {
        "id": task.id,
        "title": task.spec.title,
        "state": task.state.value,
        "reason": task.reason,
        "kind": None if task.kind is None else task.kind.value,
        "harness": task.spec.harness,
        "model": task.spec.model,
        "cwd": task.spec.cwd,
        "created_at": time(task.created_at),
        "updated_at": time(task.updated_at),
        "ended_at": time(task.ended_at),
        "wake_at": time(task.wake_at),
        "run_count": task.runs,
        "attempts": task.attempts,
        "max_attempts": task.spec.max_attempts,
        "expect": task.spec.expect,
        "priority": task.spec.priority,
        "account": task.spec.account,
        "machine": task.spec.machine,
        "project": task.spec.project,
        "checkout": task.spec.checkout,
        "worktree": None if task.spec.worktree is None else worktree(task.spec.worktree),
        "scratch": task.spec.scratch,
        "after": list(task.spec.after),
        "not_before": time(task.spec.not_before),
        "labels": list(task.spec.labels),
        "pinned_at": time(task.pinned_at),
        "seen_at": time(task.seen_at),
        "stop": _stop(task.stop),
    }


def worktree(tree: Worktree) -> Json:
    """A worktree of a task's own."""
    return {
        "path": tree.path,
        "branch": tree.branch,
        "base": tree.base,
        "base_name": tree.base_name,
        "source": tree.source,
        "includes_changes": tree.begins_with is not None,
        "copies": tree.copies.splitlines(),
        "state": tree.state.value,
        "merge": None if tree.merge is None else {"state": tree.merge.state.value, "into": tree.merge.into},
        "merged": None
        if tree.merged is None
        else {"into": tree.merged.into, "commit": tree.merged.tip, "source": tree.merged.source, "by": tree.merged.by},
    }


def run(run: Run) -> Json:
    """A run as recorded."""
    agent = run.agent
    return {
        "id": run.id,
        "number": run.number,
        "cause": run.cause.value,
        "state": run.state.value,
        "fence": run.fence,
        "execution": run.execution_id,
        "machine": run.machine,
        "claimed_at": time(run.claimed_at),
        "started_at": time(agent.started_at if agent is not None else None),
        "answered_at": time(run.answered_at),
        "stalled_since": time(run.stalled_since),
        "settled_at": time(run.settled_at),
        "pid": agent.pid if agent is not None else None,
        "exit": None if run.exit is None else exit_fact(run.exit),
        "kind": None if run.kind is None else run.kind.value,
        "reason": run.reason,
        "proof": None if run.proof is None else run.proof.value,
        "harness_session": run.harness_session,
        "stop_failed": run.stop_failed,
    }


def machine(there: Whereabouts) -> Json:
    """A machine that shares the database."""
    return {
        "id": there.machine,
        "name": there.name,
        "reachable": there.reachable,
        "lease_until": time(there.since),
    }


def sink(state: "SinkState") -> Json:
    """Where notices go, and whether they arrive."""
    return {
        "machine": state.machine,
        "sink": state.sink.value,
        "sent_up_to": state.seq,
        "attempts": state.attempts,
        "due_at": time(state.due_at),
        "problem": state.problem or None,
    }


def why(found: "Why") -> Json:
    """A task with every reason why it waits, and what it waits for."""
    return {
        "id": found.task.id,
        "state": found.task.state.value,
        "reason": found.task.reason,
        "wake_at": time(found.task.wake_at),
        "lane": lane(found.lane),
        "checkout": found.task.spec.checkout,
        "worktree": None if found.task.spec.worktree is None else worktree(found.task.spec.worktree),
        "reasons": [reason(each) for each in found.reasons],
        "after": [{"id": each.task_id, "state": each.state.value} for each in found.dependencies],
        "before": list(found.dependents),
    }


def waiting(found: "Why") -> Json:
    """A task that waits, as the queue shows it."""
    spec = found.task.spec
    return {
        "id": found.task.id,
        "title": spec.title,
        "priority": spec.priority,
        "created_at": time(found.task.created_at),
        "lane": lane(found.lane),
        "checkout": spec.checkout,
        "reasons": [reason(each) for each in found.reasons],
    }


def lane(lane: Lane) -> Json:
    """A lane of the queue."""
    return {"machine": lane.machine, "harness": lane.harness, "account": lane.account, "project": lane.project}


def reason(reason: Reason) -> Json:
    """A reason why a task waits."""
    return {
        "wait": reason.wait.value,
        "detail": reason.detail,
        "since": time(reason.since),
        "until": time(reason.until),
        "tasks": list(reason.tasks),
    }


def rule(rule: QueueRule, at_work: int | None) -> Json:
    """A rule of the queue; `at_work`: how many agents it concerns now, where that is known."""
    return {
        "scope": rule.scope,
        "name": rule.name,
        "paused": rule.paused,
        "max_running": rule.max_running,
        "by": rule.by,
        "at": time(rule.at),
        **({} if at_work is None else {"at_work": at_work}),
    }


def exit_fact(fact: ExitFact) -> Json:
    """How an agent's process ended."""
    return {
        "code": fact.exit_code,
        "signal": fact.signal,
        "reason": fact.reason.value,
        "at": time(fact.at),
        "elapsed_s": fact.elapsed_s,
        "max_rss_kib": fact.max_rss_kib,
        "errno": fact.errno,
        "step": fact.step,
        "path": fact.path,
    }


def outcome(outcome: Outcome) -> Json:
    """What a run came to."""
    return {
        "status": outcome.status.value,
        "disposition": outcome.disposition.value,
        "kind": None if outcome.kind is None else outcome.kind.value,
        "reason": outcome.reason,
        "at": time(outcome.at),
        "proof": outcome.proof.value,
        "text": outcome.text,
        "harness_session": outcome.harness_session,
        "model": outcome.model,
        "turns": outcome.turns,
        "tool_calls": outcome.tool_calls,
        "usage": usage(outcome.usage),
        "result": None if outcome.result is None else outcome.result.value,
        "verdict": None if outcome.verdict is None else outcome.verdict.value,
        "changes": None if outcome.changes is None else changes(outcome.changes),
        "leftovers": [{"pid": leftover.pid, "command": leftover.command} for leftover in outcome.leftovers],
        "wake_at": time(outcome.wake_at),
    }


def changes(changes: Changes) -> Json:
    """What a run changed."""
    return {
        "known": changes.known,
        "why_unknown": changes.why_unknown,
        "files": [file_change(file) for file in changes.files],
        "commits": list(changes.commits),
        "uncommitted": changes.uncommitted,
        "truncated": changes.truncated,
        "in_checkout": changes.in_checkout,
        "beside": list(changes.beside),
        "left": None if changes.left is None else directory.plain(changes.left),
        "ignored": list(changes.ignored),
        "ignored_in_all": changes.ignored_in_all,
        "base": changes.base,
        "tip": changes.tip,
        "repository": changes.repository,
        "not_kept": changes.not_kept,
        "left_out": list(changes.left_out),
    }


def file_change(file: FileChange) -> Json:
    """A path that differs from before the run."""
    return {
        "path": file.path,
        "change": file.change,
        "old": file.old,
        "insertions": file.insertions,
        "deletions": file.deletions,
        "binary": file.is_binary,
        "committed": file.is_committed,
    }


def usage(usage: Usage) -> Json:
    """What a run used; null is unknown, never zero."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
        "cost_usd": usage.cost_usd,
    }


def handed(handed: "Handed") -> Json:
    """A task that was handed over, now or before."""
    return {**task(handed.task), "key": handed.key or None, "already": handed.already}


def detail(detail: TaskDetail) -> Json:
    """One task in full."""
    spec = detail.task.spec
    return {
        **row(detail.row),
        "prompt": spec.prompt,
        "argv": list(spec.argv),
        "environment_names": list(spec.environment_names),
        "deadline_s": spec.deadline_s,
        "silence_s": spec.silence_s,
        "on_lost": spec.on_lost.value,
        "leftovers": spec.leftovers,
        "checks": list(spec.checks),
        "check_deadline_s": spec.check_deadline_s,
        "setup": list(spec.setup),
        "teardown": list(spec.teardown),
        "authorisation": None if detail.authorisation is None else authorisation(detail.authorisation),
        "evidence": evidence(detail.row.standing),
        "runs": [run_detail(each) for each in detail.runs],
        "takeover": detail.takeover,
        "key": detail.key,
    }


def run_detail(detail: RunDetail) -> Json:
    """A run with its outcome and its files."""
    return {
        **run(detail.run),
        "on": detail.on,
        "allowed": None if detail.launch is None else authorisation(detail.launch.authorisation),
        "program_version": None if detail.launch is None else detail.launch.version,
        "directory": str(detail.directory),
        "stdout": str(detail.stdout),
        "stderr": str(detail.stderr),
        "complaints": None if detail.complaints is None else str(detail.complaints),
        "known": None if detail.known is None else _known(detail.known),
        "commands": [commands.plain(one) for one in detail.commands],
        "messages": list(detail.messages),
        "outcome": None if detail.outcome is None else outcome(detail.outcome),
    }


def _known(trace: Trace) -> Json:
    """What a held run's output came to."""
    return {
        "text": trace.text,
        "finished": trace.finished,
        "tool_calls": trace.tool_calls,
        "turns": trace.turns,
        "model": trace.model,
        "usage": usage(trace.usage),
    }


def authorisation(authorisation: Authorisation) -> Json:
    """Who allowed a task's launches, and what."""
    return {
        "kind": authorisation.kind,
        "by": authorisation.by,
        "detail": authorisation.detail,
        "at": time(authorisation.at),
        "place": None if authorisation.place is None else directory.plain(authorisation.place),
        "profile": None if authorisation.profile is None else profile.plain(authorisation.profile),
    }


def evidence(standing: Standing) -> Json | None:
    """What was read about a live run at this moment, and what follows."""
    seen, verdict = standing.evidence, standing.verdict
    if seen is None or verdict is None:
        return None
    return {
        "directory": seen.directory.value,
        "lock": seen.lock.value,
        "decided_by": None if seen.decision is None else seen.decision.by.value,
        "agent_pid": None if seen.agent is None else seen.agent.pid,
        "exit": None if seen.exit is None else exit_fact(seen.exit),
        "gone": None if seen.gone is None else seen.gone.proven,
        "unreadable": list(seen.unreadable),
        "verdict": verdict.kind.value,
        "detail": verdict.reason,
    }


def health(health: Health) -> Json:
    """Where everything stands."""
    return {
        "counts": {state.value: count for state, count in health.counts.items()},
        "live_runs": health.live_runs,
        "answered": [run(each) for each in health.answered],
        "stalled": [run(each) for each in health.stalled],
        "outbox_pending": health.outbox_pending,
        "journal_last": health.journal_last,
        "waits": health.waits,
        "paused": list(health.paused),
        "needs_you": [row(each) for each in health.needs_you],
    }


def report(report: Report) -> Json:
    """What happened since a time."""

    def each(found: tuple[ReportRow, ...]) -> list[Json]:
        return [{**row(one.row), "cost": cost(one.cost), "text": one.text} for one in found]

    return {
        "since": time(report.since),
        "now": time(report.now),
        "done": each(report.done),
        "needs_you": each(report.needs_you),
        "failed": each(report.failed),
        "stopped": each(report.stopped),
        "active": each(report.active),
        "removed": report.removed,
        "cost": cost(report.cost),
    }


def costs(costs: Costs) -> Json:
    """What runs cost, by group."""
    return {
        "by": costs.by,
        "since": time(costs.since),
        "oldest": time(costs.oldest),
        "groups": [{"name": name, **cost(found)} for name, found in costs.groups],
        "all": cost(costs.all),
    }


def cost(total: CostTotal) -> Json:
    """Sums of money and tokens; known and claimed money are apart, and runs without a number are counted."""
    return {
        "runs": total.runs,
        "known_usd": total.known_usd,
        "known_runs": total.known_runs,
        "claimed_usd": total.claimed_usd,
        "claimed_runs": total.claimed_runs,
        "unknown_runs": total.unknown_runs,
        "input_tokens": total.input_tokens,
        "output_tokens": total.output_tokens,
        "runs_without_tokens": total.without_tokens,
    }


def entry(entry: JournalEntry) -> Json:
    """One line of history."""
    return {
        "seq": entry.seq,
        "at": time(entry.at),
        "kind": entry.kind,
        "task": entry.task_id,
        "run": entry.run_id,
        "fence": entry.fence,
        "data": entry.data,
    }


def stream_event(event: StreamEvent, run_number: int) -> Json:
    """One thing that an agent did or said."""
    return {"run": run_number, "kind": event.kind.value, "text": event.text, "at": time(event.at)}


def time(at: datetime | None) -> str | None:
    """A time as ISO 8601 in UTC."""
    return None if at is None else at.isoformat()


def _stop(stop: StopRequest | None) -> Json | None:
    if stop is None:
        return None
    return {"how": stop.how.value, "by": stop.by, "at": time(stop.at), "grace_s": stop.grace_s}


def message(message: "Message") -> Json:
    """What was said to a task's agent, and what became of it."""
    return {
        "id": message.receipt,
        "task_id": message.task_id,
        "number": message.number,
        "text": message.text,
        "by": message.by,
        "at": time(message.at),
        "state": message.state.value,
        "run": message.run_id,
        "tries": message.tries,
        "kind": None if message.kind is None else message.kind.value,
        "settled_at": time(message.settled_at),
    }


def thread(thread: "Thread") -> Json:
    """The conversation with a task's agent."""
    return {
        "task": thread.task.id,
        "prompt": thread.task.spec.prompt,
        "session": thread.session,
        "waiting": thread.waiting,
        "messages": [message(one) for one in thread.messages],
        "replies": [
            {
                "run": reply.run.id,
                "at": time(reply.at),
                "state": reply.run.state.value,
                "resumed": reply.resumed,
                "messages": [f"{thread.task.id}.m{number}" for number in reply.covers],
                "session": reply.run.harness_session,
                "text": None if reply.outcome is None else reply.outcome.text,
                "kind": None if reply.outcome is None or reply.outcome.kind is None else reply.outcome.kind.value,
            }
            for reply in thread.replies
        ],
    }
