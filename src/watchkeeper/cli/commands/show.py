"""`wk show`: one task in full."""

import contextlib
import itertools
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from watchkeeper.cli import accounts, changed, daemon, render
from watchkeeper.cli import worktree_words as words
from watchkeeper.cli.call import Call
from watchkeeper.cli.command import WkCommand, debug_option, json_option
from watchkeeper.cli.command_lines import command_lines
from watchkeeper.cli.next_steps import next_steps
from watchkeeper.cli.queue_view import describe
from watchkeeper.cli.render import field as _field
from watchkeeper.cli.types import TASK_ID
from watchkeeper.domain.account import OWN
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import Cause, Proof, RunState, TaskState
from watchkeeper.domain.profile import LaunchProfile, host, table
from watchkeeper.domain.working_directory import described

if TYPE_CHECKING:
    from watchkeeper.app.views.detail import RunDetail, TaskDetail
    from watchkeeper.app.views.standing import Standing
    from watchkeeper.domain.lanes import Reason
    from watchkeeper.domain.model import EarlyFail, ExitFact, Outcome, TaskSpec, Trace, Usage
    from watchkeeper.ports.store import Authorisation

_FILES = 12
_TEXT_LINES = 30
_FIRST_LINES = 10
_COMPLAINTS = 16 * 1024
_EXPECTS = {"answer": "an answer", "changes": "a change", "any": "nothing but its success"}
_NOT_GIVEN = "The agent did not get"
"""The shim's own words."""
_WITHOUT_AN_END = frozenset({FailureKind.LOST, FailureKind.NEVER_LAUNCHED})


@click.command(cls=WkCommand, name="show", short_help="One task in full.")
@click.argument("task_id", metavar="ID", type=TASK_ID)
@json_option
@debug_option
@click.pass_obj
def command(call: Call, task_id: str, as_json: bool) -> None:
    """Show one task in full.

    Where it stands and why, what it was allowed, every run with its proof and changes, the evidence at this moment, its
    logs, and how to take the conversation over in the program itself. A failure that is shown like this, not as JSON,
    counts as looked at: `wk ls` and `wk status` no longer keep it on top.
    """
    from watchkeeper.app.views import plain, why
    from watchkeeper.app.views.detail import detail
    from watchkeeper.cli.machines import this_machine

    store, found_id = call.find(task_id)
    found = detail(store, call.runtime, call.reading.harness, found_id)
    queued = found.task.state is TaskState.QUEUED
    reasons = why.why(store, this_machine(call), found_id).reasons if queued else ()
    if found.takeover:
        found = replace(found, takeover=accounts.with_home(call, found.task.spec, found.takeover))
    if as_json:
        call.terminal.document({**plain.detail(found), "reasons": [plain.reason(reason) for reason in reasons]})
    else:
        for line in _lines(call, found, reasons):
            call.terminal.prose(line, hang=render.LABEL)
        call.has_seen(found.task)
    daemon.warn_if_none(call, int(found.task.state in {TaskState.QUEUED, TaskState.RUNNING}))


def _lines(call: Call, found: "TaskDetail", reasons: "Sequence[Reason]") -> Iterator[str]:
    terminal, task, spec, now = call.terminal, found.task, found.task.spec, call.reading.clock.now()
    yield terminal.style(f"{task.id}  {render.clean(spec.title)}", render.BOLD)
    word, why = found.row.standing.word, found.row.standing.why
    at_work = found.row.run if word == "running" else None
    why = render.lasting(why, None if at_work is None else at_work.stalled_since, now)
    why = task.remark if task.state is TaskState.DONE else why
    because = f": {render.clean(why)}" if why else ""
    yield _field("state", terminal.word(word) + because)
    for reason in reasons:
        yield _field("waits", describe(reason))
    if task.stop is not None:
        yield _field(
            "stop", f"{task.stop.how.value}, asked by {render.clean(task.stop.by)} {render.clock(task.stop.at)}"
        )
    account = f" as {spec.account}" if spec.account != OWN else ""
    yield _field("harness", spec.harness + account + (f", model {render.clean(spec.model)}" if spec.model else ""))
    yield _field("directory", render.clean(_directory(found)))
    yield from itertools.starmap(_field, words.fields(spec.worktree, task.id))
    yield _field("queue", render.clean(_queue_position(found)))
    if spec.argv:
        yield _field("command", render.clean(shlex.join(spec.argv)))
    yield from _own_commands(spec)
    if found.authorisation is not None:
        yield from allowed_lines(found.authorisation)
        yield _field("allowed by", f"{render.clean(found.authorisation.by)}, {render.clock(found.authorisation.at)}")
    yield _field("rules", _rules(found))
    yield _field("created", f"{render.clock(task.created_at)} ({render.age(task.created_at, now)} ago)")
    if found.key is not None:
        yield _field("key", render.clean(found.key))
    yield from _prompt(spec.prompt)
    for run in found.runs:
        yield from run_lines(call, run, found.authorisation)
    yield from evidence_lines(found.row.standing)
    if found.takeover:
        yield _field("take over", f"cd {shlex.quote(render.clean(spec.cwd))} && {render.clean(found.takeover)}")
    yield from _conversation(found)
    yield _field("next", next_steps(found))


