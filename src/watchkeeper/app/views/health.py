"""Everything at once: how many tasks there are in each state, what waits to be done, what needs a person."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from watchkeeper.app.views.brief import brief
from watchkeeper.app.views.live import STOP_FAILED
from watchkeeper.app.views.rows import TaskRow, came_to, row
from watchkeeper.app.views.standing import Standing
from watchkeeper.domain.lanes import describe_scope
from watchkeeper.domain.model import Run, RunState, Task, TaskState
from watchkeeper.ports.runtime import Runtime
from watchkeeper.ports.store import Store, Tx

LOOKED_AT = 200
"""How many queued tasks are asked why they wait."""

NAMED = 20
"""How many tasks that need a person are named."""

_ANY_NUMBER = 1 << 31
_NEED_A_PERSON = (TaskState.NEEDS_INPUT, TaskState.HELD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Where everything stands."""

    counts: dict[TaskState, int]
    outbox_pending: int
    journal_last: int
    needs_you: tuple[TaskRow, ...]
    """What could not be stopped, what needs a person, failures that no person has looked at, and queued tasks that can never start.

    A queued task can never start if one that it waits for failed.
    """
    live_runs: int
    answered: tuple[Run, ...] = ()
    """Runs whose programs have given their final answers and continue."""
    stalled: tuple[Run, ...] = ()
    """Runs that make no progress."""
    paused: tuple[str, ...] = ()
    """Which parts of the queue a person paused: `the queue`, `harness claude`."""
    waits: dict[str, int] = field(default_factory=dict[str, int])
    """How many queued tasks wait for what, by the words of the list; empty if there are more than are looked at."""
    more: bool = False
    """Whether more tasks need a person than are named."""

    def waiting_for_a_daemon(self) -> int:
        """How many tasks nothing will happen to unless a daemon runs."""
        return self.counts.get(TaskState.QUEUED, 0) + self.counts.get(TaskState.RUNNING, 0)


NOTHING = Health(counts={}, outbox_pending=0, journal_last=0, needs_you=(), live_runs=0)
"""Where everything stands before there is anything."""


def health(store: Store, runtime: Callable[[], Runtime], *, everything: bool = False) -> Health:
    """Where everything stands. `everything`: name all that needs a person, and ask all that waits."""
    named, looked_at = (_ANY_NUMBER, _ANY_NUMBER) if everything else (NAMED, LOOKED_AT)

    def read(tx: Tx) -> Health:
        # What needs a person is at rest, so no evidence is looked at and the runtime is not made here.
        needing = _needing(tx, named + 1)
        live = tx.runs.live()
        failed = [run for run in live if run.stop_failed is not None]
        stops = tuple(_stop_failed(tx, run) for run in failed[:named])
        stopped = {run.task_id for run in failed}
        needing = [task for task in needing if task.id not in stopped]
        return Health(
            counts={state: count for state, count in tx.tasks.counts().items() if count},
            outbox_pending=tx.outbox.pending(),
            journal_last=tx.journal.last(),
            needs_you=(
                *stops,
                *(_at_rest(tx, task, runtime) for task in needing[:named]),
            ),
            live_runs=len(live),
            answered=tuple(run for run in live if run.answered_at is not None and run.state is RunState.RUNNING),
            stalled=tuple(run for run in live if run.stalled_since is not None and run.state is RunState.RUNNING),
            waits=_waits(tx, looked_at),
            paused=_paused(tx),
            more=len(needing) > named,
        )

    return store.read(read)


def _at_rest(tx: Tx, task: Task, runtime: Callable[[], Runtime]) -> TaskRow:
    result, verdict = came_to(tx, task)
    return row(task, None, runtime)._replace(brief=brief(tx, task), result=result, verdict=verdict)


def _stop_failed(tx: Tx, run: Run) -> TaskRow:
    """A run that a person wants ended and that has not ended yet."""
    return TaskRow(task=tx.tasks.get(run.task_id), run=run, standing=Standing(STOP_FAILED, run.stop_failed or ""))


def _needing(tx: Tx, most: int) -> list[Task]:
    """What needs a person, at most so many of each kind, in the order of handing over."""
    found = [*tx.tasks.in_states(_NEED_A_PERSON, most), *tx.tasks.unseen(most), *tx.tasks.waiting_for_failed(most)]
    return sorted(found, key=lambda task: tx.tasks.number(task.id))


def _paused(tx: Tx) -> tuple[str, ...]:
    names = {each.id: each.name or each.id for each in tx.machines.all()}
    return tuple(describe_scope(rule.scope, rule.name, names) for rule in tx.rules.all() if rule.paused)


def _waits(tx: Tx, looked_at: int) -> dict[str, int]:
    """By word, how many queued tasks wait for that first."""
    if tx.tasks.counts().get(TaskState.QUEUED, 0) > looked_at:
        return {}
    found = (brief(tx, task) for task in tx.tasks.in_states([TaskState.QUEUED], looked_at))
    return dict(Counter(each.wait for each in found if each is not None).most_common())
