"""Every word for why a task waits, from the pure function."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.records import NOON, later, make_task

from watchkeeper.domain.account import AccountState, SignIn
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.lanes import HarnessState, Lane, LaneConditions, Occupied, QueueRule, Reason, open_lanes
from watchkeeper.domain.model import FINAL_TASK_STATES, Task, TaskState
from watchkeeper.domain.wait import Wait
from watchkeeper.domain.waiting import (
    ENDS_BY_ITSELF,
    ENDS_WITH_OTHERS,
    NEEDS_A_PERSON,
    Dependency,
    Stuck,
    WaitFacts,
    circle,
    own_reasons,
    reasons,
    stuck,
)

LANE = Lane(id=1, machine="m1", harness="claude", account="claude:own", project="shop")
HERE = LaneConditions(machine="m1", now=NOON, limit=4, names={"m1": "here", "m2": "there"})


def facts(**given: Any) -> WaitFacts:
    """Nothing stands in the way, but for what is given."""
    fields: dict[str, Any] = {
        "lane": LANE, "ready": True, "unmet": 0, "blocked": False, "holders": (), "before": None,
    }  # fmt: skip
    return WaitFacts(**(fields | given))


def at_rest(kind: FailureKind | None, state: TaskState = TaskState.NEEDS_INPUT) -> Task:
    """A task that needs a person."""
    return make_task("t1", state=state, kind=kind, reason="The agent says why.")


def waits(until: float, why: Wait) -> Task:
    """A task that waits for a time."""
    return make_task("t1", wake_at=later(until), wake_for=why)


def rule(scope: str, name: str = "", **given: Any) -> LaneConditions:
    """Here, with one rule."""
    return replace(HERE, rules=[QueueRule(scope=scope, name=name, **given)])


def state(**given: Any) -> LaneConditions:
    """Here, with something known of the account."""
    return replace(HERE, accounts={"claude:own": AccountState(account="claude:own", machine="m1", **given)})


MISSING = HarnessState(harness="claude", machine="m1", present=False, detail="claude is not installed", at=NOON)
FULL = replace(HERE, occupied=[Occupied(lane=LANE, machine="m1", agents=4)])
ELSEWHERE = replace(LANE, machine="m2")

CASES: list[tuple[Wait, str, Task, WaitFacts, list[Dependency], LaneConditions]] = [
    (Wait.DEPENDENCY, "task p1 is running and must be done first", make_task(), facts(unmet=1),
     [Dependency(task_id="p1", state=TaskState.RUNNING)], HERE),
    (Wait.CHECKOUT_BUSY, "task t2 works in its checkout", make_task(), facts(blocked=True, holders=("t2",)), [], HERE),
    (Wait.CHECKOUT_BUSY, "task t2, which is held, may still work", make_task(), facts(holders=("t2",), held=("t2",)), [], HERE),
    (Wait.CHECKOUT_BUSY, "task t2 stands before it", make_task(), facts(blocked=True, before="t2"), [], HERE),
    (Wait.NOT_BEFORE, "as you asked", waits(60, Wait.NOT_BEFORE), facts(ready=False), [], HERE),
    (Wait.RETRY_AT, "tried again", waits(60, Wait.RETRY_AT), facts(ready=False), [], HERE),
    (Wait.QUOTA_UNTIL, "used up", waits(60, Wait.QUOTA_UNTIL), facts(ready=False), [], HERE),
    (Wait.QUOTA_UNTIL, "claude:own", make_task(), facts(), [], state(quota_until=later(5))),
    (Wait.QUOTA_UNTIL, "should be over, and task t7 tries it", make_task(), facts(), [],
     state(quota_until=later(-5), probe_run="t7.1")),
    (Wait.SERVICE, "the service of claude:own is overloaded", make_task(), facts(), [],
     state(trouble=FailureKind.OVERLOADED, trouble_since=NOON, trouble_at=NOON, probe_at=later(5))),
    (Wait.SERVICE, "the service of claude:own cannot be reached", make_task(), facts(), [],
     state(trouble=FailureKind.NETWORK, trouble_since=NOON, trouble_at=NOON, probe_at=later(-5), probe_run="t7.1")),
    (Wait.QUOTA_UNTIL, "says why", at_rest(FailureKind.QUOTA), facts(), [], HERE),
    (Wait.LIMIT, "4 of 4", make_task(), facts(), [], FULL),
    (Wait.PAUSED, "the queue is paused by ada", make_task(), facts(), [], rule("all", paused=True, by="ada")),
    (Wait.PAUSED, "machine there is paused", make_task(), facts(lane=ELSEWHERE), [], rule("machine", "m2", paused=True)),
    (Wait.MACHINE, "only machine there", make_task(), facts(lane=ELSEWHERE), [], HERE),
    (Wait.HARNESS_MISSING, "not installed", make_task(), facts(), [], replace(HERE, harnesses={"claude": MISSING})),
    (Wait.HARNESS_MISSING, "looked for again", replace(waits(60, Wait.RETRY_AT), kind=FailureKind.PROGRAM_MISSING),
     facts(ready=False), [], HERE),
    (Wait.HARNESS_MISSING, "says why", at_rest(FailureKind.PROGRAM_MISSING), facts(), [], HERE),
    (Wait.SIGNED_OUT, "claude:own is signed out", make_task(), facts(), [], state(sign_in=SignIn.OUT)),
    (Wait.SIGNED_OUT, "says why", at_rest(FailureKind.SIGNED_OUT), facts(), [], HERE),
    (Wait.APPROVAL, "says why", at_rest(FailureKind.PERMISSION_DENIED), facts(), [], HERE),
    (Wait.QUESTION, "says why", at_rest(FailureKind.INTERRUPTED), facts(), [], HERE),
    (Wait.QUESTION, "says why", at_rest(FailureKind.LOST, TaskState.HELD), facts(), [], HERE),
    (Wait.QUESTION, "says why", at_rest(None), facts(), [], HERE),
    (Wait.ENVIRONMENT_UNKNOWN, "says why", at_rest(FailureKind.ENVIRONMENT_UNKNOWN), facts(), [], HERE),
]  # fmt: skip


@pytest.mark.parametrize(
    ("wait", "detail", "task", "known", "on", "place"), CASES, ids=[f"{case[0].value}: {case[1]}" for case in CASES]
)
def test_the_reason_is_told(wait, detail, task, known, on, place) -> None:
    found = reasons(task, known, on, place)
    assert any(reason.wait is wait and detail in reason.detail for reason in found), found


SENTENCES: list[tuple[str, Task, WaitFacts, LaneConditions]] = [
    ("task t2 stands before it in the same checkout", make_task(), facts(blocked=True, before="t2"), HERE),
    ("tasks t2, t3 work in its checkout", make_task(), facts(holders=("t2", "t3")), HERE),
    ("tasks t2, t3, which are held, may still work in its checkout: `wk show t2`", make_task(),
     facts(holders=("t2", "t3"), held=("t2", "t3")), HERE),
    ("its last run failed for a passing reason, and it is tried again", waits(60, Wait.RETRY_AT), facts(), HERE),
    ("its last run failed for a passing reason, and it is tried again (It was busy.)",
     replace(waits(60, Wait.RETRY_AT), reason="It was busy."), facts(), HERE),
    ("the limit of its account was used up", waits(60, Wait.QUOTA_UNTIL), facts(), HERE),
    ("its start was put off", waits(60, Wait.SERVICE), facts(), HERE),
    ("the limit of account claude:own is used up", make_task(), facts(), state(quota_until=later(5))),
    ("the limit of account claude:own should be over, and task t7 tries it", make_task(), facts(),
     state(quota_until=later(-5), probe_run="t7.1")),
    ("4 of 4 agents are running on this machine", make_task(), facts(), FULL),
    ("the queue is paused; `wk queue resume` resumes it", make_task(), facts(), rule("all", paused=True)),
    ("the queue is paused by ada; `wk queue resume` resumes it", make_task(), facts(), rule("all", paused=True, by="ada")),
    ("harness claude is paused; `wk queue resume --harness claude` resumes it", make_task(), facts(),
     rule("harness", "claude", paused=True)),
    ("account claude:own is paused; `wk queue resume --account claude:own` resumes it", make_task(), facts(),
     rule("account", "claude:own", paused=True)),
    ("project my shop is paused; `wk queue resume --project 'my shop'` resumes it", make_task(),
     facts(lane=replace(LANE, project="my shop")), rule("project", "my shop", paused=True)),
    ("machine here is paused; `wk queue resume --machine here` resumes it", make_task(), facts(),
     rule("machine", "m1", paused=True)),
    ("only machine there may run it", make_task(), facts(lane=ELSEWHERE), HERE),
    ("claude is not installed", make_task(), facts(), replace(HERE, harnesses={"claude": MISSING})),
    ("the program of harness claude is missing here", make_task(), facts(),
     replace(HERE, harnesses={"claude": replace(MISSING, detail="")})),
    ("its program was missing, and is looked for again", replace(waits(60, Wait.RETRY_AT), kind=FailureKind.PROGRAM_MISSING),
     facts(), HERE),
    ("account claude:own is signed out; `wk account login claude:own` signs in", make_task(), facts(),
     state(sign_in=SignIn.OUT)),
    ("it waits for a person", make_task("t1", state=TaskState.NEEDS_INPUT), facts(), HERE),
]  # fmt: skip


@pytest.mark.parametrize(("detail", "task", "known", "conditions"), SENTENCES, ids=[each[0] for each in SENTENCES])
def test_the_sentence_is_whole_and_is_the_only_one(
    detail: str, task: Task, known: WaitFacts, conditions: LaneConditions
) -> None:
    assert [reason.detail for reason in reasons(task, known, [], conditions)] == [detail]


@pytest.mark.parametrize(
    ("scope", "name"),
    [("all", ""), ("machine", "m1"), ("harness", "claude"), ("account", "claude:own"), ("project", "shop")],
)
def test_a_limit_counts_the_agents_that_its_rule_speaks_of(scope: str, name: str) -> None:
    """Agents of another lane, or on another machine, do not count."""
    other = Lane(id=2, machine=None, harness="codex", account="codex:own", project="")
    occupied = [Occupied(lane=LANE, machine="m1", agents=2), Occupied(lane=other, machine="m2", agents=3)]
    counted = 5 if scope == "all" else 2
    full = replace(rule(scope, name, max_running=counted), occupied=occupied)
    (reason,) = reasons(make_task(), facts(), [], full)
    what = {"all": "the queue", "machine": "machine here"}.get(scope, f"{scope} {name}")
    assert (reason.wait, reason.detail) == (Wait.LIMIT, f"{counted} of {counted} agents of {what} are running")
    assert open_lanes([LANE, replace(LANE, machine=None)], full) == []
    roomy = replace(rule(scope, name, max_running=counted + 1), occupied=occupied)
    assert reasons(make_task(), facts(), [], roomy) == () and open_lanes([LANE], roomy) == [LANE]


def test_a_service_that_fails_says_since_when_until_when_and_who_tries_it() -> None:
    resting = {"trouble": FailureKind.OVERLOADED, "trouble_since": later(-60), "trouble_at": NOON}
    (reason,) = reasons(make_task(), facts(), [], state(**resting, probe_at=later(5)))
    assert (reason.since, reason.until, reason.tasks) == (later(-60), later(5), ())
    (reason,) = reasons(make_task(), facts(), [], state(**resting, probe_at=later(-5), probe_run="t7.1"))
    assert (reason.since, reason.until, reason.tasks) == (later(-60), None, ("t7",))
    (reason,) = reasons(make_task(), facts(), [], state(quota_until=later(-5), probe_run="t7.1"))
    assert (reason.wait, reason.until, reason.tasks) == (Wait.QUOTA_UNTIL, None, ("t7",))


def test_no_word_of_the_list_is_without_a_case() -> None:
    """That a record is torn is seen where it is read, and not told by these rules."""
    assert {case[0] for case in CASES} == set(Wait) - {Wait.RECORD_TORN}


def test_nothing_in_the_way_is_no_reason() -> None:
    on = [Dependency(task_id="p1", state=TaskState.DONE)]
    assert reasons(waits(-1, Wait.NOT_BEFORE), facts(), on, HERE) == ()


@pytest.mark.parametrize(
    "state", [s for s in TaskState if s not in {TaskState.NEEDS_INPUT, TaskState.HELD, TaskState.QUEUED}]
)
def test_what_works_or_has_ended_waits_for_nothing(state: TaskState) -> None:
    on = [Dependency(task_id="p1", state=TaskState.FAILED)]
    assert reasons(make_task(state=state), facts(holders=("t2",)), on, rule("all", paused=True)) == ()
    assert own_reasons(make_task(state=state), facts(holders=("t2",)), on, NOON) == ()


def test_a_time_says_until_when() -> None:
    (reason,) = reasons(waits(60, Wait.RETRY_AT), facts(ready=False), [], HERE)
    assert reason.until == later(60)


@pytest.mark.parametrize(("state", "detail"), [(TaskState.FAILED, "failed"), (TaskState.STOPPED, "was stopped")])
def test_a_dependency_that_failed_is_first_and_says_what_to_do(state: TaskState, detail: str) -> None:
    on = [Dependency(task_id="p1", state=TaskState.QUEUED), Dependency(task_id="p2", state=state)]
    first, second = reasons(make_task("t1"), facts(unmet=2), on, HERE)
    assert f"task p2 {detail} and must be done first" in first.detail and "never start by itself" in first.detail
    assert "wk retry p2" in first.detail and "wk edit t1 --after none" in first.detail and first.tasks == ("p2",)
    assert second.detail == "task p1 is queued and must be done first"


def test_the_most_lasting_reason_is_first() -> None:
    place = replace(FULL, rules=[QueueRule(scope="all", name="", paused=True)])
    on = [Dependency(task_id="p1", state=TaskState.RUNNING)]
    found = reasons(waits(60, Wait.NOT_BEFORE), facts(unmet=1, ready=False, holders=("t2",)), on, place)
    assert [reason.wait for reason in found] == [
        Wait.DEPENDENCY, Wait.PAUSED, Wait.NOT_BEFORE, Wait.CHECKOUT_BUSY, Wait.LIMIT,
    ]  # fmt: skip


def test_of_another_machine_nothing_is_guessed() -> None:
    """That this one is full, or has no account signed in, does not matter to it."""
    place = replace(FULL, accounts=state(sign_in=SignIn.OUT).accounts, harnesses={"claude": MISSING})
    assert [reason.wait for reason in reasons(make_task(), facts(lane=ELSEWHERE), [], place)] == [Wait.MACHINE]


def test_a_circle_is_found_and_shown() -> None:
    graph = {"a": ["b"], "b": ["c", "d"], "c": [], "d": []}
    assert circle("d", ["a"], lambda each: graph[each]) == ("d", "a", "b", "d")
    assert circle("a", ["a"], lambda each: graph[each]) == ("a", "a")
    assert circle("d", ["c"], lambda each: graph[each]) is None


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20))
def test_what_is_accepted_never_has_a_circle(edges: list[tuple[int, int]]) -> None:
    """Every edge that is not refused is added; in the end the tasks can be put into an order."""
    graph: dict[str, list[str]] = {str(each): [] for each in range(7)}
    for task, on in edges:
        if circle(str(task), [str(on)], graph.__getitem__) is None:
            graph[str(task)].append(str(on))
    left = dict(graph)
    while free := [each for each, after in left.items() if not any(on in left for on in after)]:
        for each in free:
            del left[each]
    assert not left


# What continues without a person


def test_each_word_says_what_ends_it() -> None:
    """A new word must be put into one of the sets: a wait ends or continues by it."""
    sets = (ENDS_BY_ITSELF, ENDS_WITH_OTHERS, NEEDS_A_PERSON)
    assert [sum(wait.value in words for words in sets) for wait in Wait] == [1] * len(Wait)


Known = dict[str, tuple[Task, tuple[Reason, ...]]]


def because(wait: Wait, *tasks: str) -> Reason:
    return Reason(wait=wait, detail=wait.value, tasks=tasks)


def queued(task_id: str, *why: Reason) -> Known:
    return {task_id: (make_task(task_id), why)}


def stands(task_id: str, state: TaskState) -> Known:
    ended = NOON if state in FINAL_TASK_STATES else None
    return {task_id: (make_task(task_id, state=state, ended_at=ended), ())}


@pytest.mark.parametrize("wait", sorted(NEEDS_A_PERSON))
def test_one_wait_for_a_person_is_enough(wait: str) -> None:
    """Whatever else it waits for, and whichever is given first."""
    passing = [because(Wait.NOT_BEFORE), because(Wait.LIMIT), because(Wait.QUOTA_UNTIL)]
    for why in ([because(Wait(wait)), *passing], [*passing, because(Wait(wait))]):
        found = stuck("t1", queued("t1", *why).__getitem__)
        assert found is not None and (found.task_id, found.reason.wait) == ("t1", wait)


@pytest.mark.parametrize("wait", sorted(ENDS_BY_ITSELF & set(Wait)))
def test_a_time_and_a_limit_end_without_a_person(wait: str) -> None:
    assert stuck("t1", queued("t1", because(Wait(wait))).__getitem__) is None


@pytest.mark.parametrize(
    ("state", "keeps"),
    [(TaskState.RUNNING, False), (TaskState.QUEUED, False), (TaskState.FAILED, True), (TaskState.STOPPED, True),
     (TaskState.NEEDS_INPUT, True), (TaskState.HELD, True)],
)  # fmt: skip
def test_a_dependency_keeps_a_task_if_it_does_not_go_on_by_itself(state: TaskState, keeps: bool) -> None:
    """Also one of several, while the others work."""
    known = queued("t1", because(Wait.DEPENDENCY, "p1"), because(Wait.DEPENDENCY, "p2"))
    found = stuck("t1", (known | stands("p1", TaskState.RUNNING) | stands("p2", state)).__getitem__)
    assert found == (Stuck(task_id="t1", reason=because(Wait.DEPENDENCY, "p2")) if keeps else None)


@pytest.mark.parametrize(("state", "keeps"), [(TaskState.RUNNING, False), (TaskState.HELD, True)])
def test_a_checkout_is_kept_by_what_is_held(state: TaskState, keeps: bool) -> None:
    known = queued("t1", because(Wait.CHECKOUT_BUSY, "h1")) | stands("h1", state)
    assert (stuck("t1", known.__getitem__) is not None) is keeps


def test_what_keeps_the_first_of_a_long_chain_keeps_the_last() -> None:
    """And it is said whose wait it is."""
    known = queued("t0", because(Wait.PAUSED))
    for number in range(1, 3000):
        known |= queued(f"t{number}", because(Wait.DEPENDENCY, f"t{number - 1}"))
    found = stuck("t2999", known.__getitem__)
    assert found is not None and (found.task_id, found.reason.wait) == ("t0", Wait.PAUSED)


def test_tasks_that_stand_before_each_other_are_looked_at_once() -> None:
    known = queued("t1", because(Wait.CHECKOUT_BUSY, "t2")) | queued("t2", because(Wait.CHECKOUT_BUSY, "t1"))
    assert stuck("t1", known.__getitem__) is None


@pytest.mark.parametrize(
    ("machine", "detail"),
    [
        ("m1", ["task t2 works in its checkout"]),
        ("m2", ["task t3, which is held, may still work in its checkout: `wk show t3`"]),
        ("m3", []),
    ],
)
def test_a_task_in_a_checkout_of_another_machine_is_not_named(machine: str, detail: list[str]) -> None:
    """A task that works there is not named, and a held one is not either: that checkout is another one."""
    anywhere = replace(LANE, machine=None)
    waiting = facts(lane=anywhere, blocked=True, holders=("t2", "t3"), taken_on=("m1", "m2"), held=("t3",))
    found = reasons(make_task(), waiting, [], replace(HERE, machine=machine))
    assert [reason.detail for reason in found if reason.wait is Wait.CHECKOUT_BUSY] == detail
    bound = replace(waiting, lane=LANE)
    (reason,) = reasons(make_task(), bound, [], HERE)
    assert reason.detail.startswith("task t3, which is held,") and reason.tasks == ("t2", "t3")
