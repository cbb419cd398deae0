"""What every database promises of the facts behind a wait: dependencies, checkouts, lanes, rules."""

from dataclasses import replace

import pytest
from support.records import NOON, add, claim, first, later, make_spec, make_task, settle

from watchkeeper.domain.lanes import QueueRule
from watchkeeper.domain.model import StopHow, StopRequest, Task, TaskState
from watchkeeper.errors import NoSuchTask, Stale
from watchkeeper.ports.store import BatchLimitReached, Claim, Dependency, Store
from watchkeeper.store.queue import BLOCK_AT_ONCE


def put(store: Store, name: str, **spec: object) -> Task:
    """Add a task with that spec."""
    return store.transact("add", lambda tx: add(tx, replace(make_task(name), spec=make_spec(**spec))))


def take(store: Store, machine: str = "m1") -> str | None:
    """Claim the next task."""
    claimed = store.transact("claim", lambda tx: claim(tx, NOON, machine=machine))
    return None if claimed is None else claimed.task_id


def finish(store: Store, task_id: str) -> None:
    """Its run ends well."""
    store.transact("settle", lambda tx: settle(tx, tx.runs.get(tx.tasks.get(task_id).run_id or "")))


def stop(store: Store, task_id: str) -> None:
    """A person stops a queued task."""

    def work(tx) -> None:
        was = tx.tasks.get(task_id)
        wish = StopRequest(how=StopHow.STOP, by="me", at=NOON)
        tx.tasks.save(replace(was, state=TaskState.STOPPED, stop=wish, ended_at=NOON), was)

    store.transact("stop", work)


def edit(store: Store, task_id: str, **spec: object) -> None:
    """A person edits a queued task."""

    def work(tx) -> None:
        was = tx.tasks.get(task_id)
        tx.tasks.save(replace(was, spec=replace(was.spec, **spec)), was)

    store.transact("edit", work)


@pytest.fixture(autouse=True)
def _audited(store: Store):
    """After every test what is kept equals what it is derived from."""
    yield
    assert store.read(lambda tx: tx.waits.audit()) == []


def test_a_dependent_waits_until_all_it_waits_for_are_done(store: Store) -> None:
    for name in ("a", "b"):
        put(store, name)
    put(store, "child", after=("a", "b"), priority=9)
    assert store.read(lambda tx: tx.waits.facts("child")).unmet == 2
    assert (take(store), take(store), take(store)) == ("a", "b", None)
    finish(store, "a")
    assert take(store) is None
    finish(store, "b")
    assert store.read(lambda tx: tx.waits.dependencies("child")) == [
        Dependency(task_id="a", state=TaskState.DONE),
        Dependency(task_id="b", state=TaskState.DONE),
    ]
    assert store.read(lambda tx: tx.waits.dependents("a")) == ["child"]
    assert take(store) == "child"


def test_one_that_waits_for_what_is_done_already_does_not_wait(store: Store) -> None:
    put(store, "a")
    assert take(store) == "a"
    finish(store, "a")
    put(store, "child", after=("a",))
    assert take(store) == "child"


def test_one_that_is_tried_again_is_waited_for_again(store: Store) -> None:
    put(store, "a")
    put(store, "child", after=("a",))
    assert take(store) == "a"
    finish(store, "a")

    def work(tx) -> None:
        was = tx.tasks.get("a")
        tx.tasks.save(replace(was, state=TaskState.QUEUED, ended_at=None), was)

    store.transact("retry", work)
    assert take(store) == "a"
    assert take(store) is None


def test_a_task_waits_only_for_what_is_there(store: Store) -> None:
    with pytest.raises(Stale):
        put(store, "child", after=("nobody",))
    with pytest.raises(NoSuchTask):
        store.read(lambda tx: tx.tasks.get("child"))
    with pytest.raises(NoSuchTask):
        store.read(lambda tx: tx.waits.facts("child"))


