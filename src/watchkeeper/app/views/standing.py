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


class BesideAgent(NamedTuple):
    """The set-up or check that a run is at, as the standing of its task."""

    word: str
    why: str


def standing(task: Task, run: Run | None, runtime: Runtime | None, there: Whereabouts | None = None) -> Standing:
    """Where a task stands. `run` is the one that owns it now; without a runtime, or a live run, only the row is asked.

    `there` is where the run is, if machines share the database.
    """
    if run is not None:
        from watchkeeper.app.views import live  # noqa: PLC0415 - a list of tasks at rest needs no evidence

        found = live.observe(task, run, runtime, there)
        if found is not None:
            return Standing(*found)
    return Standing(word=_AT_REST.get(task.state, "starting"), why=task.reason)
