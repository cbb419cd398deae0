"""Where a task really stands.

The row says what was last recorded. For a live run the evidence is read at this moment, outside every write, and what it says is shown even if no daemon has
recorded it yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from watchkeeper.domain.task_record import Task, TaskState

if TYPE_CHECKING:
    from watchkeeper.app.views.whereabouts import Whereabouts
    from watchkeeper.domain.evidence import Evidence, Verdict
    from watchkeeper.domain.run_record import Run
    from watchkeeper.ports.runtime import Runtime

WORDS: dict[str, str] = {
    "queued": "waits for its turn",
    "starting": "claimed; its agent is being started",
    "running": "its agent works",
    "stopping": "it was told to stop and has not ended yet",
    "stop failed": "it was told to stop, and could not be ended yet; it is tried again",
    "ending": "its agent has ended; the outcome is being decided",
    "lost?": "its agent is gone without an exit record; a daemon will look and decide",
    "unreachable": "the machine that it is on was not heard of lately; nothing is concluded from that",
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


# A named tuple, as in `settings`: every command waits for the class.
class Standing(NamedTuple):
    """A word for where a task stands, a sentence on why, and the evidence behind them."""

    word: str
    why: str
    evidence: Evidence | None = None
    verdict: Verdict | None = None


def standing(task: Task, run: Run | None, runtime: Runtime | None, there: Whereabouts | None = None) -> Standing:
    """Where a task stands. `run` is the one that owns it now; without a runtime, or a live run, only the row is asked.

    `there` is where the run is, if machines share the database.
    """
    if run is not None:
        from watchkeeper.app.views import live  # noqa: PLC0415 - a list of tasks at rest needs no evidence

        found = live.look(task, run, runtime, there)
        if found is not None:
            return Standing(*found)
    return Standing(word=_AT_REST.get(task.state, "starting"), why=task.reason)
