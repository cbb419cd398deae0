"""One run explained: who authorised it, with what rights, in what environment, what it did, and the evidence for its end."""

from collections.abc import Callable
from dataclasses import dataclass

from watchkeeper.app.read_steps import Steps, read_steps
from watchkeeper.app.secrets import redactor_of
from watchkeeper.app.views.detail import RunDetail, detail
from watchkeeper.app.views.standing import Standing
from watchkeeper.domain.cost import Cost, cost_of
from watchkeeper.domain.evidence import judge
from watchkeeper.domain.model import Run, Task
from watchkeeper.errors import HarnessError, NotFound
from watchkeeper.ports.harness import Harness
from watchkeeper.ports.runtime import Runtime
from watchkeeper.ports.store import Authorisation, JournalEntry, Store, Tx
from watchkeeper.redaction.engine import Redactor

_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All that is known of one run."""

    task: Task
    found: RunDetail
    authorisation: Authorisation | None
    """By what it was allowed: for a run that was reserved its own, else the task's newest."""
    variables: tuple[str, ...] | None
    """The names of the agent's environment variables; None: its execution directory is gone, or on another machine."""
    asked: tuple[str, ...]
    """Those of them that were asked for by name."""
    steps: Steps
    history: tuple[JournalEntry, ...]
    """The journal's entries about it, and those about its task from its claim to its end."""
    evidence: Standing | None
    """What its execution directory tells now; None: it is on another machine."""
    cost: Cost

    @property
    def run(self) -> Run:
        """The run itself."""
        return self.found.run


def explain(
    store: Store,
    runtime: Callable[[], Runtime],
    harness: Callable[[str], Harness],
    task_id: str,
    number: int | None = None,
    *,
    steps: int,
) -> Explanation:
    """Explain a run of a task, the newest by default, with at most `steps` first and last steps.

    Raises:
        NotFound: the task has no such run.
    """
    found = detail(store, runtime, harness, task_id)
    task = found.task
    run = next((each for each in reversed(found.runs) if number in {None, each.run.number}), None)
    if run is None:
        had = f"it has had {len(found.runs)}" if found.runs else "it has had none yet"
        what = "run" if number is None else f"run {number}"
        msg = f"There is no {what} of task {task_id}: {had}."
        raise NotFound(msg, hint=f"`wk show {task_id}` lists its runs.")
    variables, asked, done, evidence = None, (), Steps(unreadable=f"the log is on {run.on}"), None
    if run.on is None:
        executions = runtime().executions()
        environment = executions.environment(run.run)
        variables = None if environment is None else tuple(sorted(environment))
        asked = executions.asked(run.run)
        done = _steps(runtime(), harness, task, run.run, redactor_of(executions, run.run, task.spec), steps)
        seen = runtime().observe(run.run, stop_asked=False)
        evidence = Standing(word=run.run.state.value, why="", evidence=seen, verdict=judge(seen))
    return Explanation(
        task=task,
        found=run,
        authorisation=found.authorisation if run.launch is None else run.launch.authorisation,
        variables=variables,
        asked=asked,
        steps=done,
        history=store.read(lambda tx: _history(tx, run.run)),
        evidence=evidence,
        cost=cost_of(run.run, run.outcome),
    )


def _steps(
    runtime: Runtime, harness: Callable[[str], Harness], task: Task, run: Run, redactor: Redactor, most: int
) -> Steps:
    try:
        reads = harness(task.spec.harness)
    except HarnessError:
        return Steps(unreadable=f"the harness {task.spec.harness} is not installed any more")
    return read_steps(reads, task.spec, runtime.executions(), run, redactor, most=most)


def _history(tx: Tx, run: Run) -> tuple[JournalEntry, ...]:
    """In the order of commits: the entries of the run, and those of its task between the first and the last of them."""
    entries: list[JournalEntry] = []
    after = 0
    while page := tx.journal.after(after, _PAGE, run.task_id):
        entries += page
        after = page[-1].seq
    own = [index for index, entry in enumerate(entries) if entry.run_id == run.id]
    if not own:
        return ()
    window = entries[max(0, own[0] - 1) : own[-1] + 2]
    return tuple(entry for entry in window if entry.run_id in {None, run.id})
