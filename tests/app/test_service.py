"""Trouble of a service, and limits that are over: one task tries for all, and nothing is lost meanwhile."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from app.stage import Verbs
from support.bench import Bench

from watchkeeper.app.claim import next_check_at
from watchkeeper.domain.account import CredentialState
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import Disposition, EndReason, Run, TaskState
from watchkeeper.domain.service import SPARED
from watchkeeper.domain.wait import Wait
from watchkeeper.errors import Refused

OVERLOADED = FailureKind.OVERLOADED.value


@pytest.fixture
def bench(verbs: Verbs) -> Iterator[Bench]:
    """A queue with room for four."""
    made = Bench(verbs.store, verbs.clock)
    yield made
    made.close()


def started(bench: Bench) -> Run:
    """The next task's run, its agent at work."""
    run = bench.claim()
    assert run is not None
    return bench.begin(run)


def closed_by(bench: Bench, kind: str = OVERLOADED) -> Run:
    """A first task fails by the service."""
    run = started(bench)
    bench.clock.step(10)
    _ = bench.ends(run, kind)
    return run


def due(bench: Bench) -> None:
    """Let time pass until the next probe is due."""
    at = bench.state().probe_at
    assert at is not None
    bench.pass_until(at)


# An outage, as it goes


@dataclass
class Agent:
    """A scripted agent: it needs a minute of a service that answers, and gives up after a while without."""

    run: Run
    worked_s: float = 0.0
    waited_s: float = 0.0


WORK_S, PATIENCE_S, OUTAGE_S, BEGINS_S = 60.0, 40.0, 20 * 60.0, 30.0


def test_twenty_tasks_outlive_an_outage_of_twenty_minutes(bench: Bench) -> None:
    """All end well with one attempt each, and few agents are started while no service answers."""
    names = [f"t{number:02}" for number in range(20)]
    for name in names:
        _ = bench.add(name, max_attempts=3)
    begins = bench.clock.now() + timedelta(seconds=BEGINS_S)
    ends = begins + timedelta(seconds=OUTAGE_S)
    agents: list[Agent] = []
    launched: list[datetime] = []
    at_once = 0
    while any(bench.task(name).state in {TaskState.QUEUED, TaskState.RUNNING} for name in names):
        now = bench.clock.now()
        assert now < ends + timedelta(minutes=30), "the queue stands still"
        while (run := bench.claim()) is not None:
            agents.append(Agent(run=bench.begin(run)))
            launched.append(now)
        down = begins <= now < ends
        at_once = max(at_once, sum(each.waited_s > 0 for each in agents) if down else 0)
        for agent in list(agents):
            if _lives(bench, agent, down=down):
                continue
            agents.remove(agent)
        bench.follow()
        bench.clock.step(1)
    during = [at for at in launched if begins <= at < ends]
    print(f"{len(during)} agents were started in {OUTAGE_S / 60:.0f} minutes of outage, {len(launched)} in all")
    tasks = [bench.task(name) for name in names]
    assert {(task.state, task.attempts) for task in tasks} == {(TaskState.DONE, 1)}
    assert len(during) <= 7, [at - begins for at in during]
    assert len(launched) == 20 + 4 + len(during), "those that it took by surprise, and the probes that failed"
    told = [entry.data for entry in bench.journal("account.seen") if "trouble" in entry.data]
    assert [data["trouble"] for data in told] == [OVERLOADED, ""]
    assert [entry.data["wait"] for entry in bench.journal("queue.waiting") if entry.data["wait"] == Wait.SERVICE] == [
        Wait.SERVICE
    ]


def _lives(bench: Bench, agent: Agent, *, down: bool) -> bool:
    """A second of an agent's life; False when it has ended."""
    if not down:
        agent.waited_s = 0.0
        agent.worked_s += 1
        if agent.worked_s % 10 == 1:
            bench.detail(agent.run, text=f"I have worked {agent.worked_s:.0f} s.")
        if agent.worked_s >= WORK_S:
            _ = bench.ends(agent.run)
            return False
        return True
    agent.waited_s += 1
    if agent.waited_s >= PATIENCE_S:
        _ = bench.ends(agent.run, OVERLOADED)
        return False
    return True


