"""The word and the sentence by which lists describe a task: at rest, at work here, and at work on another machine."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from app.stage import Verbs
from support.records import NOON, later, make_run, make_task

from watchkeeper.app.views import live, whereabouts
from watchkeeper.app.views.brief import Brief, from_facts
from watchkeeper.app.views.health import health
from watchkeeper.app.views.standing import standing
from watchkeeper.app.views.whereabouts import Whereabouts, of_machine
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.lanes import QueueRule
from watchkeeper.domain.model import Run, RunState, StopHow, StopRequest, TaskState
from watchkeeper.domain.samples import AGENT, EXIT
from watchkeeper.domain.wait import BriefWait, Wait
from watchkeeper.ports.stored import MachineRecord

STOP = StopRequest(how=StopHow.KILL, by="ada", at=NOON)
TASK = make_task("t1", state=TaskState.RUNNING, run_id="t1.1")
STARTING = (RunState.RESERVED, RunState.PREPARED, RunState.STARTING)


def run(state: RunState, **given: Any) -> Run:
    return make_run(make_task("t1"), 7, state=state, **given)


@pytest.mark.parametrize(
    ("state", "word"),
    [(TaskState.QUEUED, "queued"), (TaskState.NEEDS_INPUT, "needs you"), (TaskState.HELD, "held"), (TaskState.DONE, "done"),
     (TaskState.FAILED, "failed"), (TaskState.STOPPED, "stopped"), (TaskState.RUNNING, "starting")],
)  # fmt: skip
def test_a_task_at_rest_is_what_its_row_says(state: TaskState, word: str) -> None:
    """So is one whose run is settled already."""
    task = make_task("t1", state=state, reason="So it is.")
    assert standing(task, None, None) == (word, "So it is.", None, None)
    assert standing(task, run(RunState.SETTLED), None) == (word, "So it is.", None, None)


@pytest.mark.parametrize(
    ("state", "given", "word", "why"),
    [
        *[(state, {}, "starting", "") for state in STARTING],
        (RunState.RUNNING, {}, "running", ""),
        (RunState.RUNNING, {"answered_at": NOON}, "running", "answered, still running"),
        (RunState.RUNNING, {"stalled_since": NOON}, "running", "no progress"),
        (RunState.RUNNING, {"answered_at": NOON, "stalled_since": NOON}, "running", "answered, still running"),
        (RunState.STARTING, {"stalled_since": NOON}, "starting", ""),
        (RunState.ENDED, {}, "ending", ""),
        (RunState.ENDED, {"reason": "It was lost."}, "ending", ""),
        (RunState.ENDED, {"reason": "Git is slow.", "exit": EXIT}, "ending", "Git is slow."),
        (RunState.RESERVED, {"reason": "Its directory is slow."}, "starting", "Its directory is slow."),
        (RunState.PREPARED, {"reason": "No."}, "starting", ""),
        (RunState.RUNNING, {"stop_failed": "No answer."}, "stop failed", "No answer."),
    ],
)  # fmt: skip
def test_a_live_run_without_evidence_is_what_is_recorded(
    state: RunState, given: dict[str, Any], word: str, why: str
) -> None:
    assert standing(TASK, run(state, **given), None) == (word, why, None, None)


@pytest.mark.parametrize("state", [*STARTING, RunState.RUNNING])
def test_a_stop_is_told_while_the_agent_may_live(state: RunState) -> None:
    stopped = replace(TASK, stop=STOP)
    why = "ada told it to kill."
    assert standing(stopped, run(state), None)[:2] == ("stopping", why)
    assert standing(stopped, run(RunState.ENDED), None)[:2] == ("ending", "")
    held = replace(stopped, state=TaskState.HELD, reason="It is missing.")
    assert standing(held, run(RunState.HELD), None)[:2] == ("held", "It is missing.")


def test_evidence_counts_more_than_the_record(verbs: Verbs) -> None:
    """A run that is recorded as prepared lives, ends, and cannot be read."""
    launched = verbs.launched()
    task, directories = verbs.task(), verbs.directories()
    directories.hold(launched)
    directories.decide(launched)
    directories.agent(launched)
    found = standing(task, launched, verbs.runtime)
    assert (found.word, found.why) == ("running", "")
    assert found.evidence is not None and found.verdict is not None
    directories.close()
    directories.exit(launched)
    directories.gone(launched)
    assert standing(task, launched, verbs.runtime).word == "ending"


def test_evidence_that_cannot_be_read_is_unknown(verbs: Verbs, monkeypatch: pytest.MonkeyPatch) -> None:
    launched = verbs.launched()

    def observe(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(verbs.runtime, "observe", observe)
    found = standing(verbs.task(), launched, verbs.runtime)
    assert found == ("unknown", "The evidence cannot be read: Input/output error.", None, None)
    assert standing(verbs.task(), replace(launched, state=RunState.ENDED), verbs.runtime)[:2] == ("ending", "")


def machine(until: datetime | None, name: str = "ant") -> MachineRecord:
    return MachineRecord(id="m7", incarnation=1, boot_id="b", started_at=NOON, name=name, lease_until=until)


def test_a_machine_is_reachable_until_its_lease_ends() -> None:
    assert of_machine(machine(later(1)), NOON) == ("m7", "ant", True, later(1))
    assert of_machine(machine(NOON), NOON) == ("m7", "ant", False, NOON)
    assert of_machine(machine(None, ""), NOON) == ("m7", "m7", False, None)
    assert of_machine(machine(later(1)), NOON).detail == "on ant"
    assert of_machine(machine(NOON), NOON).detail == "on ant, unreachable since 2026-03-01 12:00 UTC"
    assert of_machine(machine(None), NOON).detail == "on ant, unreachable"


THERE = Whereabouts(machine="m7", name="ant", reachable=True, since=later(9))


@pytest.mark.parametrize(
    ("state", "word"),
    [*((state, "starting") for state in STARTING), (RunState.RUNNING, "running"), (RunState.ENDED, "ending")],
)
def test_a_run_on_another_machine_is_what_is_recorded_there(state: RunState, word: str) -> None:
    assert whereabouts.observe(TASK, run(state), THERE) == (word, "on ant", None, None)
    stopped = whereabouts.observe(replace(TASK, stop=STOP), run(state), THERE)
    said = (
        ("ending", "on ant", None, None)
        if word == "ending"
        else ("stopping", "on ant; ada told it to kill.", None, None)
    )
    assert stopped == said
    gone = THERE._replace(reachable=False, since=None)
    assert whereabouts.observe(TASK, run(state), gone) == ("unreachable", "on ant, unreachable", None, None)


def test_a_held_and_a_settled_run_on_another_machine() -> None:
    held = replace(TASK, state=TaskState.HELD, reason="It is missing.", stop=STOP)
    assert whereabouts.observe(held, run(RunState.HELD), THERE) == ("held", "on ant: It is missing.", None, None)
    assert whereabouts.observe(TASK, run(RunState.SETTLED), THERE) is None


def test_only_a_run_of_another_machine_is_elsewhere(verbs: Verbs) -> None:
    """Without a runtime there is no here."""
    own, other = run(RunState.RUNNING, machine=verbs.runtime.machine), run(RunState.RUNNING, machine="m7")
    assert whereabouts.elsewhere(other, THERE, verbs.runtime) == THERE
    assert whereabouts.elsewhere(own, THERE, verbs.runtime) is None
    assert whereabouts.elsewhere(other, None, verbs.runtime) is None
    assert whereabouts.elsewhere(other, THERE, None) is None
    assert live.observe(TASK, other, verbs.runtime, THERE) == ("running", "on ant", None, None)


KNOWN = BriefWait(ready=True, unmet=0, on=None, on_state=None, blocked=False, holder=None, lane_announced=None)
WAITS = make_task("t1", wake_at=later(5), wake_for=Wait.RETRY_AT, reason="It was busy.")


@pytest.mark.parametrize(
    ("known", "found"),
    [
        ({}, None),
        ({"torn": "x", "unmet": 1}, Brief("record torn", "wk store repair")),
        ({"unmet": 1, "on": "t8", "on_state": "running", "ready": False}, Brief("dependency", "task t8")),
        ({"unmet": 2, "on": "t8", "on_state": "running"}, Brief("dependency", "task t8 and 1 more")),
        ({"unmet": 3, "on": "t8", "on_state": "failed"}, Brief("dependency", "task t8 failed and 2 more")),
        ({"unmet": 1, "on": "t8", "on_state": "stopped"}, Brief("dependency", "task t8 stopped")),
        ({"ready": False, "holder": "t8"}, Brief("retry at", "It was busy.")),
        ({"holder": "t8", "lane_announced": "limit"}, Brief("checkout busy", "task t8")),
        ({"blocked": True}, Brief("checkout busy", "")),
        ({"lane_announced": "limit"}, Brief("limit", "")),
    ],
)
def test_a_list_tells_the_first_reason(known: dict[str, Any], found: Brief | None) -> None:
    assert from_facts(WAITS, KNOWN._replace(**known)) == found


def test_a_task_that_waits_for_no_time_is_told_the_rest() -> None:
    assert from_facts(make_task(), KNOWN._replace(ready=False, lane_announced="paused")) == Brief("paused", "")


def test_health_counts_what_is_there(verbs: Verbs) -> None:
    """What could not be stopped is first, then what needs a person; the newest failures that a person has not seen are named."""
    assert health(verbs.store, lambda: verbs.runtime) == replace(
        health(verbs.store, lambda: verbs.runtime),
        counts={},
        live_runs=0,
        outbox_pending=0,
        needs_you=(),
        waits={},
        paused=(),
    )
    running = verbs.prepared("t1")
    answered = replace(
        running, state=RunState.RUNNING, agent=AGENT, answered_at=NOON, stalled_since=NOON, stop_failed="No answer."
    )
    verbs.store.transact("test", lambda tx: tx.runs.save(answered, running))
    for task in (
        make_task("t2", state=TaskState.NEEDS_INPUT, kind=FailureKind.ASKED, reason="Which?"),
        make_task("t3", state=TaskState.FAILED, ended_at=NOON),
        make_task("t4", state=TaskState.FAILED, ended_at=NOON, seen_at=NOON),
        make_task("t5", wake_at=later(1e9), wake_for=Wait.NOT_BEFORE),
    ):
        verbs.store.transact("test", lambda tx, each=task: tx.tasks.add(each))
    _ = verbs.store.transact("test", lambda tx: tx.rules.put(QueueRule(scope="harness", name="claude", paused=True)))
    _ = verbs.store.transact("test", lambda tx: tx.rules.put(QueueRule(scope="all", name="", max_running=1)))
    found = health(verbs.store, lambda: verbs.runtime)
    states = TaskState.RUNNING, TaskState.NEEDS_INPUT, TaskState.FAILED, TaskState.QUEUED
    assert found.counts == dict(zip(states, (1, 1, 2, 1), strict=True))
    assert [row.task.id for row in found.needs_you] == ["t1", "t2", "t3"]
    assert found.needs_you[0].standing[:2] == ("stop failed", "No answer.")
    assert (found.live_runs, [each.id for each in found.answered], [each.id for each in found.stalled]) == (
        1,
        ["t1.1"],
        ["t1.1"],
    )
    assert (found.paused, found.waits, found.more) == (("harness claude",), {"not before": 1}, False)
    assert found.outbox_pending == verbs.pending() == 1 and found.waiting_for_a_daemon() == 2
    assert found.journal_last == verbs.store.read(lambda tx: tx.journal.last()) > 0


def test_health_names_so_many_and_says_that_there_are_more(verbs: Verbs) -> None:
    for number in range(21):
        task = make_task(f"t{number}", state=TaskState.NEEDS_INPUT, reason="Which?")
        verbs.store.transact("test", lambda tx, each=task: tx.tasks.add(each))
    found = health(verbs.store, lambda: verbs.runtime)
    assert len(found.needs_you) == 20 and found.more
    everything = health(verbs.store, lambda: verbs.runtime, everything=True)
    assert [row.task.id for row in everything.needs_you] == [
        f"t{number}" for number in range(21)
    ] and not everything.more
