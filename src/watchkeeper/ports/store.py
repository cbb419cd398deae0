"""The database, as the verbs see it.

`transact` runs a plain function in one write transaction; the function may be run twice, so it does nothing but read and write rows. Everything in it
happens or nothing does. Writes are guarded: a row that has moved on raises `Stale` and the transaction is undone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeVar

from watchkeeper.domain.account import Account, AccountState, QuotaSeen, SignInSeen
from watchkeeper.domain.effects import Effect
from watchkeeper.domain.lanes import HarnessState, Lane, Occupied, QueueRule
from watchkeeper.domain.model import Outcome, Run, Task, TaskState
from watchkeeper.domain.wait import BriefWait
from watchkeeper.domain.waiting import Dependency, WaitFacts
from watchkeeper.ports.keeping import Keeping

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorisation:
    """Who allowed the launches of a task, and what (R1, R9)."""

    id: str
    task_id: str
    kind: str
    """`person`, `grant` or `inherited`."""
    by: str
    says: str
    """The line that was shown before it started: where, which rights, network, sandbox."""
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One line of history."""

    seq: int
    at: datetime
    kind: str
    task_id: str | None
    run_id: str | None
    fence: int | None
    data: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """An effect that waits to be done."""

    id: int
    effect: Effect
    attempts: int
    not_before: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The answer to a claim: which task, which run, under which fence."""

    task_id: str
    run_id: str
    fence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRecord:
    """What an operation id has already been used for."""

    cancelled: bool
    claim: Claim | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """So many ready tasks stood before a busy checkout that one transaction did not get past them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRecord:
    """A state directory's machine, and the incarnation of its newest daemon."""

    id: str
    incarnation: int
    boot_id: str
    started_at: datetime
    name: str = ""
    """What people call it: its host name."""
    holder: str = ""
    """A random word of the daemon that began this incarnation."""
    version: str = ""
    lease_until: datetime | None = None
    """Until when other machines take it to be alive; None where machines do not share a database."""


class Tasks(Protocol):
    """Rows of tasks."""

    def add(self, task: Task) -> None:
        """Insert a new task at the end of the queue. Raises Stale if the id is taken."""
        ...

    def get(self, task_id: str) -> Task:
        """One task by its whole id. Raises NoSuchTask."""
        ...

    def save(self, task: Task, was: Task) -> None:
        """Write `task` over `was`, its spec included where that changed, and raise its version. What is kept about its wait and that of others follows.

        Raises Stale unless exactly the row that was read is still there.
        """
        ...

    def ids_like(self, prefix: str, limit: int) -> list[str]:
        """Ids that start with `prefix`, newest first."""
        ...

    def in_states(self, states: Sequence[TaskState], limit: int, before: str | None = None) -> list[Task]:
        """Newest first; `before` is the id of the last task of the page before."""
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

    def labels(self, prefix: str, limit: int) -> list[str]:
        """The labels that start with `prefix`, in order."""
        ...

    def labelled(self, name: str) -> list[str]:
        """The ids of the tasks with that label."""
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

    def live(self, machine: str | None = None) -> list[Run]:
        """Every run that is not settled, oldest claim first; with `machine` only those of that machine."""
        ...

    def of_task(self, task_id: str) -> list[Run]:
        """All runs of a task, oldest first."""
        ...

    def by_execution(self, execution_id: str) -> Run | None:
        """The run that an execution directory belongs to."""
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
        """When the next waiting task becomes due; a time that has passed if one is due and nobody has woken it since."""
        ...

    def lanes(self) -> list[Lane]:
        """The lanes that have ready tasks."""
        ...

    def occupied(self) -> list[Occupied]:
        """How many claimed tasks may have an agent at work, by lane and machine; one that is held for a person keeps nobody else from running."""
        ...

    def waiting(self, limit: int) -> list[str]:
        """The ids of queued tasks by priority, then age, whatever keeps them. Sorts all of them."""
        ...

    def first(
        self, lanes: Sequence[Lane], machine: str, on_park: Callable[[str, str], None] | None = None
    ) -> "Task | Crowd | None":
        """The first ready task of these lanes, by priority, then age, whose checkout nobody works in on that machine.

        Those that are passed over for their checkout are parked until it is free, a bounded number at once; `Crowd` if there were more: ask again, in
        another transaction. `on_park` is told of each of them, and of the task that works there.
        """
        ...

    def operation(self, operation_id: str) -> OperationRecord | None:
        """What this operation id was used for, if it was."""
        ...

    def record_operation(self, operation_id: str, claim: Claim | None, *, cancelled: bool, at: datetime) -> None:
        """Remember it. An id is used once for a claim; `cancelled` may be set once afterwards."""
        ...


