"""Random programs over tasks, claims and *old* tokens, against a few dictionaries. What is stale never lands."""

from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule
from support.records import NOON, add, at_work, claim, end, later, make_task, settle
from support.stores import check, fresh_place, open_place

from watchkeeper.domain.model import Run, RunState, StopHow, StopRequest, Task, TaskState
from watchkeeper.errors import Stale


@dataclass
class Known:
    """What the model knows of a task."""

    priority: int
    place: int
    state: str = "queued"
    wake: int | None = None
    stopped: bool = False
    version: int = 0
    fence: int | None = None
    run_state: str = ""


class Queue(RuleBasedStateMachine):
    """Tokens (a run as it was read, a task as it was read) stay drawable forever: that is the point."""

    kind = "sqlite"
    runs = Bundle("runs")
    tasks = Bundle("tasks")
    operations = Bundle("operations")

    @initialize()
    def begin(self) -> None:
        self.fresh = fresh_place(self.kind)
        self.place = self.fresh.__enter__()
        self.known: dict[str, Known] = {}
        self.fences: list[int] = []
        self.answers: dict[str, object] = {}
        self.now = 0
        self.open()

    def open(self) -> None:
        self.store = open_place(self.place)

    def act(self, work):
        return self.store.transact("model", work, durable=False)

    @rule(target=tasks, priority=st.integers(-1, 1), wait=st.one_of(st.none(), st.integers(1, 5)))
    def add(self, priority: int, wait: int | None):
        name = f"t{len(self.known)}"
        wake = None if wait is None else self.now + wait
        self.known[name] = Known(priority, len(self.known), wake=wake)
        return self.act(
            lambda tx: add(tx, make_task(name, priority=priority, wake_at=None if wake is None else later(wake)))
        )

    @rule(seconds=st.integers(1, 4))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule(target=operations)
    def think_of_an_operation(self) -> str:
        return f"op{len(self.answers)}-{self.now}-{len(self.fences)}"

    @rule(target=runs, operation=operations)
    def claim(self, operation: str):
        claimed = self.act(lambda tx: claim(tx, later(self.now), operation))
        if operation in self.answers:
            assert claimed == self.answers[operation]
            return multiple()
        due = [
            (-one.priority, one.place, name)
            for name, one in self.known.items()
            if one.state == "queued" and not one.stopped and (one.wake is None or one.wake <= self.now)
        ]
        if not due:
            assert claimed is None
            return multiple()
        assert claimed is not None
        assert claimed.task_id == min(due)[2]
        assert not self.fences or claimed.fence > max(self.fences)
        self.fences.append(claimed.fence)
        self.answers[operation] = claimed
        one = self.known[claimed.task_id]
        one.state, one.wake, one.fence, one.run_state = "running", None, claimed.fence, "reserved"
        one.version += 1
        return self.store.read(lambda tx: tx.runs.get(claimed.run_id))

    @rule(target=runs, run=runs)
    def save_run(self, run: Run):
        """The holder of a token, however old, tries to record an end."""
        one = self.known[run.task_id]
        current = (run.fence, run.state.value) == (one.fence, one.run_state)
        if run.state is RunState.ENDED:
            return multiple()
        try:
            ended = self.act(lambda tx: end(tx, run))
        except Stale:
            assert not current
            return multiple()
        assert current
        one.run_state = "ended"
        return ended

    @rule(run=runs, again=st.one_of(st.none(), st.integers(0, 3)))
    def settle(self, run: Run, again: int | None) -> None:
        """The same for a settlement with everything that belongs to it."""
        one = self.known[run.task_id]
        current = (run.fence, run.state.value) == (one.fence, one.run_state)
        wake = None if again is None else self.now + again
        try:
            self.act(lambda tx: settle(tx, run, wake_at=None if wake is None else later(wake)))
        except Stale:
            assert not current
            return
        assert current
        one.run_state, one.fence = "settled", None
        one.state, one.wake = ("done", None) if wake is None else ("queued", wake)
        one.version += 1

    @rule(target=tasks, task=tasks)
    def read_again(self, task: Task):
        return self.store.read(lambda tx: tx.tasks.get(task.id))

    @rule(task=tasks)
    def stop(self, task: Task) -> None:
        """A person's wish, written by a process that read the task at some time."""
        one = self.known[task.id]
        wish = StopRequest(how=StopHow.STOP, by="me", at=NOON)
        try:
            self.act(lambda tx: tx.tasks.save(replace(task, stop=wish), task))
        except Stale:
            assert task.version != one.version
            return
        assert task.version == one.version
        one.stopped = True
        one.version += 1

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.open()

    @invariant()
    def the_database_is_the_model(self) -> None:
        if not hasattr(self, "store"):
            return

        def look(tx):
            tasks = {task.id: task for task in tx.tasks.in_states(list(TaskState), 1000)}
            return tasks, tx.runs.live(), tx.tasks.counts(), at_work(tx)

        tasks, live, counts, claims = self.store.read(look)
        assert {i: (t.state.value, t.version, t.stop is not None) for i, t in tasks.items()} == {
            i: (k.state, k.version, k.stopped) for i, k in self.known.items()
        }
        owners = {i: (k.fence, k.run_state) for i, k in self.known.items() if k.fence is not None}
        assert {run.task_id: (run.fence, run.state.value) for run in live} == owners
        assert claims == len(owners)
        assert sum(counts.values()) == len(self.known)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            check(self.store)
            self.store.close()
            _ = self.fresh.__exit__(None, None, None)


class QueueInPostgres(Queue):
    """The same programs on PostgreSQL."""

    kind = "postgres"


TestQueue = Queue.TestCase
TestQueueInPostgres = QueueInPostgres.TestCase
TestQueue.settings = TestQueueInPostgres.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