def test_a_task_cannot_be_claimed_while_it_waits_for_another(store: Store) -> None:
    """The database itself refuses, whichever statement asks."""
    put(store, "a")
    child = put(store, "child", after=("a",))
    from support.records import reserve

    with pytest.raises(Exception, match=r"claimed|constraint|corrupt|written|refused"):
        store.transact("claim", lambda tx: reserve(tx, child))


def test_an_edit_may_free_a_task(store: Store) -> None:
    put(store, "a")
    put(store, "child", after=("a",), priority=1)
    edit(store, "child", after=())
    assert take(store) == "child"


def test_one_task_works_in_a_checkout(store: Store) -> None:
    for name in ("a", "b", "c"):
        put(store, name, checkout="/repo")
    put(store, "elsewhere", checkout="/other")
    put(store, "shared")
    assert [take(store), take(store), take(store), take(store)] == ["a", "elsewhere", "shared", None]
    facts = store.read(lambda tx: tx.waits.facts("b"))
    assert (facts.blocked, facts.holders) == (True, ("a",))
    finish(store, "a")
    assert (take(store), take(store)) == ("b", None)
    finish(store, "b")
    assert take(store) == "c"


def test_a_checkout_is_one_of_its_machine(store: Store) -> None:
    for name, machine in (("a", "m1"), ("b", "m2"), ("c", None)):
        put(store, name, checkout="/repo", machine=machine)
    lanes = store.read(lambda tx: {lane.machine: lane for lane in tx.queue.lanes()})

    def claim_on(machine: str) -> str | None:
        def work(tx):
            found = tx.queue.first([lanes[machine], lanes[None]], machine)
            if found is None or isinstance(found, BatchLimitReached):
                return None
            from support.records import reserve

            return reserve(tx, found, machine).task_id

        return store.transact("claim", work)

    assert (claim_on("m1"), claim_on("m2"), claim_on("m1")) == ("a", "b", None)
    finish(store, "a")
    assert (claim_on("m2"), claim_on("m1")) == (None, None)  # it was set aside when m2 met it
    finish(store, "b")
    assert claim_on("m1") == "c"


def test_a_better_one_passes_before_those_that_wait_in_the_checkout(store: Store) -> None:
    for name, priority in (("a", 0), ("b", 0), ("c", 5)):
        put(store, name, checkout="/repo", priority=priority)
    assert take(store) == "c"
    finish(store, "c")
    assert take(store) == "a"


@pytest.mark.parametrize("how", ["stop", "edit", "dependency"])
def test_when_the_first_of_a_checkout_leaves_the_next_one_comes(store: Store, how: str) -> None:
    """Whatever takes the first one out of the line, no task behind it stays set aside."""
    put(store, "z", priority=-9)
    for name in ("a", "b"):
        put(store, name, checkout="/repo")
    match how:
        case "stop":
            stop(store, "a")
        case "edit":
            edit(store, "a", after=("z",))
        case _:
            edit(store, "a", checkout="/elsewhere", after=("z",))
    assert take(store) == "b"


def test_a_retry_that_waits_lets_the_others_of_its_checkout_through(store: Store) -> None:
    for name in ("a", "b"):
        put(store, name, checkout="/repo")
    assert take(store) == "a"
    store.transact("settle", lambda tx: settle(tx, tx.runs.live()[0], wake_at=later(60)))
    assert take(store) == "b"
    assert store.transact("look", lambda tx: first(tx, later(61))) is None
    finish(store, "b")
    assert store.transact("claim", lambda tx: claim(tx, later(61))) == Claim(task_id="a", run_id="a.2", fence=3)


def test_many_tasks_before_a_checkout_are_passed_in_several_transactions(store: Store) -> None:
    """Those that became ready all at once are set aside a bounded number at a time, and the one behind them is found."""
    put(store, "root")
    put(store, "holder", checkout="/repo", priority=9)
    for number in range(BLOCK_AT_ONCE + 5):
        put(store, f"n{number:03}", checkout="/repo", after=("root",), project=f"p{number}", priority=3)
    assert (take(store), take(store)) == ("holder", "root")
    finish(store, "root")
    put(store, "free", priority=-1)
    lanes = store.read(lambda tx: tx.queue.lanes())
    assert store.transact("first", lambda tx: tx.queue.first(lanes, "m1")) == BatchLimitReached()
    found = store.transact("first", lambda tx: tx.queue.first(lanes, "m1"))
    assert isinstance(found, Task)
    assert found.id == "free"


