"""Random programs over everything that keeps a task waiting, against a model that asks every task again each time.

Whatever waits, the first of those that may run is claimed at once: so nothing behind a waiting task is delayed by it. After each step what is kept beside
the rows equals what it is derived from, and the reasons that people see agree with what the claim does.
"""

from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.records import NOON, add, end, later, make_outcome, make_spec, make_task, reserve
from support.stores import check, fresh_place, open_place

from watchkeeper.app.claim import unblock_free_checkouts
from watchkeeper.app.lane_conditions import lane_conditions
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.lanes import QueueRule, open_lanes
from watchkeeper.domain.model import Disposition, OutcomeStatus, Proof, Run, RunState, StopHow, StopRequest, TaskState
from watchkeeper.domain.wait import Wait
from watchkeeper.domain.waiting import circle, reasons
from watchkeeper.ports.store import BatchLimitReached

MACHINES = ("m1", "m2")
LIMIT = 3
CHECKOUTS = st.sampled_from([None, "/a", "/b"])
LANES = st.tuples(st.sampled_from([None, *MACHINES]), st.sampled_from(["h1", "h2"]), st.sampled_from(["", "p"]))
SCOPES = st.sampled_from([("all", ""), ("machine", "m1"), ("harness", "h1"), ("account", "h2:own"), ("project", "p")])
ANY = st.integers(0, 10**6)


@dataclass
class Known:
    """What the model knows of a task."""

    place: int
    priority: int
    lane: tuple[str | None, str, str]
    checkout: str | None
    after: tuple[str, ...] = ()
    wake: int | None = None
    state: str = "queued"
    on: str = ""
    """The machine that it runs on."""