def test_the_last_probe_of_an_outage_that_lasts_two_hours_does_not_hold_the_others(bench: Bench) -> None:
    """Its first answer opens the lanes, though it works for hours."""
    for name in ("t1", "t2", "t3"):
        _ = bench.add(name)
    _ = closed_by(bench)
    due(bench)
    probe = started(bench)
    assert bench.claim() is None
    bench.detail(probe, "retry", kind=OVERLOADED, text="529")
    bench.follow()
    assert bench.claim() is None, "that it tries again is no answer"
    bench.detail(probe, text="I begin.")
    bench.follow()
    assert bench.state().trouble is None
    assert [started(bench).task_id, started(bench).task_id] == ["t1", "t3"]


# The pauses


def test_pauses_grow_with_each_failed_probe_up_to_the_cap(bench: Bench) -> None:
    _ = bench.add("t1")
    run, pauses = closed_by(bench), list[float]()
    for _ in range(8):
        state = bench.state()
        assert state.probe_at is not None and state.trouble_at is not None
        pauses.append((state.probe_at - state.trouble_at).total_seconds())
        due(bench)
        run = started(bench)
        assert bench.claim() is None
        bench.clock.step(5)
        _ = bench.ends(run, FailureKind.NETWORK.value)
    assert pauses == [30, 60, 120, 240, 480, 900, 900, 900]
    task = bench.task("t1")
    assert (task.state, task.attempts, task.service_failures) == (TaskState.QUEUED, 0, 0)
    assert bench.state().trouble is FailureKind.NETWORK


def test_agents_that_began_before_the_trouble_do_not_lengthen_the_pause(bench: Bench) -> None:
    for number in range(4):
        _ = bench.add(f"t{number}")
    runs = [started(bench) for _ in range(4)]
    _ = bench.ends(runs[0], OVERLOADED)
    known = bench.state()
    for run in runs[1:]:
        bench.clock.step(3)
        _ = bench.ends(run, OVERLOADED)
    state = bench.state()
    assert (state.probes, state.probe_at, state.trouble_since) == (0, known.probe_at, known.trouble_since)
    assert state.trouble_at == bench.clock.now(), "it was seen to last"


def test_an_older_failure_that_is_told_late_closes_nothing(bench: Bench) -> None:
    """Its run ended before another was answered; the daemon came to it after that."""
    for name in ("t1", "t2"):
        _ = bench.add(name)
    failed, answered = started(bench), started(bench)
    bench.clock.step(5)
    bench.detail(failed, "result", ok=False, kind=OVERLOADED)
    bench.dies(failed)
    bench.clock.step(4)
    bench.follow()
    bench.clock.step(1)
    bench.detail(answered, text="I go on.")
    bench.follow()
    _ = bench.settler.settle(failed.id)
    assert bench.state().trouble is None
    task = bench.task("t1")
    assert (task.attempts, task.service_failures) == (0, 1)
    assert task.wake_at is not None, "it has a pause of its own"


def test_an_answer_after_the_trouble_opens_the_lanes_and_one_from_before_does_not(bench: Bench) -> None:
    """An agent that began before is answered again; what it had printed before the trouble tells nothing."""
    for name in ("t1", "t2", "t3"):
        _ = bench.add(name)
    failing, going_on = started(bench), started(bench)
    bench.clock.step(5)
    bench.detail(going_on, text="Before it.")
    _ = bench.ends(failing, OVERLOADED)
    bench.follow()
    assert bench.state().trouble is not None
    bench.restart()
    bench.follow()
    assert bench.state().trouble is not None, "another daemon cannot know when it was printed"
    bench.clock.step(5)
    bench.detail(going_on, "tool", name="run", text="ls")
    bench.follow()
    assert bench.state().trouble is None
    assert bench.claim() is not None