class Rules(Protocol):
    """What people have said about parts of the queue, and which lanes were last found closed."""

    def all(self) -> list[QueueRule]:
        """Every rule."""
        ...

    def put(self, rule: QueueRule) -> None:
        """Set a rule, in place of an earlier one about the same; one that says nothing is dropped."""
        ...

    def told(self, machine: str) -> dict[int, str]:
        """By lane, why it was last told to be closed on that machine."""
        ...

    def tell(self, machine: str, lane: Lane, reason: str | None, at: datetime) -> None:
        """Remember what was told; None: that it is open."""
        ...

    def forget(self, machine: str, lane_id: int) -> None:
        """Nobody waits in that lane any more: nothing is told of it."""
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

    def audit(self) -> list[str]:
        """Compare every kept fact with what it is derived from, and say what differs, a sentence each. Reads everything."""
        ...


class Accounts(Protocol):
    """Accounts, and what is known of them and of harnesses on each machine."""

    def all(self) -> list[Account]:
        """Every account that somebody added."""
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

    def observe(self, account: str, machine: str, seen: SignInSeen | QuotaSeen) -> bool:
        """Record an observation, unless a newer one is known; True if the state is another one now."""
        ...

    def harnesses(self, machine: str) -> dict[str, HarnessState]:
        """Which programs that machine has, by harness, as far as was found out."""
        ...

    def found(self, state: HarnessState) -> bool:
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

    def next_due(self, machine: str = "") -> datetime | None:
        """When the next effect that `machine` may do is due."""
        ...

    def pending(self) -> int:
        """How many wait."""
        ...


class Machines(Protocol):
    """The machine that this state directory is."""

    def database_id(self) -> str:
        """A random id of this database, made with it."""
        ...

    def begin_incarnation(
        self, machine_id: str, boot_id: str, at: datetime, *, name: str = "", holder: str = "", version: str = ""
    ) -> MachineRecord:
        """A new daemon took over: the next incarnation."""
        ...

    def get(self, machine_id: str) -> MachineRecord | None:
        """The machine's record, if a daemon ever ran."""
        ...

    def all(self) -> list[MachineRecord]:
        """Every machine that ever had a daemon on this database."""
        ...

    def renew(self, machine: MachineRecord, until: datetime) -> bool:
        """Renew a machine's lease; False if that incarnation is no longer the newest one."""
        ...


class Tx(Protocol):
    """One transaction: the rows it may touch."""

    @property
    def tasks(self) -> Tasks:
        """Tasks."""
        ...

    @property
    def runs(self) -> Runs:
        """Runs."""
        ...

    @property
    def queue(self) -> Queue:
        """The queue."""
        ...

    @property
    def rules(self) -> Rules:
        """The queue's rules."""
        ...

    @property
    def waits(self) -> Waits:
        """Facts behind waits."""
        ...

    @property
    def accounts(self) -> Accounts:
        """Accounts."""
        ...

    @property
    def outcomes(self) -> Outcomes:
        """Outcomes and authorisations."""
        ...

    @property
    def journal(self) -> Journal:
        """The journal."""
        ...

    @property
    def outbox(self) -> Outbox:
        """The outbox."""
        ...

    @property
    def keeping(self) -> Keeping:
        """What is let go of."""
        ...

    @property
    def machines(self) -> Machines:
        """The machine."""
        ...


class Store(Protocol):
    """The database."""

    def transact(self, name: str, work: Callable[[Tx], T], *, durable: bool = True) -> T:
        """Run `work` in one write transaction and return what it returns.

        `name` is the transaction's crash point and log key. `durable`: the commit is synced to disk before this returns; where False a power cut may
        take the transaction back, never one without those before it.

        Raises:
            DatabaseUnusable: and its kinds. Nothing was changed.
        """
        ...

    def read(self, work: Callable[[Tx], T]) -> T:
        """Run `work` on one consistent snapshot; it must not write."""
        ...

    def changed(self, since: int) -> tuple[bool, int]:
        """Whether anybody has committed since the mark `since`, and the new mark. Costs microseconds."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether other machines may work on it. Then each machine holds a lease, and times are the database's."""
        ...

    def time(self) -> datetime | None:
        """The time by the database's own clock, as far as its last answer tells; None where that is this machine's clock. Asks nobody."""
        ...

    def check(self, *, thorough: bool = False) -> None:
        """Look for damage; thoroughly takes seconds for a large database. Raises DatabaseCorrupt."""
        ...

    def close(self) -> None:
        """Let go of the database."""
        ...
