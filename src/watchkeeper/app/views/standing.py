"""Where a task really stands.

The row says what was last recorded. For a live run the evidence is read at this moment, outside every write, and what it says is shown even if no daemon has
recorded it yet.
"""

from dataclasses import dataclass

from watchkeeper.domain.evidence import Evidence, Verdict, VerdictKind, judge
from watchkeeper.domain.model import LIVE_RUN_STATES, Run, RunState, Task, TaskState
from watchkeeper.ports.runtime import Runtime

WORDS: dict[str, str] = {
    "queued": "waits for its turn",
    "starting": "claimed; its agent is being started",
    "running": "its agent works",
    "stopping": "it was told to stop and has not ended yet",
    "ending": "its agent has ended; the outcome is being decided",
    "lost?": "its agent is gone without an exit record; a daemon will look and decide",
    "unknown": "what became of its agent cannot be found out from here",
    "needs you": "it stopped because a person is needed; the reason says why",
    "held": "what happened is uncertain; `wk show` has the evidence",
    "done": "it ended well",
    "failed": "it ended badly",
    "stopped": "you stopped it",
}
"""Every word there is for where a task stands, and what it means."""

_AT_REST = {
    TaskState.QUEUED: "queued",
    TaskState.NEEDS_INPUT: "needs you",
    TaskState.HELD: "held",
    TaskState.DONE: "done",
    TaskState.FAILED: "failed",
    TaskState.STOPPED: "stopped",
}

_WITHOUT_EVIDENCE = frozenset({RunState.RESERVED, RunState.ENDED, RunState.SETTLED})
"""States of a run in which there is nothing, or nothing more, to look at."""

_BY_VERDICT = {
    VerdictKind.WAITING: "starting",
    VerdictKind.ALIVE: "running",
    VerdictKind.ENDED: "ending",
    VerdictKind.TAKE_DECISION: "starting",
    VerdictKind.NEVER_LAUNCHED: "ending",
    VerdictKind.LOST_TO_REBOOT: "lost?",
    VerdictKind.SHIM_DIED: "lost?",
    VerdictKind.UNKNOWN: "unknown",
}

_MAY_BE_STOPPING = frozenset({"running", "starting"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A word for where a task stands, a sentence on why, and the evidence behind them."""

    word: str
    why: str
    evidence: Evidence | None = None
    verdict: Verdict | None = None


def standing(task: Task, run: Run | None, runtime: Runtime | None) -> Standing:
    """Where a task stands. `run` is the one that owns it now; without a runtime, or a live run, only the row is asked."""
    if run is None or run.state not in LIVE_RUN_STATES:
        return Standing(word=_AT_REST.get(task.state, "starting"), why=task.reason)
    evidence, trouble = _look(task, run, runtime)
    verdict = judge(evidence) if evidence is not None else None
    if task.state is TaskState.HELD:
        return Standing(word="held", why=task.reason, evidence=evidence, verdict=verdict)
    word = _word(run, verdict)
    why = verdict.reason if verdict is not None else ""
    if trouble:
        word, why = "unknown", trouble
    if task.stop is not None and word in _MAY_BE_STOPPING:
        word, why = "stopping", f"{task.stop.by} told it to {task.stop.how.value}."
    return Standing(
        word=word, why=why if word not in {"running", "starting"} else "", evidence=evidence, verdict=verdict
    )


def _look(task: Task, run: Run, runtime: Runtime | None) -> tuple[Evidence | None, str]:
    if runtime is None or run.state in _WITHOUT_EVIDENCE:
        return None, ""
    try:
        return runtime.observe(run, stop_asked=task.stop is not None), ""
    except OSError as error:
        return None, f"The evidence cannot be read: {error.strerror or error}."


def _word(run: Run, verdict: Verdict | None) -> str:
    if verdict is not None:
        return _BY_VERDICT[verdict.kind]
    match run.state:
        case RunState.RESERVED | RunState.PREPARED | RunState.STARTING:
            return "starting"
        case RunState.ENDED:
            return "ending"
        case _:
            return "running"