# How a probe can end


@pytest.mark.parametrize("how", ["stopped", "crashed", "never launched", "held", "cancelled before it began"])
def test_a_probe_that_tells_nothing_makes_way_for_the_next(bench: Bench, how: str) -> None:
    """At once, and only for one."""
    for name in ("t1", "t2", "t3"):
        _ = bench.add(name)
    _ = closed_by(bench)
    due(bench)
    probe = bench.claim()
    assert probe is not None
    if how == "cancelled before it began":
        bench.stop(probe.task_id)
        _ = bench.never(probe)
    elif how == "never launched":
        _ = bench.never(probe)
    else:
        probe = bench.begin(probe)
        assert bench.claim() is None
        if how == "held":
            bench.hold(probe)
        elif how == "stopped":
            bench.stop(probe.task_id)
            _ = bench.exits(probe, EndReason.STOP)
        else:
            _ = bench.exits(probe)
    assert bench.state().trouble is FailureKind.OVERLOADED
    assert bench.claim() is not None
    assert bench.claim() is None


def test_a_held_probe_that_comes_back_is_the_probe_again(bench: Bench) -> None:
    """Unless another has taken its place."""
    for name in ("t1", "t2", "t3"):
        _ = bench.add(name)
    _ = closed_by(bench)
    due(bench)
    first = started(bench)
    bench.hold(first)
    bench.regain(first)
    assert bench.claim() is None
    bench.hold(first)
    second = started(bench)
    bench.regain(first)
    assert bench.state().probe_run == second.id
    _ = bench.ends(first, OVERLOADED)
    assert (bench.state().probe_run, bench.state().probes) == (second.id, 0)


@pytest.mark.parametrize("kind", ["context_full", "refused", "bad_request", "turn_limit"])
def test_a_failure_that_shows_an_answer_opens_the_lanes(bench: Bench, kind: str) -> None:
    for name in ("t1", "t2"):
        _ = bench.add(name)
    _ = closed_by(bench)
    due(bench)
    _ = bench.ends(started(bench), kind)
    assert bench.state().trouble is None


# Whose fault it is


def test_the_probes_take_turns(bench: Bench) -> None:
    """A task that fails by itself does not keep the others from showing that the service answers."""
    for name in ("t1", "t2", "t3"):
        _ = bench.add(name, priority=5 if name == "t1" else 0)
    tried = [closed_by(bench).task_id]
    for _ in range(5):
        due(bench)
        run = started(bench)
        tried.append(run.task_id)
        bench.clock.step(1)
        _ = bench.ends(run, OVERLOADED)
    assert tried == ["t1", "t2", "t3", "t1", "t2", "t3"]


def test_a_task_that_alone_fails_does_not_loop_for_ever(bench: Bench) -> None:
    """Others of the account are answered all the while. Its first failure may have been an outage; after that it is distinguished from one."""
    _ = bench.add("other")
    other = started(bench)
    _ = bench.add("t1", max_attempts=3)
    runs = 0
    while bench.task("t1").state is TaskState.QUEUED:
        assert runs < 50
        if (run := bench.claim()) is not None:
            assert run.task_id == "t1"
            runs += 1
            bench.clock.step(2)
            _ = bench.ends(bench.begin(run), "network")
        bench.clock.step(2)
        bench.detail(other, text="I go on.")
        bench.follow()
    task = bench.task("t1")
    assert (task.state, task.kind, task.attempts, runs) == (TaskState.FAILED, FailureKind.NETWORK, 3, 1 + SPARED + 3)
    assert "while it answered others" in task.reason