def _own_commands(spec: "TaskSpec") -> Iterator[str]:
    """The person's own commands around its runs."""
    for label, lines in (("set-up", spec.setup), ("teardown", spec.teardown), ("checks", spec.checks)):
        for number, line in enumerate(lines):
            yield _field("" if number else label, render.clean(line))


def _conversation(found: "TaskDetail") -> Iterator[str]:
    """What waits for its agent, and how to say more."""
    task_id = found.task.id
    if found.waiting:
        count = render.counted(found.waiting, "message")
        yield _field("messages", f"{count} waiting for the next run · wk thread {task_id}")
    if found.can_send:
        yield _field("go on", f'wk send {task_id} "…" · wk thread {task_id}')


def _directory(found: "TaskDetail") -> str:
    """The working directory, with what was checked out there when it was approved."""
    if found.task.spec.scratch:
        return f"{words.short_path(found.task.spec.cwd)} (a scratch directory of its own)"
    place = None if found.authorisation is None else found.authorisation.place
    out = "" if place is None else described(place)
    cwd = words.short_path(found.task.spec.cwd)
    return f"{cwd} ({out} when approved)" if out else cwd


def allowed_lines(authorisation: "Authorisation") -> Iterator[str]:
    """What every launch of it uses, from the stored launch profile."""
    profile = authorisation.profile
    if profile is None:
        yield _field("rights", f"{render.clean(authorisation.detail)} (accepted by an older version)")
        return
    yield _field("rights", f"{profile.rights.value}: {render.clean(profile.permits)}")
    yield _field("sandbox", render.clean(profile.sandbox))
    yield _field("network", render.clean(profile.network))
    if profile.reads:
        yield _field("reads", render.clean(profile.reads))
    if profile.host:
        yield _field("requests", f"go to {render.clean(host(profile))}")
    if profile.program:
        yield _field("program", render.clean(f"{profile.program} {profile.version or ''}".rstrip()))
    if profile.home:
        yield _field("home", render.clean(profile.home))
    for label, text in table(profile, ""):
        if label in {"options", "inherits"}:
            yield _field(label, render.clean(text))


def _queue_position(found: "TaskDetail") -> str:
    """Where it stands in the queue, and beside whom it works."""
    spec = found.task.spec
    parts = [f"priority {spec.priority}"] if spec.priority else []
    parts += [f"project {spec.project}"] if spec.project else []
    parts += [f"labels {', '.join(spec.labels)}"] if spec.labels else []
    parts += [f"after {', '.join(spec.after)}"] if spec.after else []
    parts += [f"not before {render.clock(spec.not_before)}"] if spec.not_before is not None else []
    alone = "alone in its worktree" if spec.worktree is not None else f"alone in {spec.checkout}"
    parts.append("beside others" if spec.checkout is None else alone)
    return ", ".join(parts)


def _rules(found: "TaskDetail") -> str:
    spec, task = found.task.spec, found.task
    deadline = f"deadline {render.duration(spec.deadline_s)}" if spec.deadline_s is not None else "no deadline"
    if spec.silence_s is not None:
        deadline += f", silent for at most {render.duration(spec.silence_s)}"
    if spec.expect != "work" and not (spec.argv and spec.expect == "any"):
        deadline += f", expects {_EXPECTS.get(spec.expect, spec.expect)}"
    tries = f"{task.attempts} of {render.counted(spec.max_attempts, 'try', 'tries')} used"
    if found.runs and not task.attempts:
        tries = f"no try counted yet ({spec.max_attempts} allowed)"
    passed = f", passes {', '.join(spec.environment_names)}" if spec.environment_names else ""
    return f"{tries}, {deadline}, if lost: {spec.on_lost.value}, leftovers: {spec.leftovers}{passed}"


