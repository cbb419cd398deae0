"""`wk events` in words."""

from datetime import UTC, datetime
from typing import Any

import pytest

from watchkeeper.app.record import _kind
from watchkeeper.cli.history import KINDS, says
from watchkeeper.domain.run import RUN_EVENTS
from watchkeeper.domain.task import TASK_EVENTS
from watchkeeper.ports.store import JournalEntry


def _says(kind: str, /, **data: Any) -> str:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    return says(JournalEntry(seq=1, at=at, kind=kind, task_id="t", run_id=None, fence=None, data=data))


def test_every_kind_of_entry_has_words() -> None:
    """Also without any facts, as an older version may have left them away."""
    kinds = {f"run.{_kind(object.__new__(event))}" for event in RUN_EVENTS}
    kinds |= {f"task.{_kind(object.__new__(event))}" for event in TASK_EVENTS}
    kinds |= {
        "task.waiting",
        "task.ready",
        "queue.waiting",
        "queue.moving",
        "queue.paused",
        "queue.resumed",
        "queue.limited",
        "account.seen",
        "account.probe",
        "harness.seen",
    }
    kinds |= {"task.added", "run.reserved", "run.swept", "run.end_told", "run.end_given_up", "daemon.started"}
    kinds |= {"task.removed", "execution.left", "database.restored"}
    assert kinds == KINDS
    assert all(kind not in _says(kind) for kind in kinds)


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
        ("daemon.started", {"pid": 3, "found": {"t.1": "adopted"}}, "a daemon started (pid 3); it found t.1 adopted"),
        ("account.seen", {"account": "c:own", "trouble": "overloaded", "says": "529", "quota_until": ""},
         "the service of c:own fails (overloaded): 529"),
        ("account.seen", {"account": "c:own", "trouble": "", "quota_until": ""}, "the service of c:own answers"),
        ("account.seen", {"account": "c:own", "sign_in": "out"}, "account c:own is signed out"),
        ("account.probe", {"account": "c:own"}, "tries the service of c:own for all its tasks"),
        ("harness.seen", {"harness": "codex", "present": False, "says": "Gone."}, "the program of harness codex is missing: Gone."),
        ("later.kind", {"a": 1, "b": "x\x1b"}, "later.kind a=1 b=x␛"),
    ],
)  # fmt: skip
def test_people_read_words(kind: str, data: dict[str, Any], words: str) -> None:
    """What they need and no more."""
    assert _says(kind, **data) == words


def test_a_retry_says_when() -> None:
    """In the reader's own zone."""
    words = _says("task.run_settled", state="queued", reason="Busy.", wake_at="2026-01-02T00:00:15+00:00")
    assert words.startswith("waits for another try at 2026-01-0") and words.endswith(": Busy.")