class Waits(RuleBasedStateMachine):
    """One database, two machines."""

    kind = "sqlite"

    @initialize()
    def begin(self) -> None:
        self.fresh = fresh_place(self.kind)
        self.where = self.fresh.__enter__()
        self.known: dict[str, Known] = {}
        self.said: dict[tuple[str, str], QueueRule] = {}
        self.now = self.added = 0
        self.store = open_place(self.where)

    def act(self, work):
        return self.store.transact("model", work, durable=False)

    def pick(self, number: int, *states: str) -> str | None:
        names = [name for name, one in self.known.items() if one.state in states]
        return names[number % len(names)] if names else None

    # What people do

    @rule(
        priority=st.integers(-1, 1), lane=LANES, checkout=CHECKOUTS,
        wait=st.one_of(st.none(), st.integers(1, 3)), after=st.lists(ANY, max_size=2),
    )  # fmt: skip
    def add(self, priority: int, lane, checkout: str | None, wait: int | None, after: list[int]) -> None:
        name = f"t{self.added:02}"
        names = list(self.known)
        on = tuple(dict.fromkeys(names[number % len(names)] for number in after)) if names else ()
        wake = None if wait is None else self.now + wait
        self.known[name] = Known(self.added, priority, lane, checkout, on, wake)
        self.added += 1
        spec = self.spec(name)
        at = None if wake is None else later(wake)
        why = None if wake is None else Wait.NOT_BEFORE
        self.act(lambda tx: add(tx, replace(make_task(name, wake_at=at, wake_for=why), spec=spec)))

    def spec(self, name: str):
        one = self.known[name]
        machine, harness, project = one.lane
        return make_spec(
            harness=harness,
            machine=machine,
            project=project,
            priority=one.priority,
            checkout=one.checkout,
            after=one.after,
        )

    @precondition(lambda self: self.known)
    @rule(number=ANY, priority=st.integers(-1, 1), lane=LANES, checkout=CHECKOUTS, after=st.lists(ANY, max_size=2))
    def edit(self, number: int, priority: int, lane, checkout: str | None, after: list[int]) -> None:
        name = self.pick(number, "queued")
        if name is None:
            return
        names = list(self.known)
        on = tuple(dict.fromkeys(names[each % len(names)] for each in after))
        if circle(name, on, lambda each: self.known[each].after) is not None:
            return
        one = self.known[name]
        one.priority, one.lane, one.checkout, one.after = priority, lane, checkout, on
        self.save(name, spec=self.spec(name))

    @rule(number=ANY)
    def stop(self, number: int) -> None:
        name = self.pick(number, "queued")
        if name is not None:
            self.known[name].state = "stopped"
            wish = StopRequest(how=StopHow.STOP, by="me", at=NOON)
            self.save(name, state=TaskState.STOPPED, stop=wish, wake_at=None, wake_for=None, ended_at=NOON)

    @rule(number=ANY)
    def retry(self, number: int) -> None:
        name = self.pick(number, "done", "failed", "stopped")
        if name is not None:
            self.known[name].state, self.known[name].wake = "queued", None
            self.save(name, state=TaskState.QUEUED, stop=None, ended_at=None, kind=None)

    @rule(number=ANY)
    def remove(self, number: int) -> None:
        """What has ended, and is not needed by a task that has not."""
        name = self.pick(number, "done", "failed", "stopped")
        if name is None:
            return
        needed = (
            {"queued", "running"} if self.known[name].state == "done" else {"queued", "running", "failed", "stopped"}
        )
        if any(name in one.after and one.state in needed for one in self.known.values()):
            return
        del self.known[name]
        for one in self.known.values():
            one.after = tuple(each for each in one.after if each != name)
        self.act(lambda tx: tx.deletion.remove_task(name))

    @rule(scope=SCOPES, paused=st.booleans(), most=st.one_of(st.none(), st.integers(1, 2)))
    def say(self, scope: tuple[str, str], paused: bool, most: int | None) -> None:
        said = QueueRule(scope=scope[0], name=scope[1], paused=paused, max_running=most, by="me", at=NOON)
        self.said[scope] = said
        self.act(lambda tx: tx.rules.put(said))

    def save(self, name: str, **changes) -> None:
        def work(tx) -> None:
            was = tx.tasks.get(name)
            tx.tasks.save(replace(was, **changes), was)

        self.act(work)

    # What machines do

    @rule(seconds=st.integers(1, 3))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule(machine=st.sampled_from(MACHINES))
    def claim(self, machine: str) -> None:
        """The best of those that may run here, at once, however many wait before it."""
        blocked: list[str] = []
        expected = self.candidates(machine)
        before = {name for name, announced in self.announced(machine).items() if not announced}
        claimed = self.act(lambda tx: self.take(tx, machine, blocked))
        assert claimed == (expected[0] if expected else None)
        assert len(blocked) == len(set(blocked))
        if claimed is not None:
            assert claimed in before, "what is claimed had a reason to wait"
            one = self.known[claimed]
            one.state, one.wake, one.on = "running", None, machine

    def take(self, tx, machine: str, blocked: list[str]) -> str | None:
        while tx.queue.wake(later(self.now)):
            pass
        conditions = lane_conditions(tx, machine, LIMIT, later(self.now))
        unblock_free_checkouts(tx, conditions)
        while isinstance(
            found := tx.queue.first(
                open_lanes(tx.queue.lanes(), conditions), machine, lambda task, _: blocked.append(task)
            ),
            BatchLimitReached,
        ):
            pass
        return None if found is None else reserve(tx, found, machine).task_id

    @rule(number=ANY, how=st.sampled_from(["done", "failed", "queued"]), again=st.integers(0, 2))
    def finish(self, number: int, how: str, again: int) -> None:
        name = self.pick(number, "running")
        if name is None:
            return
        one = self.known[name]
        one.state, one.wake, one.on = how, self.now + again if how == "queued" else None, ""
        self.act(lambda tx: settle(tx, tx.runs.get(tx.tasks.get(name).run_id or ""), how, one.wake))

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = open_place(self.where)

    # What must hold

    def candidates(self, machine: str) -> list[str]:
        """Who may run on a machine now, the best first, told from nothing but what was asked for."""
        taken = {(one.on, one.checkout) for one in self.known.values() if one.state == "running" and one.checkout}
        found = [
            (-one.priority, one.place, name)
            for name, one in self.known.items()
            if one.state == "queued"
            and (one.wake is None or one.wake <= self.now)
            and all(self.known[each].state == "done" for each in one.after)
            and (machine, one.checkout) not in taken
            and self.is_open(one, machine)
        ]
        return [name for *_, name in sorted(found)]

    def is_open(self, one: Known, machine: str) -> bool:
        running = [(other, other.on) for other in self.known.values() if other.state == "running"]
        return (
            one.lane[0] in {None, machine}
            and sum(on == machine for _, on in running) < LIMIT
            and not any(
                said.paused
                or (
                    said.max_running is not None
                    and sum(speaks(said, each, on) for each, on in running) >= said.max_running
                )
                for said in self.said.values()
                if speaks(said, one, machine)
            )
        )

    def announced(self, machine: str) -> dict[str, tuple[Wait, ...]]:
        """What people on a machine see of each queued task."""

        def look(tx):
            conditions = lane_conditions(tx, machine, LIMIT, later(self.now))
            tasks = [tx.tasks.get(name) for name, one in self.known.items() if one.state == "queued"]
            return {
                task.id: tuple(
                    each.wait
                    for each in reasons(task, tx.waits.facts(task.id), tx.waits.dependencies(task.id), conditions)
                )
                for task in tasks
            }

        return self.store.read(look)

    @invariant()
    def what_is_kept_is_what_it_comes_from(self) -> None:
        if not hasattr(self, "store"):
            return
        assert self.store.read(lambda tx: tx.waits.audit()) == []
        states = self.store.read(
            lambda tx: {task.id: task.state.value for task in tx.tasks.in_states(list(TaskState), 999)}
        )
        assert states == {name: one.state for name, one in self.known.items()}

    @invariant()
    def people_are_told_the_truth(self) -> None:
        """Who has no reason may run; who may run has none but that another of its lane stands before it in its checkout."""
        if not hasattr(self, "store"):
            return
        for machine in MACHINES:
            may = set(self.candidates(machine))
            for name, announced in self.announced(machine).items():
                if name in may:
                    assert set(announced) <= {Wait.CHECKOUT_BUSY}, (name, announced)
                else:
                    assert announced, f"{name} waits on {machine}, and nobody is told why"

    def teardown(self) -> None:
        if hasattr(self, "store"):
            check(self.store)
            self.store.close()
            _ = self.fresh.__exit__(None, None, None)


