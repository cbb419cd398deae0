"""A run that is not settled: what the evidence says of it at this moment, read outside every write.

Apart from `standing`, so that a list of tasks at rest needs neither the runs' records nor the reading of evidence.
"""

from watchkeeper.app.views import whereabouts
from watchkeeper.app.views.whereabouts import Whereabouts, elsewhere
from watchkeeper.domain.evidence import ENDED_WITHOUT_ROOM, Evidence, Verdict, VerdictKind, judge
from watchkeeper.domain.run_record import LIVE_RUN_STATES, Run, RunState
from watchkeeper.domain.task_record import Task, TaskState
from watchkeeper.ports.runtime import Runtime

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

STOP_FAILED = "stop failed"
ANSWERED = "answered, still running"
"""How a program is described that has given its final answer and continues."""

STALLED = "no progress"
"""What is said of a run that has printed nothing new for long."""

_MAY_BE_STOPPING = frozenset({"running", "starting"})


def observe(
    task: Task, run: Run, runtime: Runtime | None, there: Whereabouts | None = None
) -> tuple[str, str, Evidence | None, Verdict | None] | None:
    """A word, a sentence on why, and the evidence behind them; None for a run that is settled."""
    if run.state not in LIVE_RUN_STATES:
        return None
    afar = elsewhere(run, there, runtime)
    if afar is not None:
        return whereabouts.observe(task, run, afar)
    evidence, trouble = _judge(task, run, runtime)
    verdict = judge(evidence) if evidence is not None else None
    if run.state is RunState.ENDED and _waits_for_room(run, runtime):
        return "ending", ENDED_WITHOUT_ROOM, evidence, verdict
    if run.stop_failed is not None:
        return STOP_FAILED, run.stop_failed, evidence, verdict
    if task.state is TaskState.HELD:
        return "held", task.reason, evidence, verdict
    word = _word(run, verdict)
    why = verdict.reason if verdict is not None else ""
    slow = _slow(run)
    if trouble:
        word, why = "unknown", trouble
    if task.stop is not None and word in _MAY_BE_STOPPING:
        word, why = "stopping", f"{task.stop.by} told it to {task.stop.how.value}."
    if word in {"running", "starting"}:
        why = _meanwhile(run) if word == "running" else ""
    return word, slow or why, evidence, verdict


def _meanwhile(run: Run) -> str:
    """What was seen of a run whose agent is alive; since when stands in the run."""
    if run.answered_at is not None:
        return ANSWERED
    return STALLED if run.stalled_since is not None else ""


def _slow(run: Run) -> str:
    """What takes long of what is done for it; without an exit the reason of a run that has ended is how it ended."""
    waits = run.state is RunState.RESERVED or (run.state is RunState.ENDED and run.exit is not None)
    return run.reason if waits else ""


def _judge(task: Task, run: Run, runtime: Runtime | None) -> tuple[Evidence | None, str]:
    if runtime is None or run.state in _WITHOUT_EVIDENCE:
        return None, ""
    try:
        return runtime.observe(run, stop_asked=task.stop is not None), ""
    except OSError as error:
        return None, f"The evidence cannot be read: {error.strerror or error}."


def _waits_for_room(run: Run, runtime: Runtime | None) -> bool:
    """Whether the shim of an agent that has ended cannot write the rest of its output. It has no say in what is decided, so what cannot be read is not told."""
    try:
        return runtime is not None and judge(runtime.observe(run, stop_asked=False)).reason == ENDED_WITHOUT_ROOM
    except OSError:
        return False


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
