"""The flows that are swept for crashes, and what must hold after each, however it was disturbed.

A flow is played by a rig on which one crash point may be armed. The process that reaches it first dies there: a command, the daemon or a shim. A person then
types the command again if it died, and the daemon is started again whenever it is gone. In the end the task rests, and the invariants are checked.
"""

import hashlib
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import RESTING_TASK_STATES, EndReason, OutcomeStatus, Run, RunState, Task, TaskState
from watchkeeper.domain.worktree import WorktreeState
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.boot import boot_id

LINES = 3000


def _text(*more: str) -> bytes:
    lines = [f"line {line}: the quick brown fox jumps over the lazy dog" for line in range(LINES)]
    return "".join(f"{line}\n" for line in [*lines, *more]).encode()


WHOLE_LOG = hashlib.sha256(_text()).hexdigest()
RELEASED_LOG = hashlib.sha256(_text("waiting", "released")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One flow: how it is played, and how it ends when no process dies."""

    name: str
    play: Callable[[Rig], str]
    """Plays it to its end and returns the task's id."""
    ends: TaskState
    code: int | None
    """The agent's own exit code in its last run, if it ends by itself."""
    least: int
    """It reaches at least so many points, or it is not the flow that it says it is."""
    without: str = ""
    """Points that this other flow reaches as well are left to it."""


def _insist(rig: Rig, *command: str) -> bool:
    """Type a command, and once more if it was killed; True if it was killed."""
    done = rig.wk(*command, check=False)
    if done.returncode != -9:
        if done.returncode not in {0, 8}:  # 8: the first one, killed after its commit, had already done it
            raise AssertionError(f"wk {command}: {done.returncode} {done.stderr.decode()}")
        return False
    done = rig.wk(*command, check=False)
    assert done.returncode in {0, 8}, done.stderr.decode()
    return True


def _hand_over(rig: Rig, *agent: str) -> str:
    """Add the task; if the command was killed, only add it again if it had not been added."""
    try:
        return rig.run(*agent)
    except AssertionError:
        if not rig.died:
            raise
        added = rig.tasks()
        return added[0].id if added else rig.run(*agent)


def _add(rig: Rig) -> str:
    """The very first task on a machine: the command makes everything and starts the daemon."""
    rig.open_gate()
    return _whole(rig)


def _whole(rig: Rig) -> str:
    task_id = _hand_over(rig, "lines", str(LINES), "exit", "0")
    rig.wait_resting(task_id)
    return task_id


def _launch(rig: Rig) -> str:
    """A daemon runs already."""
    rig.start_daemon()
    rig.open_gate()
    return _whole(rig)


def _observe(rig: Rig) -> str:
    """The agent works until it is let go, so that the end comes while everything watches."""
    rig.start_daemon()
    return _released(rig, _hand_over(rig, "lines", str(LINES), "wait", str(rig.root / "go"), "exit", "7"))


def _check(rig: Rig) -> str:
    """A check runs after the agent: from the agent's end on every process may die."""
    rig.start_daemon()
    agent = ("lines", str(LINES), "wait", str(rig.root / "go"), "exit", "0")
    return _released(rig, rig.run(*agent, options=("--check", f"echo began >> {rig.root / CHECKED}")))


CHECKED = "checked"
"""The file in which each beginning of the check of the flow `check` is a line."""


def _released(rig: Rig, task_id: str) -> str:
    """Let an agent go that waits, and wait for the end of its task."""

    def working_or_resting() -> bool:
        rig.keep_daemon()
        working = any(run.state is RunState.RUNNING and b"waiting" in rig.log(run) for run in rig.runs(task_id))
        return working or rig.task(task_id).state in RESTING_TASK_STATES

    wait_until(working_or_resting, within_s=20, what="the agent works")
    rig.open_gate()
    (rig.root / "go").touch()
    rig.wait_resting(task_id)
    return task_id


def _worktree(rig: Rig) -> str:
    """A task in a worktree of its own, which is made for it, and removed when it is done."""
    rig.start_daemon()
    rig.open_gate()
    try:
        task_id = rig.run("lines", str(LINES), "exit", "0", options=("--worktree",))
    except AssertionError:
        if not rig.died:
            raise
        added = rig.tasks()
        task_id = added[0].id if added else rig.run("lines", str(LINES), "exit", "0", options=("--worktree",))
    if rig.wait_resting(task_id).state is TaskState.DONE:
        _insist(rig, "worktree", "clean", task_id)
    return task_id


def _stop(rig: Rig) -> str:
    """A stubborn agent with stubborn grandchildren is stopped while it works."""
    rig.start_daemon()
    task_id = _hand_over(rig, "stubborn", "wait", str(rig.root / "never"))

    def working() -> bool:
        rig.keep_daemon()
        return (bool(rig.started_runs()) and len(rig.survivors()) >= 3) or rig.task(task_id).state is TaskState.HELD

    wait_until(working, within_s=20, what="the agent and its grandchildren work")
    rig.open_gate()
    _insist(rig, "stop", task_id, "--grace", "0.2", "--no-wait")
    rig.wait_resting(task_id)
    return task_id


def _held(rig: Rig) -> str:
    """The directory of a stubborn agent's run is away, so the run is held; a person kills it all the same, and everything of it is ended."""
    rig.start_daemon()
    task_id = _hand_over(rig, "stubborn", "wait", str(rig.root / "never"))
    wait_until(lambda: len(rig.survivors()) >= 3, within_s=20, what="the agent and its grandchildren work")
    (run,) = rig.runs(task_id)
    away, path = rig.root / "away", rig.state / "executions" / run.execution_id
    path.rename(away)
    wait_until(lambda: rig.task(task_id).state is TaskState.HELD, within_s=20, what="it is held")
    rig.open_gate()
    _insist(rig, "kill", task_id, "--no-wait")

    def ended() -> bool:
        rig.keep_daemon()
        return not rig.carrying(run.execution_id) and not rig.pending()

    wait_until(ended, within_s=40, what="nothing of it is alive, and nothing more is tried")
    away.rename(path)
    return task_id


def _retry(rig: Rig) -> str:
    """The first run fails; a person has it tried again."""
    rig.start_daemon()
    task_id = _hand_over(rig, "lines", str(LINES), "fail-first", "5", "exit", "0")
    rig.wait_resting(task_id)
    if rig.task(task_id).state is TaskState.FAILED:
        rig.open_gate()
        # Killed after its commit it has done its work: the task is queued, or further. Typed again it would be another wish.
        if rig.wk("retry", task_id, check=False).returncode != 0 and rig.task(task_id).state is TaskState.FAILED:
            rig.wk("retry", task_id)
        rig.wait_resting(task_id)
    return task_id


def play_late(rig: Rig, point: str) -> str:
    """A shim is stopped at a point before its agent begins, the daemon dies and comes back, and only then does the shim continue.

    Whatever the new daemon makes of the run in between, the agent of no run may begin twice, and none of a run that was declared never launched.
    """
    rig.settings = {"WATCHKEEPER_DAEMON_START_GRACE": "0.05"}
    rig.arm(point, how="STOP")
    rig.open_gate()
    rig.start_daemon()
    task_id = rig.run("lines", str(LINES), "exit", "0")
    shim = wait_until(rig.stopped_shim, within_s=20, what=f"a shim stopped at {point}")

    def recorded() -> bool:
        return any(run.state not in {RunState.RESERVED, RunState.PREPARED} for run in rig.runs(task_id))

    wait_until(recorded, within_s=20, what="the start of the shim is on record")
    rig.kill_daemon()
    rig.start_daemon()  # ready means that it has looked at every run
    proc.signal_checked(*shim, boot_id(), signal.SIGCONT)
    rig.wait_resting(task_id)
    wait_until(lambda: proc.identity(shim[0]) != shim, within_s=20, what="the late shim ended")
    return task_id


FLOWS = (
    Flow(name="add", play=_add, ends=TaskState.DONE, code=0, least=90, without="launch"),
    Flow(name="launch", play=_launch, ends=TaskState.DONE, code=0, least=70),
    Flow(name="worktree", play=_worktree, ends=TaskState.DONE, code=0, least=80, without="launch"),
    Flow(name="observe", play=_observe, ends=TaskState.FAILED, code=7, least=12),
    Flow(name="check", play=_check, ends=TaskState.DONE, code=0, least=60, without="observe"),
    Flow(name="stop", play=_stop, ends=TaskState.STOPPED, code=None, least=30),
    Flow(name="held", play=_held, ends=TaskState.STOPPED, code=None, least=12),
    Flow(name="retry", play=_retry, ends=TaskState.DONE, code=0, least=60),
)


def violations(rig: Rig, flow: Flow, task_id: str, *, point: str = "") -> list[str]:
    """Everything that does not hold, one sentence each; the task rests."""
    task = rig.task(task_id)
    runs = rig.runs(task_id)
    started = Counter(rig.started_runs())
    found = _of_task(rig, flow, task, runs, point)
    for run in runs:
        found += _of_run(rig, flow, run, started[run.id])
    found += [
        f"a run that nobody knows began: {run_id}" for run_id in started if run_id not in {run.id for run in runs}
    ]
    if alive := rig.survivors():
        found.append(f"alive after the end: {alive}")
    return found + _of_worktree(rig, task) + _of_check(rig, flow, task) + _of_database(rig, task)


def _of_check(rig: Rig, flow: Flow, task: Task) -> list[str]:
    """The check of the flow `check` begins once, or never where that is said."""
    if flow.name != "check":
        return []
    path = rig.root / CHECKED
    began = len(path.read_text().splitlines()) if path.exists() else 0
    wanted = {1} if task.state is TaskState.DONE else {0, 1}
    found = [] if began in wanted else [f"the check began {began} times, and the task is {task.state.value}"]
    left = [one.execution_id for one in rig.commands(task.id) if not one.is_over]
    return found + [f"a check has no end on record: {each}" for each in left]


def _of_task(rig: Rig, flow: Flow, task: Task, runs: list[Run], point: str) -> list[str]:
    found: list[str] = []
    if len(rig.tasks()) != 1:
        found.append(f"{len(rig.tasks())} tasks instead of one")
    lost = any(run.kind is FailureKind.LOST for run in runs)
    if lost and not point.startswith("shim."):
        found.append("a run was lost although its shim was not killed")
    cut = task.kind is FailureKind.CHECK_NOT_RUN and point.startswith("shim.")
    if task.state is not flow.ends and not (task.state is TaskState.HELD and lost) and not cut:
        found.append(f"the task is {task.state.value} ({task.reason}) instead of {flow.ends.value}")
    outcomes = [outcome for run in runs if (outcome := rig.outcome(run.id))]
    if sum(outcome.status is OutcomeStatus.SUCCEEDED for outcome in outcomes) > 1:
        found.append("it succeeded more than once")
    if task.state is TaskState.DONE and task.attempts > task.spec.max_attempts:
        found.append(f"{task.attempts} attempts")
    return found


def _of_worktree(rig: Rig, task: Task) -> list[str]:
    """Of a worktree that was removed nothing is left; of any other one git knows one directory and one branch."""
    tree = task.spec.worktree
    if tree is None:
        return []
    listed = rig.git("worktree", "list", "--porcelain").count("worktree ")
    branches = len(rig.git("branch", "--list", "wk/*").split())
    there = [path.name for path in (rig.state / "worktrees").iterdir()]
    if tree.state is WorktreeState.REMOVED and (listed, branches, there) != (1, 0, []):
        return [f"left of the worktree: {listed - 1} listed, {branches} branches, {there}"]
    if tree.state is not WorktreeState.REMOVED and task.state is TaskState.DONE:
        return [f"the worktree is {tree.state.value}"]
    return [] if listed <= 2 else [f"git lists {listed - 1} worktrees"]


def _of_run(rig: Rig, flow: Flow, run: Run, starts: int) -> list[str]:
    found: list[str] = []
    if starts > 1:
        found.append(f"run {run.id} began {starts} times")
    if run.kind is FailureKind.NEVER_LAUNCHED and starts:
        found.append(f"run {run.id} is said never to have been launched, and began")
    outcome = rig.outcome(run.id)
    if (run.state is RunState.SETTLED) != (outcome is not None):
        found.append(f"run {run.id} is {run.state.value} and its outcome is {outcome}")
    if run.exit is not None and run.exit.reason is EndReason.EXITED:
        found += _of_exit(rig, flow, run, run.exit.exit_code)
    return found


def _of_exit(rig: Rig, flow: Flow, run: Run, code: int | None) -> list[str]:
    """The true exit status, and every byte of the log."""
    wanted = 5 if flow.name == "retry" and run.number == 1 else flow.code
    found = [] if code == wanted else [f"run {run.id} ended with {code} instead of {wanted}"]
    whole = RELEASED_LOG if flow.name in {"observe", "check"} else WHOLE_LOG
    if flow.name not in {"stop", "held"} and rig.log_hash(run) != whole:
        found.append(f"the log of run {run.id} is not whole: {len(rig.log(run))} bytes")
    return found


def _of_database(rig: Rig, task: Task) -> list[str]:
    found = rig.faults()
    last = [entry.data["state"] for entry in rig.journal() if entry.kind.startswith("task.") and "state" in entry.data]
    if last and last[-1] != task.state.value:
        found.append(f"the journal ends with {last[-1]}, the row says {task.state.value}")
    return found
