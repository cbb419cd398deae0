"""The rules as Markdown tables, each cell computed by asking the rules themselves. `docs/rules.md` holds them, and a test compares."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from watchkeeper.domain.effects import Effect
from watchkeeper.domain.evidence import DecidedBy, DirectoryState, Evidence, LockState, VerdictKind, judge
from watchkeeper.domain.failure import ROWS, FailureKind
from watchkeeper.domain.model import Disposition, Run, RunState, Task, TaskState
from watchkeeper.domain.run import decide_run
from watchkeeper.domain.run_events import (
    RunEvent,
)
from watchkeeper.domain.samples import (
    AGENT,
    BOOT,
    DECISIONS,
    EXIT,
    GONE,
    NAMESPACE,
    a_run,
    a_spec,
    a_task,
    a_worktree,
    an_outcome,
    run_events,
    task_events,
)
from watchkeeper.domain.service import SERVICE_KINDS
from watchkeeper.domain.task import (
    MergeStep,
    RunSettled,
    TaskEvent,
    WorktreeMade,
    WorktreeRemoval,
    WorktreeRestored,
    decide_task,
)
from watchkeeper.domain.worktree import WorktreeState
from watchkeeper.errors import Refused

REFUSED = "·"
"""What a cell shows where the pair of state and event is not listed."""

UNCHANGED = "="
"""What a cell shows where the event is taken and changes nothing."""

_WHAT_FOLLOWS: Mapping[VerdictKind, str] = {
    VerdictKind.WAITING: "look again",
    VerdictKind.ALIVE: "it is running",
    VerdictKind.ENDED: "record how it ended",
    VerdictKind.TAKE_DECISION: "publish the decision, look again",
    VerdictKind.NEVER_LAUNCHED: "ended, proven; another launch costs no attempt",
    VerdictKind.LOST_TO_REBOOT: "lost, proven",
    VerdictKind.SHIM_DIED: "sweep, then lost",
    VerdictKind.UNKNOWN: "held: nothing is done, a person looks",
}


def run_table() -> str:
    """What each event makes of a run in each state."""

    def row(event: RunEvent) -> list[str]:
        return [_code(type(event).__name__), *(_run_cell(a_run(state), event) for state in RunState)]

    return _table(["event", *RunState], map(row, run_events()))


def task_table() -> str:
    """What each event makes of a task in each state."""

    def row(event: TaskEvent) -> list[str]:
        return [_task_event(event), *(_task_cell(_sample(state, event), event) for state in TaskState)]

    return _table(["event", *TaskState], map(row, task_events()))


def _sample(state: TaskState, event: TaskEvent) -> Task:
    """A task in a state, with a worktree if the event is about one."""
    about_one = isinstance(event, WorktreeMade | WorktreeRemoval | WorktreeRestored | MergeStep)
    tree = replace(a_worktree(), state=WorktreeState.REMOVED) if isinstance(event, WorktreeRestored) else a_worktree()
    return a_task(state, spec=replace(a_spec(), worktree=tree)) if about_one else a_task(state)


def failure_table() -> str:
    """What follows from each failure kind."""
    rows = (
        [
            _code(kind),
            row.detail,
            _again(kind),
            _yes(told=row.counts),
            row.then,
        ]
        for kind, row in ROWS.items()
    )
    return _table(["kind", "it says", "tried again", "counts an attempt", "otherwise"], rows)


def _again(kind: FailureKind) -> str:
    if kind in SERVICE_KINDS:
        return "when the service answers"
    return "when the program says" if ROWS[kind].defers else _yes(told=ROWS[kind].retried)


def evidence_table() -> str:
    """What representative evidence says, in the order in which it is judged."""

    def row(named: tuple[str, Evidence]) -> list[str]:
        detail, evidence = named
        verdict = judge(evidence)
        word = f"{_code(verdict.kind)}, final" if verdict.final else _code(verdict.kind)
        if verdict.empty:
            word = f"{word}, proven"
        if verdict.decide_by is not None:
            word = f"{word} by {_code(verdict.decide_by)}"
        return [detail, word, _WHAT_FOLLOWS[verdict.kind]]

    return _table(["evidence", "verdict", "what follows"], map(row, _evidence_rows()))


def disposition_table() -> str:
    """What each disposition makes of the task that was running."""

    def row(disposition: Disposition) -> list[str]:
        settled = RunSettled(outcome=an_outcome(disposition))
        return [_code(disposition), _task_cell(a_task(TaskState.RUNNING), settled)]

    return _table(["disposition", "the task becomes"], map(row, Disposition))


TABLES: Mapping[str, Callable[[], str]] = {
    "runs": run_table,
    "tasks": task_table,
    "failures": failure_table,
    "evidence": evidence_table,
    "dispositions": disposition_table,
}
"""Every table, by the name that its markers in `docs/rules.md` carry."""


def with_tables(text: str) -> str:
    """The text with the newest table between each pair of markers, `<!-- table: NAME -->` and `<!-- end of table: NAME -->`.

    Raises:
        ValueError: a marker is missing.
    """
    for name, table in TABLES.items():
        start, end = f"<!-- table: {name} -->\n", f"<!-- end of table: {name} -->"
        before, found_start, rest = text.partition(start)
        _, found_end, after = rest.partition(end)
        if not found_start or not found_end:
            raise ValueError(f"The markers of the table '{name}' are missing.")
        text = f"{before}{start}\n{table()}\n{end}{after}"
    return text


def _evidence_rows() -> tuple[tuple[str, Evidence], ...]:
    """Representative evidence; each row stands for all that the rows above it leave over."""
    shim = Evidence(
        directory=DirectoryState.INTACT,
        lock=LockState.FREE,
        decision=DECISIONS[DecidedBy.SHIM],
        boot_id=BOOT,
        pid_namespace=NAMESPACE,
        since_spawn_s=60.0,
        start_grace_s=10.0,
    )
    open_ = replace(shim, decision=None)
    worked = replace(shim, agent=AGENT)
    by_recovery = replace(shim, decision=DECISIONS[DecidedBy.RECOVERY])
    return (
        ("the directory is missing", replace(shim, directory=DirectoryState.ABSENT)),
        ("another directory has its name", replace(shim, directory=DirectoryState.FOREIGN)),
        ("the directory cannot be read", replace(shim, directory=DirectoryState.UNREADABLE)),
        ("a record cannot be read, or is not ours", replace(shim, unreadable=("exit.json",))),
        ("decided by `recovery` or `stop`, yet an agent left a record", replace(by_recovery, agent=AGENT)),
        ("decided by `recovery` or `stop`, with the lock held or free", replace(by_recovery, lock=LockState.HELD)),
        ("its end is recorded, the shim lives on", replace(worked, exit=EXIT, lock=LockState.HELD)),
        ("its end is recorded, and that nothing is left", replace(worked, exit=EXIT, gone=GONE, lock=LockState.HELD)),
        ("its end is recorded, and the lock was free after the decision", replace(worked, exit=EXIT)),
        ("its end is recorded, and the machine was restarted since", replace(worked, exit=EXIT, boot_id="another")),
        ("its end is recorded, the decision was not there yet", replace(open_, agent=AGENT, exit=EXIT)),
        ("the lock cannot be looked at", replace(worked, lock=LockState.UNKNOWN)),
        ("undecided, and a stop was asked for", replace(open_, stop_asked=True)),
        ("the lock is held, no agent yet", replace(shim, lock=LockState.HELD)),
        ("the lock is held, and an agent was released", replace(worked, lock=LockState.HELD)),
        ("undecided, the lock free, no shim was started yet", replace(open_, since_spawn_s=None)),
        ("undecided, the lock free, a shim was started just now", replace(open_, since_spawn_s=1.0)),
        ("undecided, the lock free, and time enough has passed", open_),
        ("the shim is dead; nothing is left, but no end recorded", replace(worked, gone=GONE)),
        ("the shim is dead; no agent was released", shim),
        ("the shim is dead; which boot this is, is not known", replace(worked, boot_id="")),
        ("the shim is dead; the machine was restarted since", replace(worked, boot_id="another")),
        ("the shim is dead; it lived in another pid namespace", replace(worked, pid_namespace="another")),
        ("the shim is dead; an agent was released", worked),
    )


def _run_cell(run: Run, event: RunEvent) -> str:
    try:
        decision = decide_run(run, event)
    except Refused:
        return REFUSED
    changed = decision.run != run
    return _cell(run.state, decision.run.state, decision.effects, changed=changed)


def _task_cell(task: Task, event: TaskEvent) -> str:
    try:
        decision = decide_task(task, event)
    except Refused:
        return REFUSED
    changed = decision.task != task
    return _cell(task.state, decision.task.state, decision.effects, changed=changed)


def _cell(was: str, state: str, effects: Sequence[Effect], *, changed: bool) -> str:
    wanted = "".join(f" + {_code(effect.kind)}" for effect in effects)
    if state != was:
        return f"{state}{wanted}"
    return f"{'noted' if changed else UNCHANGED}{wanted}"


def _task_event(event: TaskEvent) -> str:
    name = _code(type(event).__name__)
    return f"{name} {event.outcome.disposition}" if isinstance(event, RunSettled) else name


def _yes(*, told: bool) -> str:
    return "yes" if told else "no"


def _code(word: str) -> str:
    return f"`{word}`"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