def _prompt(prompt: str) -> Iterator[str]:
    lines = render.clean_text(prompt).strip().splitlines()
    for number, line in enumerate(lines[:_FILES]):
        yield _field("prompt" if number == 0 else "", line[:500])
    if len(lines) > _FILES:
        yield _field("", f"… {len(lines) - _FILES} more lines (wk show --json has all of it)")


def _launched(detail: "RunDetail", newest: "Authorisation | None") -> Iterator[str]:
    """What this run was allowed, where that is not what the task is allowed now; and the version of its program, where that has changed."""
    launch = detail.launch
    if launch is None:
        return
    allowed = launch.authorisation.profile
    now = None if newest is None else newest.profile
    if allowed is not None and (now is None or _rows(now) != _rows(allowed)):
        yield _field("  allowed", render.clean(launch.authorisation.detail))
        known = () if now is None else _rows(now)
        for label, text in () if now is None else _rows(allowed):
            if (label, text) not in known:
                yield _field("", render.clean(f"{label} {text}"))
    if allowed is not None and launch.version is not None and launch.version != allowed.version:
        yield _field("  version", f"{render.clean(launch.version)}; it was {allowed.version or 'unknown'} when allowed")


def _rows(profile: LaunchProfile) -> Sequence[tuple[str, str]]:
    """How it is shown to a person, without the version, which is shown for each run."""
    return table(replace(profile, version=None), "")


def run_lines(call: Call, detail: "RunDetail", newest: "Authorisation | None") -> Iterator[str]:
    """A run: its agent, its end, its proof, its changes, what it used and what it said."""
    run, outcome = detail.run, detail.outcome
    yield ""
    stands = outcome.status.value if outcome is not None else run.state.value
    if outcome is not None and outcome.kind is FailureKind.ASKED:
        stands = "asks"
    again = " · another try" if run.cause is Cause.RETRY else ""
    if detail.messages:
        again = f" · {', '.join(f'm{number}' for number in detail.messages)}"
    yield call.terminal.style(f"run {run.number}", render.BOLD) + f"  {stands}{again} · {render.clock(run.claimed_at)}"
    yield from _launched(detail, newest)
    if run.agent is not None:
        yield _field("  agent", f"pid {run.agent.pid}, started {render.clock(run.agent.started_at)}")
    if run.exit is not None:
        yield _field("  exit", _exit(run.exit, run.early_fail))
    reason = (outcome.reason if outcome is not None else "") or run.reason
    kind = outcome.kind if outcome is not None else run.kind
    if kind is not None or (reason and (outcome is None or outcome.status.value != "succeeded")):
        yield _field("  because", f"{kind.value}: {render.clean(reason)}" if kind is not None else render.clean(reason))
    yield from command_lines(detail.commands)
    if outcome is not None:
        yield from _outcome(outcome)
    elif run.state is RunState.HELD:
        yield _field("  proof", _proof(run.proof))
        yield from _known(detail.known)
    if detail.on is not None:
        yield _field("  machine", f"{render.clean(detail.on)}, where its logs are, below the state directory")
    yield _field("  logs", words.short_path(str(detail.stdout)))
    yield _field("", words.short_path(str(detail.stderr)))
    for said in _not_given(detail.complaints):
        yield _field("  note", said)
    if detail.complaints is not None and (kind in _WITHOUT_AN_END or run.state is RunState.HELD):
        yield _field("", f"the shim's own complaints: {detail.complaints}")


def _not_given(complaints: Path | None) -> Iterator[str]:
    """What the agent could not be given of what its caller had, in the shim's own words."""
    if complaints is None:
        return
    with contextlib.suppress(OSError), complaints.open(encoding="utf-8", errors="replace") as file:
        for line in file.read(_COMPLAINTS).splitlines():
            _, marker, what = line.partition(_NOT_GIVEN)
            if marker:
                yield f"it did not get {render.clean(what).strip()}"


def _proof(proof: Proof | None) -> str:
    match proof:
        case Proof.PROVEN:
            return "proven: nothing of it is alive"
        case Proof.SWEPT:
            return "swept: nothing of it was found alive"
        case _:
            return "unproven: something of it may be alive"


