"""The parts of one transaction: what may be asked of, and done to, each kind of row.

Writes are guarded: a row that has moved on raises `Stale`, and the transaction is undone.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from watchkeeper.domain.account import Account, AccountState
from watchkeeper.domain.effects import Effect
from watchkeeper.domain.lanes import HarnessState, Lane, Occupied, QueueRule
from watchkeeper.domain.model import LIVE_RUN_STATES, Outcome, Run, RunState, Task, TaskState
from watchkeeper.domain.service import Seen
from watchkeeper.domain.wait import BriefWait
from watchkeeper.domain.waiting import Dependency, WaitFacts
from watchkeeper.ports.keys import Keys
from watchkeeper.ports.stored import (
    Authorisation,
    BatchLimitReached,
    Claim,
    JournalEntry,
    Launch,
    OperationRecord,
    OutboxRow,
)


class Tasks(Keys, Protocol):
    """Rows of tasks."""

    def add(self, task: Task) -> None:
        """Insert a new task at the end of the queue. Raises Stale if the id is taken."""
        ...

    def get(self, task_id: str) -> Task:
        """One task by its whole id. Raises NoSuchTask."""
        ...

    def some(self, task_ids: Iterable[str]) -> list[Task]:
        """Those of these tasks that are there and can be read, in that order; the others are noted as met."""
        ...

    def save(self, task: Task, was: Task) -> None:
        """Write `task` over `was`, its spec included where that changed, and raise its version. What is kept about its wait and that of others follows.

        Raises Stale unless exactly the row that was read is still there.
        """
        ...

    def in_states(self, states: Sequence[TaskState], limit: int, before: str | None = None) -> list[Task]:
        """Newest first; `before` is the id of the last task of the page before."""
        ...

    def in_order(self, states: Sequence[TaskState], limit: int, after: int = 0) -> tuple[list[Task], int]:
        """As they were handed over, first the oldest; `after` is the number that came with the page before, and the number for the next comes with these."""
        ...

    def number(self, task_id: str) -> int:
        """Where a task stands in the order in which tasks were handed over. Raises NoSuchTask."""
        ...

    def unseen(self, limit: int) -> list[Task]:
        """Failures that no person has looked at, newest first."""
        ...

    def waiting_for_failed(self, limit: int) -> list[Task]:
        """Queued tasks that wait for one that failed or was stopped, newest first."""
        ...

    def see(self, task: Task, at: datetime) -> bool:
        """Record that a person has looked at a task that has ended, unless it has moved on since it was read; True if that is new."""
        ...

    def see_all(self, at: datetime) -> int:
        """Record the same of every failure; returns how many that is new of."""
        ...

    def environment_in_use(self, environment_id: str) -> bool:
        """Whether a task that has not ended names this environment."""
        ...

    def counts(self) -> dict[TaskState, int]:
        """How many tasks there are in each state."""
        ...

    def brief(self, task_id: str) -> BriefWait:
        """What lists tell of a task's wait. Raises NoSuchTask."""
        ...

    def came_to(self, task_id: str, number: int) -> tuple[str | None, str | None]:
        """The class and the verdict of the outcome of a task's run of that number; None where it has none. Raises RecordTorn."""
        ...

    def labels(self, prefix: str, limit: int) -> list[str]:
        """The labels that start with `prefix`, in order."""
        ...

    def labelled(self, name: str) -> list[str]:
        """The ids of the tasks with that label."""
        ...

    def with_worktrees(self) -> list[str]:
        """The ids of the tasks that have a worktree of their own, in the order of handing over. Reads what was asked for of every task."""
        ...

    def pinned(self) -> list[str]:
        """The ids of the pinned tasks, the one that was pinned last first."""
        ...


