"""What is shown as JSON: every key and value of every view, for records that have everything and for records that have nothing."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from support.records import make_outcome, make_profile, make_run, make_spec, make_task

from watchkeeper.app.add import Handed
from watchkeeper.app.views import plain, profile
from watchkeeper.app.views.brief import Brief
from watchkeeper.app.views.detail import RunDetail, TaskDetail
from watchkeeper.app.views.health import NOTHING
from watchkeeper.app.views.rows import TaskRow
from watchkeeper.app.views.standing import Standing
from watchkeeper.app.views.whereabouts import Whereabouts
from watchkeeper.app.views.why import Why
from watchkeeper.domain.check_verdict import CheckVerdict
from watchkeeper.domain.evidence import DecidedBy, DirectoryState, Evidence, GoneFact, LockState, Verdict, VerdictKind
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.inheritance import UNLIMITED, Inheritance
from watchkeeper.domain.lanes import Lane, QueueRule, Reason
from watchkeeper.domain.model import (
    AgentIdentity,
    Changes,
    EndReason,
    ExitFact,
    FileChange,
    Leftover,
    Proof,
    RunState,
    StopHow,
    StopRequest,
    TaskState,
    Trace,
    Usage,
)
from watchkeeper.domain.outcome_record import Result
from watchkeeper.domain.profile import line
from watchkeeper.domain.samples import DECISIONS
from watchkeeper.domain.side_command import CommandKind, CommandResult, CommandState, SideCommand
from watchkeeper.domain.wait import Wait
from watchkeeper.domain.waiting import Dependency
from watchkeeper.domain.working_directory import WorkingDirectory
from watchkeeper.ports.harness import EventKind, StreamEvent
from watchkeeper.ports.store import Authorisation, JournalEntry, Launch


def at(minute: int) -> datetime:
    """Another time for each field."""
    return datetime(2026, 1, 2, 3, minute, tzinfo=UTC)


def iso(minute: int) -> str:
    return f"2026-01-02T03:{minute:02}:00+00:00"


DIRECTORY = WorkingDirectory(
    path="/home/ada/shop", device=1, inode=2, top="/home/ada", ref="refs/heads/main", head="abc"
)
DIRECTORY_SHOWN = {
    "path": "/home/ada/shop", "device": 1, "inode": 2, "checkout": "/home/ada", "branch": "main", "head": "abc", "unknown": None,
}  # fmt: skip
SPEC = make_spec(
    prompt="Fix the shop.", title="Shop", harness="claude", model="m-1", cwd="/home/ada/shop", argv=("a", "b"), environment_names=("GH_TOKEN",),
    deadline_s=90.0, silence_s=45.0, checks=("make test",), check_deadline_s=60.0, setup=("make deps",), teardown=("make down",),
    expect="answer", max_attempts=5, leftovers="wait", account="work", machine="m7", project="shop",
    checkout="/home/ada", after=("t8", "t9"), not_before=at(9), labels=("one", "two"), priority=4,
)  # fmt: skip
TASK = make_task(
    "t1", spec=SPEC, state=TaskState.FAILED, created_at=at(1), updated_at=at(2), ended_at=at(3), wake_at=at(4), runs=6, attempts=2, reason="It failed.",
    kind=FailureKind.NETWORK, pinned_at=at(5), seen_at=at(6), stop=StopRequest(how=StopHow.KILL, by="bob", at=at(7), grace_s=3.0),
)  # fmt: skip
TASK_SHOWN = {
    "id": "t1", "title": "Shop", "state": "failed", "reason": "It failed.", "kind": "network", "harness": "claude", "model": "m-1",
    "cwd": "/home/ada/shop", "created_at": iso(1), "updated_at": iso(2), "ended_at": iso(3), "wake_at": iso(4), "run_count": 6, "attempts": 2,
    "max_attempts": 5, "expect": "answer", "priority": 4, "account": "work", "machine": "m7", "project": "shop", "checkout": "/home/ada",
    "after": ["t8", "t9"], "not_before": iso(9), "labels": ["one", "two"], "pinned_at": iso(5), "seen_at": iso(6),
    "stop": {"how": "kill", "by": "bob", "at": iso(7), "grace_s": 3.0}, "worktree": None, "scratch": False,
}  # fmt: skip
EXIT = ExitFact(
    status=2 << 8, reason=EndReason.STOP, at=at(11), elapsed_s=1.5, errno=2, max_rss_kib=77, step="exec", path="/bin/no"
)
EXIT_SHOWN = {
    "code": 2, "signal": None, "reason": "stop", "at": iso(11), "elapsed_s": 1.5, "max_rss_kib": 77, "errno": 2, "step": "exec", "path": "/bin/no",
}  # fmt: skip
RUN = make_run(
    make_task("t1"), 7, state=RunState.SETTLED, claimed_at=at(12), answered_at=at(14), stalled_since=at(15), settled_at=at(16),
    agent=AgentIdentity(pid=4711, start_ticks=8, boot_id="b", started_at=at(13)), exit=EXIT, kind=FailureKind.QUOTA, reason="Used up.",
    proof=Proof.SWEPT, harness_session="s-1", stop_failed="No answer.",
)  # fmt: skip
RUN_SHOWN = {
    "id": "t1.1", "number": 1, "cause": "initial", "state": "settled", "fence": 7, "execution": "x-t1-1", "machine": "m1", "claimed_at": iso(12),
    "started_at": iso(13), "answered_at": iso(14), "stalled_since": iso(15), "settled_at": iso(16), "pid": 4711, "exit": EXIT_SHOWN, "kind": "quota",
    "reason": "Used up.", "proof": "swept", "harness_session": "s-1", "stop_failed": "No answer.",
}  # fmt: skip
USAGE = Usage(input_tokens=1, output_tokens=2, cached_tokens=3, cost_usd=0.5)
USAGE_SHOWN = {"input_tokens": 1, "output_tokens": 2, "cached_tokens": 3, "cost_usd": 0.5}
ROW = TaskRow(task=TASK, run=RUN, standing=Standing("failed", "It failed."), brief=Brief("dependency", "task t8"))
ROW_SHOWN = TASK_SHOWN | {
    "shown": "failed", "why": "It failed.", "waits": {"wait": "dependency", "detail": "task t8"}, "run": RUN_SHOWN,
    "result": None, "verdict": None,
}  # fmt: skip
LANE = Lane(id=1, machine="m7", harness="claude", account="claude:work", project="shop")
LANE_SHOWN = {"machine": "m7", "harness": "claude", "account": "claude:work", "project": "shop"}
REASON = Reason(wait=Wait.SERVICE, detail="It fails.", since=at(21), until=at(22), tasks=("t8",))
REASON_SHOWN = {"wait": "service", "detail": "It fails.", "since": iso(21), "until": iso(22), "tasks": ["t8"]}
AUTHORISATION = Authorisation(
    id="a1",
    task_id="t1",
    kind="person",
    by="ada",
    detail="No sandbox.",
    at=at(23),
    place=DIRECTORY,
    profile=make_profile(),
)
AUTHORISATION_SHOWN = {
    "kind": "person", "by": "ada", "detail": "No sandbox.", "at": iso(23), "place": DIRECTORY_SHOWN, "profile": profile.plain(make_profile()),
}  # fmt: skip
OUTCOME = make_outcome(
    RUN, kind=FailureKind.ASKED, reason="It asks.", at=at(24), text="Which?", harness_session="s-2", model="m-2", turns=3, tool_calls=4, usage=USAGE,
    changes=Changes(
        known=True, why_unknown="no", commits=("c1",), truncated=True, in_checkout=False, beside=("t5",), left=DIRECTORY, ignored=("i",),
        files=(FileChange(path="a", change="added", old="b", insertions=1, deletions=2, is_binary=True, is_committed=True),),
        ignored_in_all=3, base="b1", tip="t1", repository="/r", not_kept="full", left_out=("big",),
    ),
    leftovers=(Leftover(pid=9, command="sleep"),), wake_at=at(25), result=Result.CHANGED,
    verdict=CheckVerdict.FAILED,
)  # fmt: skip
OUTCOME_SHOWN: dict[str, Any] = {
    "status": "succeeded", "disposition": "done", "kind": "asked", "reason": "It asks.", "at": iso(24), "proof": "proven", "text": "Which?",
    "harness_session": "s-2", "model": "m-2", "turns": 3, "tool_calls": 4, "usage": USAGE_SHOWN,
    "changes": {
        "known": True, "why_unknown": "no", "commits": ["c1"], "uncommitted": 0, "truncated": True, "in_checkout": False, "beside": ["t5"],
        "left": DIRECTORY_SHOWN,
        "files": [
            {"path": "a", "change": "added", "old": "b", "insertions": 1, "deletions": 2, "binary": True, "committed": True},
        ],
        "ignored": ["i"], "ignored_in_all": 3, "base": "b1", "tip": "t1", "repository": "/r", "not_kept": "full", "left_out": ["big"],
    },
    "leftovers": [{"pid": 9, "command": "sleep"}], "wake_at": iso(25), "result": "changed", "verdict": "failed",
}  # fmt: skip
COMMAND = SideCommand(
    run_id="t1.1", task_id="t1", kind=CommandKind.CHECK, number=1, line="make test", execution_id="x9", state=CommandState.ENDED,
    result=CommandResult.FAILED, reason="It failed.",
    exit=ExitFact(status=3 << 8, reason=EndReason.EXITED, at=at(21), elapsed_s=1.5),
)  # fmt: skip
COMMAND_SHOWN: dict[str, Any] = {
    "kind": "check", "number": 1, "line": "make test", "state": "ended", "result": "failed", "reason": "It failed.", "exit_code": 3,
    "signal": None, "elapsed_s": 1.5, "execution": "x9",
}  # fmt: skip
DETAIL = RunDetail(
    run=RUN, outcome=OUTCOME, launch=Launch(authorisation=AUTHORISATION, version="2.1"), on="ant", directory=Path("/x"),
    stdout=Path("/x/out"), stderr=Path("/x/err"), complaints=Path("/x/shim.err"), commands=(COMMAND,), messages=(1, 2),
    known=Trace(finished=True, ok=False, text="Half.", tool_calls=1, turns=2, model="m-3", usage=USAGE),
)  # fmt: skip
DETAIL_SHOWN = RUN_SHOWN | {
    "on": "ant", "allowed": AUTHORISATION_SHOWN, "program_version": "2.1", "directory": "/x", "stdout": "/x/out", "stderr": "/x/err",
    "complaints": "/x/shim.err",
    "known": {"text": "Half.", "finished": True, "tool_calls": 1, "turns": 2, "model": "m-3", "usage": USAGE_SHOWN},
    "outcome": OUTCOME_SHOWN, "commands": [COMMAND_SHOWN], "messages": [1, 2],
}  # fmt: skip
MORE_OF_TASK = {
    "prompt": "Fix the shop.", "argv": ["a", "b"], "environment_names": ["GH_TOKEN"], "deadline_s": 90.0, "silence_s": 45.0, "on_lost": "hold",
    "leftovers": "wait",
    "checks": ["make test"], "check_deadline_s": 60.0, "setup": ["make deps"], "teardown": ["make down"],
    "evidence": None, "takeover": "claude --resume s-1", "key": "k1",
}  # fmt: skip


def test_a_task_and_its_run() -> None:
    assert plain.row(ROW) == ROW_SHOWN
    bare = plain.row(TaskRow(task=replace(TASK, stop=None, kind=None), run=None, standing=Standing("queued", "")))
    unset = {"stop": None, "kind": None, "shown": "queued", "why": "", "waits": None, "run": None}
    assert bare == ROW_SHOWN | unset
    reserved = plain.run(make_run(make_task("t1"), 7, claimed_at=at(12)))
    never = dict.fromkeys(
        (
            "started_at",
            "answered_at",
            "stalled_since",
            "settled_at",
            "pid",
            "exit",
            "kind",
            "proof",
            "harness_session",
            "stop_failed",
        )
    )
    assert reserved == RUN_SHOWN | never | {"state": "reserved", "reason": ""}


def test_a_task_in_full() -> None:
    detail = TaskDetail(row=ROW, authorisation=AUTHORISATION, runs=(DETAIL,), key="k1", takeover="claude --resume s-1")
    assert plain.detail(detail) == ROW_SHOWN | MORE_OF_TASK | {
        "authorisation": AUTHORISATION_SHOWN,
        "runs": [DETAIL_SHOWN],
    }
    assert plain.detail(replace(detail, authorisation=None))["authorisation"] is None
    bare = replace(DETAIL, outcome=None, launch=None, complaints=None, known=None, on=None)
    nothing = dict.fromkeys(("outcome", "allowed", "program_version", "complaints", "known", "on"))
    assert plain.run_detail(bare) == DETAIL_SHOWN | nothing


def test_what_allowed_it() -> None:
    assert plain.authorisation(AUTHORISATION) == AUTHORISATION_SHOWN
    older = replace(AUTHORISATION, place=None, profile=None)
    assert plain.authorisation(older) == AUTHORISATION_SHOWN | {"place": None, "profile": None}


def test_an_outcome() -> None:
    assert plain.outcome(OUTCOME) == OUTCOME_SHOWN
    plainer = replace(OUTCOME, kind=None, changes=None, leftovers=(), wake_at=None, result=None)
    assert plain.outcome(plainer) == OUTCOME_SHOWN | dict.fromkeys(("kind", "changes", "wake_at", "result")) | {
        "leftovers": []
    }
    assert OUTCOME.changes is not None
    unseen = plain.outcome(replace(OUTCOME, changes=replace(OUTCOME.changes, left=None)))["changes"]
    assert unseen == OUTCOME_SHOWN["changes"] | {"left": None}


def test_why_a_task_waits() -> None:
    on = Dependency(task_id="t8", state=TaskState.RUNNING)
    why = Why(task=TASK, lane=LANE, reasons=(REASON,), dependencies=(on,), dependents=("t4",))
    assert plain.why(why) == {
        "id": "t1", "state": "failed", "reason": "It failed.", "wake_at": iso(4), "lane": LANE_SHOWN, "checkout": "/home/ada",
        "reasons": [REASON_SHOWN], "after": [{"id": "t8", "state": "running"}], "before": ["t4"], "worktree": None,
    }  # fmt: skip
    assert plain.waiting(why) == {
        "id": "t1", "title": "Shop", "priority": 4, "created_at": iso(1), "lane": LANE_SHOWN, "checkout": "/home/ada", "reasons": [REASON_SHOWN],
    }  # fmt: skip


def test_a_rule_of_the_queue() -> None:
    rule = QueueRule(scope="project", name="shop", paused=True, max_running=2, by="ada", at=at(31))
    shown = {"scope": "project", "name": "shop", "paused": True, "max_running": 2, "by": "ada", "at": iso(31)}
    assert plain.rule(rule, None) == shown
    assert plain.rule(rule, 0) == shown | {"at_work": 0}


def test_a_machine() -> None:
    there = Whereabouts(machine="m7", name="ant", reachable=True, since=at(32))
    assert plain.machine(there) == {"id": "m7", "name": "ant", "reachable": True, "lease_until": iso(32)}


def test_what_is_seen_of_a_live_run() -> None:
    seen = Evidence(
        directory=DirectoryState.INTACT, lock=LockState.HELD, decision=DECISIONS[DecidedBy.SHIM], agent=RUN.agent, exit=EXIT, gone=GoneFact(proven=True),
        unreadable=("proc.json",),
    )  # fmt: skip
    verdict = Verdict(kind=VerdictKind.ALIVE, reason="It runs.")
    shown = {
        "directory": "intact", "lock": "held", "decided_by": "shim", "agent_pid": 4711, "exit": EXIT_SHOWN, "gone": True, "unreadable": ["proc.json"],
        "verdict": "alive", "detail": "It runs.",
    }  # fmt: skip
    assert plain.evidence(Standing("running", "", seen, verdict)) == shown
    nothing = replace(seen, decision=None, agent=None, exit=None, gone=None, unreadable=())
    unset = {"decided_by": None, "agent_pid": None, "exit": None, "gone": None, "unreadable": []}
    assert plain.evidence(Standing("running", "", nothing, verdict)) == shown | unset
    assert plain.evidence(Standing("running", "", seen, None)) is None
    assert plain.evidence(Standing("running", "", None, verdict)) is None


def test_where_everything_stands() -> None:
    full = replace(
        NOTHING, counts={TaskState.DONE: 3}, live_runs=4, answered=(RUN,), stalled=(RUN, RUN), outbox_pending=5, journal_last=6, waits={"limit": 7},
        paused=("the queue",), needs_you=(ROW,),
    )  # fmt: skip
    assert plain.health(full) == {
        "counts": {"done": 3}, "live_runs": 4, "answered": [RUN_SHOWN], "stalled": [RUN_SHOWN, RUN_SHOWN], "outbox_pending": 5, "journal_last": 6,
        "waits": {"limit": 7}, "paused": ["the queue"], "needs_you": [ROW_SHOWN],
    }  # fmt: skip


def test_history_and_output() -> None:
    entry = JournalEntry(seq=1, at=at(41), kind="task.added", task_id="t1", run_id="t1.1", fence=7, data={"by": "ada"})
    assert plain.entry(entry) == {
        "seq": 1, "at": iso(41), "kind": "task.added", "task": "t1", "run": "t1.1", "fence": 7, "data": {"by": "ada"},
    }  # fmt: skip
    kind = next(iter(EventKind))
    said = StreamEvent(kind=kind, text="Hello.", at=at(42))
    assert plain.stream_event(said, 2) == {"run": 2, "kind": kind.value, "text": "Hello.", "at": iso(42)}


def test_a_task_that_was_handed_over() -> None:
    assert plain.handed(Handed(task=TASK, key="k1", already=True)) == TASK_SHOWN | {"key": "k1", "already": True}
    assert plain.handed(Handed(task=TASK, key="", already=False)) == TASK_SHOWN | {"key": None, "already": False}


def test_a_launch_profile() -> None:
    inherits = Inheritance(umask=0o027, nice=5, oom_score_adj=10, limits=(("nofile", 1024, UNLIMITED),))
    full = make_profile(
        harness="claude", program="/bin/claude", version="2.1", machine="m7", account="claude:work", home="/h", model="m-1", reads="your settings",
        isolation="user", host="h:1", host_source="a setting", options=(("o", "v"),), argv=("claude", None), prompt_by="argument", prompt_prefix="- ",
        environment=(("A", "1"), ("B", None)), grace_s=3.0, log_limit_bytes=65536, inherits=inherits,
    )  # fmt: skip
    shown = {
        "fingerprint": full.fingerprint, "line": line(full), "harness": "claude", "program": "/bin/claude", "program_version": "2.1", "machine": "m7",
        "account": "claude:work", "home": "/h", "model": "m-1", "rights": "full", "permits": "true runs as you", "reads": "your settings",
        "network": "yours", "sandbox": "none", "isolation": "user", "host": "h:1", "host_source": "a setting", "options": {"o": "v"},
        "argv": ["claude", None], "prompt_by": "argument", "prompt_prefix": "- ", "environment": {"A": "1", "B": None}, "grace_s": 3.0,
        "log_limit_bytes": 65536,
        "inherits": {"umask": "027", "nice": 5, "oom_score_adj": 10, "limits": {"nofile": [1024, None]}},
    }  # fmt: skip
    assert profile.plain(full) == shown
    bare = profile.plain(make_profile())
    unset = ("program", "program_version", "machine", "home", "model", "isolation", "host", "host_source", "inherits")
    assert [bare[name] for name in unset] == [None] * len(unset)
    assert profile.agreed("No sandbox.", full, ("GH_TOKEN",)) == {
        "rights": "No sandbox.", "program": "/bin/claude", "program_version": "2.1", "host": "h:1", "host_source": "a setting", "profile": shown,
        "not_passed": ["GH_TOKEN"],
    }  # fmt: skip
    older = dict.fromkeys(("program", "program_version", "host", "host_source", "profile"))
    assert profile.agreed("No sandbox.", None, ()) == older | {"rights": "No sandbox.", "not_passed": []}