def speaks(said: QueueRule, one: Known, machine: str) -> bool:
    """Whether a rule is about a task, if that runs on a machine."""
    names = {
        "all": "",
        "machine": machine,
        "harness": one.lane[1],
        "account": f"{one.lane[1]}:own",
        "project": one.lane[2],
    }
    return names[said.scope] == said.name


def settle(tx, run: Run, how: str, wake: int | None) -> None:
    """Its run ends: it is done, failed, or queued for another one."""
    ended = end(tx, run)
    tx.runs.save(replace(ended, state=RunState.SETTLED, settled_at=NOON, proof=Proof.PROVEN), ended)
    kind = None if how == "done" else FailureKind.CRASH
    status = OutcomeStatus.SUCCEEDED if how == "done" else OutcomeStatus.FAILED
    disposition = {"done": Disposition.DONE, "failed": Disposition.FAILED, "queued": Disposition.RETRY}[how]
    tx.outcomes.add(make_outcome(run, status=status, disposition=disposition, kind=kind, reason="So."))
    task = tx.tasks.get(run.task_id)
    at = None if wake is None else later(wake)
    why = None if wake is None else Wait.RETRY_AT
    ended_at = None if how == "queued" else NOON
    tx.tasks.save(
        replace(task, state=TaskState(how), run_id=None, wake_at=at, wake_for=why, ended_at=ended_at, kind=kind), task
    )


class WaitsInPostgres(Waits):
    """The same programs on PostgreSQL."""

    kind = "postgres"


TestWaits = Waits.TestCase
TestWaitsInPostgres = WaitsInPostgres.TestCase
TestWaits.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestWaitsInPostgres.settings = settings(max_examples=15, stateful_step_count=30, deadline=None)