class Runs(Protocol):
    """Rows of runs, with their executions."""

    def add(self, run: Run) -> None:
        """Insert a new run and the claim that makes its task its own. Raises Stale if the task has a live run already (R8)."""
        ...

    def get(self, run_id: str) -> Run:
        """One run. Raises NotFound."""
        ...

    def save(self, run: Run, was: Run) -> None:
        """Write `run` over `was`; releases the claim when it is settled.

        Raises Stale unless exactly one row matches id, fence and the state of `was` (R4).
        """
        ...

    def live(
        self,
        machine: str | None = None,
        states: Collection[RunState] = LIVE_RUN_STATES,
        named: Collection[str] | None = None,
    ) -> list[Run]:
        """Every run that is not settled, oldest claim first.

        Args:
            machine: only those of this machine.
            states: only those in one of these states.
            named: only those with one of these ids, or whose execution has one of them.
        """
        ...

    def ids(self, machine: str, state: RunState) -> list[str]:
        """The ids of all runs of a machine that are in a state and not settled, oldest claim first."""
        ...

    def of_task(self, task_id: str) -> list[Run]:
        """All runs of a task, oldest first."""
        ...

    def by_execution(self, execution_id: str) -> Run | None:
        """The run that an execution directory belongs to."""
        ...

    def set_place(self, run: Run, place: str) -> None:
        """Record where a run works: the top of its checkout, or a plain directory with a slash at its end. Raises Stale if it is settled, or not this one."""
        ...

    def beside(self, run: Run, limit: int) -> list[str]:
        """The tasks that ran in the same place at any time between this run's claim and now, at most so many.

        The same checkout; or for a plain directory, the same one, one below it, or a plain one above it. On the same machine. A run whose agent was never
        seen counts only as long as it may still start. The cost does not grow with history.
        """
        ...

    def next_fence(self) -> int:
        """A number that was never given before."""
        ...


class Queue(Protocol):
    """What may run next. Cost does not grow with the queue."""

    def wake(self, now: datetime) -> bool:
        """Make tasks ready whose time has come, a bounded number at once; True if there may be more of them."""
        ...

    def next_wake(self) -> datetime | None:
        """When the next waiting task becomes due; a time that has passed if one is due and has not been woken since."""
        ...

    def lanes(self) -> list[Lane]:
        """The lanes that have ready tasks."""
        ...

    def occupied(self) -> list[Occupied]:
        """How many claimed tasks may have a running agent, by lane and machine; a task that is held for a person does not keep others from running."""
        ...

    def waiting(self, limit: int) -> list[str]:
        """The ids of queued tasks by priority, then age, whatever keeps them. Sorts all of them."""
        ...

    def firsts(self, lanes: Sequence[Lane]) -> list[Task]:
        """The first ready task of each of these lanes, by priority, then age, whatever closes its lane. Blocks none."""
        ...

    def first(
        self,
        lanes: Sequence[Lane],
        machine: str,
        on_block: Callable[[str, str], None] | None = None,
        probed: Collection[str] = (),
    ) -> "Task | BatchLimitReached | None":
        """The first ready task of these lanes, by priority, then age, whose checkout is free on that machine.

        Those whose checkout is taken are blocked until it is free, a bounded number at once; `on_block` is called with each, and with the task
        that works there; `BatchLimitReached` if there were more. Of accounts in `probed` one task is wanted: those that the service failed last come last.
        """
        ...

    def blocked_for_others(self, machine: str) -> list[tuple[str, Lane]]:
        """The checkouts and lanes with tasks that this machine may run, and that are blocked only for runs in that checkout on others."""
        ...

    def unblock(self, checkout: str, lane: Lane) -> None:
        """Look at the best blocked task of a checkout and lane again, if there is one."""
        ...

    def operation(self, operation_id: str) -> OperationRecord | None:
        """What this operation id was used for, if it was."""
        ...

    def record_operation(self, operation_id: str, claim: Claim | None, *, at: datetime) -> None:
        """Remember what an operation was used for. It never changes. Raises Stale where the id was used already."""
        ...


class Rules(Protocol):
    """What people have said about parts of the queue, and which lanes were last found closed."""

    def all(self) -> list[QueueRule]:
        """Every rule."""
        ...

    def put(self, rule: QueueRule) -> None:
        """Set a rule, in place of an earlier one about the same; one that says nothing is dropped."""
        ...

    def announced(self, machine: str) -> dict[int, str]:
        """By lane, why it was last told to be closed on that machine."""
        ...

    def announce(self, machine: str, lane: Lane, reason: str | None, at: datetime) -> None:
        """Remember what was announced; None: that it is open."""
        ...

    def forget(self, machine: str, lane_id: int) -> None:
        """No task waits in that lane any more: it is not announced."""
        ...