def test_a_task_that_is_answered_and_then_fails_does_not_loop_for_ever(bench: Bench) -> None:
    """No other task is there; each time the first answer comes, and then none."""
    _ = bench.add("t1", max_attempts=2)
    runs = 0
    while bench.task("t1").state is TaskState.QUEUED:
        assert runs < 50
        if (run := bench.claim()) is not None:
            runs += 1
            run = bench.begin(run)
            bench.detail(run, text="I begin.")
            bench.clock.step(5)
            bench.follow()
            _ = bench.ends(run, OVERLOADED)
        bench.clock.step(5)
    assert (bench.task("t1").state, runs) == (TaskState.FAILED, SPARED + 2)


# Limits


def limited(bench: Bench, run: Run, seconds: float) -> datetime:
    """The run is refused for the account's limit."""
    until = bench.clock.now() + timedelta(seconds=seconds)
    outcome = bench.ends(run, "quota", until=until.isoformat())
    assert outcome is not None and outcome.disposition is Disposition.RETRY
    return until


def test_when_a_limit_is_over_one_of_fifty_tasks_tries_it(bench: Bench) -> None:
    """Those that had run into it too: they wait by the lane, and have no time of their own at which all would start."""
    for number in range(50):
        _ = bench.add(f"t{number:02}")
    runs = [started(bench) for _ in range(4)]
    until = [limited(bench, run, 3600) for run in runs][-1]
    assert all(bench.task(run.task_id).wake_at is None for run in runs)
    bench.clock.step(3599)
    assert bench.claim() is None
    assert bench.store.read(lambda tx: next_check_at(tx, "m1", bench.clock.now())) == until
    bench.pass_until(until)
    probe = started(bench)
    for _ in range(10):
        bench.clock.step(1)
        bench.follow()
        assert bench.claim() is None
    assert len(bench.live()) == 1
    assert [entry.task_id for entry in bench.journal("account.probe")] == [probe.task_id]
    assert "should be over" in bench.why("t49")[0].detail
    bench.detail(probe, text="I begin.")
    bench.follow()
    assert [bench.claim() is not None for _ in range(4)] == [True, True, True, False]
    assert bench.state().quota_until is None


def test_a_limit_that_is_not_over_after_all_is_tried_less_and_less(bench: Bench) -> None:
    """Also if the program always names a time that has passed."""
    _ = bench.add("t1")
    pauses: list[float] = []
    for _ in range(7):
        _ = limited(bench, started(bench), -60)
        until = bench.state().quota_until
        assert until is not None
        pauses.append((until - bench.clock.now()).total_seconds())
        assert bench.claim() is None
        bench.pass_until(until)
    assert pauses == [30, 60, 120, 240, 480, 900, 900]
    assert bench.task("t1").attempts == 0


def test_a_success_of_an_older_agent_allows_one_try_before_the_limit_is_over(bench: Bench) -> None:
    """The time that the program named may be wrong, and what else works may work under another limit."""
    for name in ("t1", "t2", "t3"):
        _ = bench.add(name)
    refused, older = started(bench), started(bench)
    until = limited(bench, refused, 3600)
    bench.clock.step(5)
    bench.detail(older, text="I go on.")
    bench.follow()
    assert (bench.state().quota_until, bench.claim()) == (until, None)
    _ = bench.ends(older)
    assert bench.claim() is not None
    assert bench.claim() is None


def test_the_limit_of_a_key_is_its_tasks_own(bench: Bench) -> None:
    """It closes no lane, and the task has a time of its own."""
    for name in ("t1", "t2"):
        _ = bench.add(name, account="key")
    bench.credential_state = CredentialState(keyed=True)
    until = limited(bench, started(bench), 3600)
    assert bench.task("t1").wake_at == until
    assert bench.claim() is not None


def test_a_service_fails_the_tasks_with_keys_of_their_own_alike(bench: Bench) -> None:
    for name in ("t1", "t2"):
        _ = bench.add(name, account="key")
    _ = bench.add("other")
    bench.credential_state = CredentialState(keyed=True)
    _ = closed_by(bench)
    assert bench.state("demo:key").trouble is FailureKind.OVERLOADED
    run = bench.claim()
    assert run is not None and run.task_id == "other"
    assert bench.claim() is None


