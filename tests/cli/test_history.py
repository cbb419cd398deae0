"""`wk events` in words."""

import ast
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import watchkeeper
from watchkeeper.app.record import _kind
from watchkeeper.cli.history import KINDS, describe
from watchkeeper.domain.message import MessageState
from watchkeeper.domain.run_events import (
    RUN_EVENTS,
)
from watchkeeper.domain.task import TASK_EVENTS
from watchkeeper.ports.store import JournalEntry
from watchkeeper.store.journal import TORN


def _sentence(kind: str, /, **data: Any) -> str:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    return describe(JournalEntry(seq=1, at=at, kind=kind, task_id="t", run_id=None, fence=None, data=data))


SOURCE = Path(watchkeeper.__file__).parent
NAMED = {"f'run.{_kind(event)}'", "f'task.{_kind(event)}'", "change.kind", "f'message.{after.state.value}'"}
"""First arguments that are not constants: the events' own names, and `app/queue_rules.py`, whose kinds are below."""


def _journalled() -> tuple[set[str], set[str]]:
    """The kinds of entries that our source appends to the journal, and the expressions that are not constants."""
    kinds, others = set[str](), set[str]()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("journal.append"):
                kind = node.args[0]
                values = [kind.body, kind.orelse] if isinstance(kind, ast.IfExp) else [kind]
                for value in values:
                    if isinstance(value, ast.Constant):
                        kinds.add(str(value.value))
                    else:
                        others.add(ast.unparse(value))
    return kinds, others


def test_every_kind_of_entry_has_words() -> None:
    """All that our source appends; also without any facts, as an older version may have left them away."""
    kinds, others = _journalled()
    assert others == NAMED
    kinds |= {f"run.{_kind(object.__new__(event))}" for event in RUN_EVENTS}
    kinds |= {f"task.{_kind(object.__new__(event))}" for event in TASK_EVENTS}
    kinds |= {f"message.{state.value}" for state in MessageState}
    kinds |= {"queue.paused", "queue.resumed", "queue.limited"}
    assert kinds | {TORN} == KINDS
    for kind in kinds:
        assert kind not in _sentence(kind) and "=" not in _sentence(kind) and len(_sentence(kind)) > 3


@pytest.mark.parametrize(
    ("kind", "data", "words"),
    [
        ("run.agent_seen", {"agent_pid": 7, "agent_boot_id": "b", "agent_start_ticks": 5}, "its agent works (pid 7)"),
        ("run.exit_seen", {"exit_status": 256, "exit_elapsed_s": 0.2}, "its agent ended with code 1 after <1s"),
        ("run.exit_seen", {"exit_status": 15, "exit_elapsed_s": 61.0}, "its agent ended by signal 15 after 1m 01s"),
        ("run.exit_seen", {"exit_errno": 2}, "its agent could not be started"),
        ("run.lost", {"proof": "swept", "reason": "It was killed."},
         "its agent is lost: It was killed. Nothing of it was found alive."),
        ("run.swept", {"proof": "swept", "ended": ["7 sleep"], "spared": []},
         "what was left of it was looked for: nothing of it was found alive; ended 7 sleep"),
        ("task.run_settled", {"state": "failed", "reason": "It broke.", "kind": "crash"}, "failed: It broke."),
        ("task.run_settled", {"state": "done", "reason": "Done."}, "done"),
        ("task.stop_asked", {"request_by": "ada", "request_how": "kill"}, "ada asked for its end (kill)"),
        ("daemon.started", {"pid": 3, "found": {"t.1": "adopted"}}, "a daemon started (pid 3); runs that it found: 1 adopted"),
        ("daemon.started", {"pid": 3, "found": {f"t{n}.1": "lost" if n == 7 else "adopted" for n in range(300)}},
         "a daemon started (pid 3); runs that it found: 299 adopted, 1 lost"),
        ("account.added", {"account": "claude:work", "home": None, "variables": [], "by": "ada"},
         "account claude:work was added by ada"),
        ("account.added", {"account": "codex:team", "home": "/h", "variables": ["A=B", "C"], "by": "ada"},
         "account codex:team was added by ada: home /h; variables A=B, C"),
        ("account.removed", {"account": "codex:team", "by": "ada"}, "account codex:team was removed by ada"),
        ("account.seen", {"account": "claude:own", "machine": "m", "sign_in": "out"}, "account claude:own is signed out"),
        ("account.seen", {"account": "claude:own", "machine": "m", "quota_until": ""},
         "account claude:own is within its limit"),
        ("account.seen", {"account": "a:own", "trouble": "overloaded", "detail": "529", "quota_until": ""},
         "account a:own: its service is in trouble (overloaded): 529"),
        ("account.seen", {"account": "a:own", "trouble": "", "quota_until": ""}, "account a:own: its service answers"),
        ("account.probe", {"account": "c:own"}, "tries the service of c:own for all its tasks"),
        ("harness.seen", {"harness": "claude", "machine": "m", "present": False, "detail": "no claude on the PATH"},
         "the program of harness claude is missing: no claude on the PATH"),
        ("harness.seen", {"harness": "claude", "machine": "m", "present": True, "detail": "/usr/bin/claude"},
         "the program of harness claude is there: /usr/bin/claude"),
        ("later.kind", {"a": 1, "b": "x\x1b"},
         "something that this version cannot put into words (later.kind); wk events --json has it"),
    ],
)  # fmt: skip
def test_people_read_words(kind: str, data: dict[str, Any], words: str) -> None:
    """What they need and no more."""
    assert _sentence(kind, **data) == words


def test_a_retry_says_when() -> None:
    """In the reader's own zone."""
    words = _sentence("task.run_settled", state="queued", reason="Busy.", wake_at="2026-01-02T00:00:15+00:00")
    assert words.startswith("waits for another try at 2026-01-0") and words.endswith(": Busy.")