def test_lanes_are_what_tasks_have_in_common(store: Store) -> None:
    put(store, "a", harness="claude", account="work", project="p", machine="m1")
    put(store, "b", harness="claude", account="work", project="p", machine="m1")
    put(store, "c", harness="codex")
    lanes = store.read(lambda tx: tx.queue.lanes())
    assert [(lane.machine, lane.harness, lane.account, lane.project) for lane in lanes] == [
        ("m1", "claude", "claude:work", "p"),
        (None, "codex", "codex:own", ""),
    ]
    assert store.read(lambda tx: tx.waits.facts("b")).lane == lanes[0]
    only = store.transact("first", lambda tx: tx.queue.first(lanes[1:], "m1"))
    assert isinstance(only, Task)
    assert only.id == "c"
    assert take(store) == "a"
    (occupied,) = store.read(lambda tx: tx.queue.occupied())
    assert (occupied.lane, occupied.machine, occupied.agents) == (lanes[0], "m1", 1)


def test_an_edit_changes_the_lane(store: Store) -> None:
    put(store, "a", project="p")
    edit(store, "a", project="q", labels=("x",))
    assert [lane.project for lane in store.read(lambda tx: tx.queue.lanes())] == ["q"]
    assert store.read(lambda tx: (tx.tasks.labelled("x"), tx.tasks.labelled("y"))) == (["a"], [])


def test_a_rule_replaces_the_one_before_and_goes_when_it_says_nothing(store: Store) -> None:
    paused = QueueRule(scope="harness", name="claude", paused=True, by="me", at=NOON)
    limited = QueueRule(scope="all", name="", max_running=3, by="me", at=NOON)
    for rule in (paused, limited, replace(limited, max_running=4)):
        store.transact("rule", lambda tx, rule=rule: tx.rules.put(rule))
    assert store.read(lambda tx: tx.rules.all()) == [replace(limited, max_running=4), paused]
    store.transact("rule", lambda tx: tx.rules.put(replace(paused, paused=False)))
    assert store.read(lambda tx: tx.rules.all()) == [replace(limited, max_running=4)]


def test_what_was_told_of_a_lane_is_remembered_for_a_machine(store: Store) -> None:
    put(store, "a")
    (lane,) = store.read(lambda tx: tx.queue.lanes())
    store.transact("tell", lambda tx: tx.rules.announce("m1", lane, "paused", NOON))
    store.transact("tell", lambda tx: tx.rules.announce("m1", lane, "limit", NOON))
    assert store.read(lambda tx: (tx.rules.announced("m1"), tx.rules.announced("m2"))) == ({lane.id: "limit"}, {})
    store.transact("tell", lambda tx: tx.rules.announce("m1", lane, None, NOON))
    assert store.read(lambda tx: tx.rules.announced("m1")) == {}


def test_pins_are_listed_newest_first(store: Store) -> None:
    for number, name in enumerate(("a", "b", "c")):
        was = put(store, name)
        if name != "b":
            pin = replace(was, pinned_at=later(number))
            store.transact("pin", lambda tx, pin=pin, was=was: tx.tasks.save(pin, was))
    assert store.read(lambda tx: tx.tasks.pinned()) == ["c", "a"]


def test_everything_asked_for_is_read_as_it_was_stored(store: Store) -> None:
    put(store, "z")
    asked = {
        "account": "work", "isolation": "strict", "machine": "m9", "project": "prøject", "checkout": "/a b",
        "after": ("z",), "not_before": later(7), "labels": ("one", "två"), "priority": -3,
    }  # fmt: skip
    assert put(store, "a", **asked).spec == make_spec(**asked)