def _outcome(outcome: "Outcome") -> Iterator[str]:
    yield _field("  proof", _proof(outcome.proof))
    for leftover in outcome.leftovers:
        yield _field("  leftover", f"pid {leftover.pid} {render.clean(leftover.command)}, ended with it")
    if outcome.result is not None:
        yield _field("  result", outcome.result.value.replace("_", " "))
    if outcome.verdict is not None:
        yield _field("  verdict", outcome.verdict.value.replace("_", " "))
    for label, text in changed.lines(outcome):
        yield _field(label, text)
    yield _field("  used", _usage(outcome.usage, outcome.turns, outcome.tool_calls, outcome.model))
    yield from _said(outcome.text)


def _known(trace: "Trace | None") -> Iterator[str]:
    """Of a held run: what it printed until it was lost from sight."""
    if trace is None:
        yield _field("  known", "nothing; what it printed cannot be read")
        return
    yield _field("  known", _usage(trace.usage, trace.turns, trace.tool_calls, trace.model))
    if trace.finished:
        yield _field("", "it had printed its final result; its end was not seen")
    yield from _said(trace.text)


def _said(text: str) -> Iterator[str]:
    lines = render.clean_text(text).strip().splitlines()
    if len(lines) > _TEXT_LINES:
        # What it comes to stands at the end, and so does what it asks.
        left_out = len(lines) - _TEXT_LINES
        lines[_FIRST_LINES : _FIRST_LINES + left_out] = [f"… {left_out} more lines (wk show --json has all of it) …"]
    for number, line in enumerate(lines):
        yield _field("  said" if number == 0 else "", line)


_ENDED_BY = {
    "stop": ", stopped",
    "kill": ", killed",
    "deadline": ", ended at its deadline",
    "silence": ", ended because it printed nothing",
    "interrupted": ", ended with the service or the system",
    "answered": ", ended because it went on after its answer",
    "early_fail": ", ended early by wk, because it could only fail",
}


def _exit(fact: "ExitFact", early_fail: "EarlyFail | None") -> str:
    elapsed = f"after {render.elapsed(fact.elapsed_s)}"
    if fact.errno is not None:
        about = f": {render.clean(fact.path)}" if fact.path else ""
        how = f"not started ({os.strerror(fact.errno)}{about})"
    elif fact.signal is not None:
        how = f"signal {fact.signal}"
    else:
        how = f"code {fact.exit_code}"
    why = _ENDED_BY.get(fact.reason.value, "")
    memory = f", {fact.max_rss_kib // 1024} MiB at most" if fact.max_rss_kib else ""
    because = (
        f": {render.clean(early_fail.reason)}" if early_fail is not None and fact.reason.value == "early_fail" else ""
    )
    return f"{how} {elapsed}{memory}{why}{because}"


def _usage(usage: "Usage", turns: int | None, tool_calls: int, model: str | None) -> str:
    tokens = (
        "tokens unknown"
        if usage.input_tokens is None and usage.output_tokens is None
        else f"{_number(usage.input_tokens)} tokens in, {_number(usage.output_tokens)} out"
    )
    cost = "cost unknown" if usage.cost_usd is None else f"${usage.cost_usd:.2f}"
    # A plain command reports nothing at all: whether it called a tool is then not known, and is not printed.
    tells = tool_calls or turns is not None or usage.input_tokens is not None or usage.output_tokens is not None
    parts = [tokens, cost, *([render.counted(tool_calls, "tool call")] if tells else [])]
    if turns is not None:
        parts.append(render.counted(turns, "turn"))
    if model:
        parts.append(f"model {render.clean(model)}")
    return " · ".join(parts)


def _number(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def evidence_lines(standing: "Standing") -> Iterator[str]:
    """What an execution directory tells at this moment, and what follows from it."""
    seen, verdict = standing.evidence, standing.verdict
    if seen is None or verdict is None:
        return
    yield ""
    decided = f"decided by {seen.decision.by.value}" if seen.decision is not None else "not decided"
    agent = f", agent pid {seen.agent.pid}" if seen.agent is not None else ""
    yield _field("evidence", f"directory {seen.directory.value}, {decided}, shim's lock {seen.lock.value}{agent}")
    if seen.unreadable:
        yield _field("", f"cannot be read: {', '.join(seen.unreadable)}")
    yield _field("", f"{verdict.kind.value.replace('_', ' ')}: {render.clean(verdict.reason)}")