# People, clocks, machines


def test_a_persons_word_sends_a_probe_at_once(bench: Bench) -> None:
    """Whether the task has failed already or not; while one is out there is nothing to hurry."""
    for name in ("t1", "t2"):
        _ = bench.add(name)
    for name in ("t1", "t2"):
        if name == "t1":
            _ = closed_by(bench)
        assert bench.claim() is None
        _ = bench.retry(name)
        run = started(bench)
        assert run.task_id == name
        with pytest.raises(Refused, match="already waiting"):
            _ = bench.retry("t2" if name == "t1" else "t1")
        _ = bench.ends(run, OVERLOADED)
    assert bench.state().probes == 2


def test_a_persons_word_on_a_limit_sends_one_task_and_not_all(bench: Bench) -> None:
    for number in range(10):
        _ = bench.add(f"t{number}")
    run = started(bench)
    _ = limited(bench, run, 3600)
    _ = bench.retry(run.task_id)
    assert started(bench).task_id == run.task_id
    assert bench.claim() is None


@pytest.mark.parametrize("back_s", [7200.0, 40 * 86400.0])
def test_a_clock_that_is_set_back_keeps_nobody_waiting(bench: Bench, back_s: float) -> None:
    """One probe goes out, its failure counts by the new clock, and so does its answer."""
    for name in ("t1", "t2"):
        _ = bench.add(name)
    _ = closed_by(bench)
    bench.set_back(back_s)
    probe = started(bench)
    assert bench.claim() is None
    bench.clock.step(5)
    _ = bench.ends(probe, OVERLOADED)
    assert bench.claim() is None, "the pause counts again"
    due(bench)
    probe = started(bench)
    bench.detail(probe, text="I begin.")
    bench.follow()
    assert bench.state().trouble is None
    assert bench.claim() is not None


def test_a_limit_noted_by_a_clock_that_is_set_back_keeps_nobody_waiting_for_years(bench: Bench) -> None:
    """No limit counts for more than five weeks."""
    for name in ("t1", "t2"):
        _ = bench.add(name)
    _ = limited(bench, started(bench), 3600)
    bench.set_back(400 * 86400.0)
    _ = limited(bench, started(bench), 3600)
    assert bench.claim() is None, "the new one counts"
    bench.clock.step(3600)
    assert bench.claim() is not None
    assert bench.claim() is None


def test_trouble_is_of_one_machine(bench: Bench) -> None:
    """Another one may reach the service."""
    for name in ("t1", "t2"):
        _ = bench.add(name)
    other = Bench(bench.store, bench.clock, machine="m2")
    _ = closed_by(bench)
    assert bench.claim() is None
    assert other.claim() is not None
    other.close()


def test_an_idle_daemon_wakes_for_the_next_probe(bench: Bench) -> None:
    """And for nothing before it."""
    _ = bench.add("t1")
    _ = closed_by(bench)
    assert bench.claim() is None
    look = bench.store.read(lambda tx: next_check_at(tx, "m1", bench.clock.now()))
    assert look == bench.state().probe_at
    bench.pass_until(bench.clock.now() + timedelta(seconds=29))
    assert bench.claim() is None
    bench.clock.step(1)
    assert bench.claim() is not None


def test_the_reason_says_since_when_and_when_it_is_tried(bench: Bench) -> None:
    for name in ("t1", "t2"):
        _ = bench.add(name)
    _ = closed_by(bench)
    state = bench.state()
    [reason] = bench.why("t2")
    assert (reason.wait, reason.since, reason.until) == (Wait.SERVICE, state.trouble_since, state.probe_at)
    assert reason.detail == "the service of demo:own is overloaded"
    due(bench)
    assert bench.why("t2") == (), "it may start now"
    probe = started(bench)
    [reason] = bench.why("t1")
    assert (reason.wait, reason.until, reason.tasks) == (Wait.SERVICE, None, (probe.task_id,))