class Waits(Protocol):
    """The facts behind the wait of a single task."""

    def facts(self, task_id: str) -> WaitFacts:
        """Its lane, and what is kept beside its row. Raises NoSuchTask."""
        ...

    def dependencies(self, task_id: str) -> list[Dependency]:
        """The tasks it waits for or has waited for."""
        ...

    def dependents(self, task_id: str) -> list[str]:
        """The tasks that wait or have waited for it."""
        ...

    def is_wanted(self, checkout: str) -> bool:
        """Whether a task works in that checkout, or is ready to and waits for it."""
        ...

    def audit(self) -> list[str]:
        """Compare every kept fact with what it is derived from, and say what differs, a sentence each. Reads everything."""
        ...


class Accounts(Protocol):
    """Accounts, and what is known of them and of harnesses on each machine."""

    def all(self) -> list[Account]:
        """Every account that a person added."""
        ...

    def add(self, account: Account) -> None:
        """Insert one. Raises Stale if the id is taken."""
        ...

    def remove(self, account: str) -> bool:
        """Remove one, with what is known of it; False if it was not there. Tasks that name it are the caller's care."""
        ...

    def states(self, machine: str) -> dict[str, AccountState]:
        """What is known on that machine, by the account's id."""
        ...

    def open_tasks(self) -> dict[str, int]:
        """By account, how many tasks have not ended."""
        ...

    def observe(self, account: str, machine: str, seen: Seen) -> bool:
        """Record an observation, unless a newer one is known; True if the sign-in, the limit or the service's trouble is another one now."""
        ...

    def harnesses(self, machine: str) -> dict[str, HarnessState]:
        """Which programs that machine has, by harness, as far as was found out."""
        ...

    def record_harness(self, state: HarnessState) -> bool:
        """Record whether a machine has a program, unless something newer is known; True if that is news."""
        ...


class Outcomes(Protocol):
    """Results and who allowed them."""

    def add(self, outcome: Outcome) -> None:
        """Store the outcome of a run. Raises Stale if there is one already (R11)."""
        ...

    def get(self, run_id: str) -> Outcome | None:
        """The outcome of a run, if it is settled."""
        ...

    def authorise(self, authorisation: Authorisation) -> None:
        """Record who allowed a task's launches."""
        ...

    def authorisation(self, task_id: str) -> Authorisation | None:
        """The newest authorisation of a task."""
        ...

    def record_launch(self, run: Run, authorisation_id: str) -> None:
        """Record that a run's launch uses this authorisation, in the transaction that reserves the run."""
        ...

    def launch(self, run_id: str) -> Launch | None:
        """What the launch of a run was allowed by; None for a run that was never reserved."""
        ...

    def record_version(self, run_id: str, version: str | None) -> None:
        """Record the version of the program that is launched for a run."""
        ...

    def allowed_in(self, directory: str) -> Authorisation | None:
        """The newest authorisation for that directory that has a profile."""
        ...


class Journal(Protocol):
    """History: append-only, in commit order."""

    def append(
        self,
        kind: str,
        at: datetime,
        *,
        task_id: str | None = None,
        run: Run | None = None,
        data: Mapping[str, object] | None = None,
    ) -> int:
        """Append an entry and return its number. `data` holds JSON values."""
        ...

    def after(self, seq: int, limit: int, task_id: str | None = None) -> list[JournalEntry]:
        """Entries with a larger number, oldest first."""
        ...

    def last(self) -> int:
        """The largest number, 0 if there is none."""
        ...


class Outbox(Protocol):
    """Effects that wait to be done."""

    def put(self, effects: Sequence[Effect], at: datetime, machine: str = "") -> None:
        """Queue effects. `machine`: the id of the machine that is to do them; without it anyone may."""
        ...

    def due(self, now: datetime, limit: int, machine: str = "") -> list[OutboxRow]:
        """Effects that `machine` may do now, those that anyone may do included, oldest first."""
        ...

    def done(self, row_id: int) -> None:
        """The effect is known to be done, or moot."""
        ...

    def again(self, row_id: int, not_before: datetime) -> None:
        """It did not work: try again then."""
        ...

    def bind(self, machine: str) -> None:
        """What any machine may do is from now on done by this one."""
        ...

    def next_due(self, machine: str = "") -> datetime | None:
        """When the next effect that `machine` may do is due."""
        ...

    def pending(self) -> int:
        """How many wait."""
        ...
