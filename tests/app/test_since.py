"""What happened since a time: runs that were settled, what they cost, the report and the timeline."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from app.stage import NOWHERE, Verbs
from support.records import NOON, add, end, later, make_outcome, make_spec, make_task, reserve

from watchkeeper.app.remove import Remover
from watchkeeper.app.views import cost, settled, timeline
from watchkeeper.app.views.report import report
from watchkeeper.app.views.timeline import timeline as timeline_of
from watchkeeper.domain.cost import CostClass, CostTotal
from watchkeeper.domain.model import EndReason, ExitFact, RunState, TaskState, Usage
from watchkeeper.domain.samples import AGENT, EXIT
from watchkeeper.domain.timeline import OnStep, Span
from watchkeeper.ports.store import Tx

ALL = datetime.min.replace(tzinfo=NOON.tzinfo)
ENDED = frozenset({TaskState.DONE, TaskState.FAILED, TaskState.STOPPED})
TOTAL_GIVEN: ExitFact = replace(EXIT, reason=EndReason.EXITED, status=0)
CUT_OFF: ExitFact = replace(EXIT, reason=EndReason.STOP, status=9)


def ran(
    verbs: Verbs,
    task_id: str,
    seconds: float,
    state: TaskState = TaskState.DONE,
    *,
    spec: dict[str, Any] | None = None,
    **outcome: Any,
) -> None:
    """A task whose run was settled so many seconds after noon."""
    at = later(seconds)

    def work(tx: Tx) -> None:
        run = end(tx, reserve(tx, add(tx, make_task(task_id, spec=make_spec(**(spec or {})), created_at=at))))
        tx.runs.save(replace(run, state=RunState.SETTLED, settled_at=at), run)
        tx.outcomes.add(make_outcome(run, **outcome))
        task = tx.tasks.get(task_id)
        tx.tasks.save(
            replace(task, state=state, run_id=None, ended_at=at if state in ENDED else None, updated_at=at), task
        )
        _ = tx.journal.append("run.settled", at, task_id=task_id, run=run, data={})
        _ = tx.journal.append("task.settled", at, task_id=task_id, data={})

    verbs.store.transact("test", work)


def spent(usd: float | None, exit_fact: ExitFact | None = TOTAL_GIVEN, tokens: int | None = None) -> dict[str, Any]:
    return {"exit": exit_fact, "usage": Usage(input_tokens=tokens, output_tokens=tokens, cost_usd=usd)}


def remove(verbs: Verbs, task_id: str) -> None:
    _ = Remover(store=verbs.store, clock=verbs.clock, runtime=verbs.runtime, machine="m1").remove(task_id, by="me")


def ids(verbs: Verbs, since: datetime | None) -> list[str]:
    return [each.run_id for each in settled.settled(verbs.store, since)]


@pytest.mark.parametrize("page", [1, 2, 3, 1000])
def test_settled_runs_come_newest_first(verbs: Verbs, monkeypatch: pytest.MonkeyPatch, page: int) -> None:
    """However many entries of the journal are read at once, and from the second that is asked for."""
    monkeypatch.setattr(settled, "_PAGE", page)
    assert ids(verbs, None) == []
    for number in range(1, 6):
        ran(verbs, f"t{number}", 10 * number)
    assert ids(verbs, None) == ["t5.1", "t4.1", "t3.1", "t2.1", "t1.1"]
    assert ids(verbs, later(30)) == ["t5.1", "t4.1", "t3.1"]
    assert ids(verbs, later(51)) == []


def test_a_step_of_the_clock_hides_no_run(verbs: Verbs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading continues until a whole page is older."""
    monkeypatch.setattr(settled, "_PAGE", 4)
    for task_id, seconds in (("t1", 10), ("t2", 10), ("t3", 70), ("t4", 10), ("t5", 70)):
        ran(verbs, task_id, seconds)
    assert ids(verbs, later(60)) == ["t5.1", "t3.1"]
    for number in range(6, 9):
        ran(verbs, f"t{number}", 10)
    assert ids(verbs, later(60)) == [], "a whole page is older, so the rest is taken for older"


def test_a_run_comes_with_its_records_while_they_are_there(verbs: Verbs) -> None:
    ran(verbs, "t1", 1, **spent(0.5))
    (found,) = settled.settled(verbs.store, None)
    assert (found.run_id, found.task_id, found.at, found.task, found.run) == (
        "t1.1",
        "t1",
        later(1),
        verbs.task(),
        verbs.run(),
    )
    assert found.outcome is not None and found.outcome.run_id == "t1.1"
    assert (found.cost.known, found.cost.usd) == (CostClass.KNOWN, 0.5)
    remove(verbs, "t1")
    (gone,) = settled.settled(verbs.store, None)
    assert (gone.run_id, gone.task_id, gone.task, gone.run, gone.outcome) == ("t1.1", "t1", None, None, None)
    assert gone.cost.known is CostClass.UNKNOWN


def test_costs_are_added_up_by_what_runs_have_in_common(verbs: Verbs) -> None:
    """The most expensive group first, what was claimed counted in; then the one with more runs, then by name."""
    ran(verbs, "t1", 10, spec={"project": "shop"}, model="m-1", **spent(1.0, tokens=3))
    ran(verbs, "t2", 20, spec={"harness": "demo", "account": "work"}, model="m-2", **spent(2.0, CUT_OFF))
    ran(verbs, "t3", 30, spec={"harness": "demo"}, **spent(None))
    ran(verbs, "t4", 40, spec={"project": "shop"}, model="m-1", **spent(4.0))
    ran(verbs, "t5", 50, **spent(None))
    found = cost.costs(verbs.store, "project", None)
    assert (found.by, found.since, found.oldest) == ("project", None, later(10))
    assert found.groups == (
        ("shop", CostTotal(runs=2, known_usd=5.0, known_runs=2, input_tokens=3, output_tokens=3, without_tokens=1)),
        ("(none)", CostTotal(runs=3, claimed_usd=2.0, claimed_runs=1, unknown_runs=2, without_tokens=3)),
    )
    assert found.all == CostTotal(
        runs=5, known_usd=5.0, known_runs=2, claimed_usd=2.0, claimed_runs=1, unknown_runs=2, input_tokens=3, output_tokens=3, without_tokens=4
    )  # fmt: skip

    def names(by: str, since: datetime | None = None) -> list[str]:
        return [name for name, _ in cost.costs(verbs.store, by, since).groups]

    assert names("task") == ["t4", "t2", "t1", "t3", "t5"]
    assert names("harness") == ["command", "demo"]
    assert names("account") == ["command:own", "demo:work", "demo:own"]
    assert names("model") == ["m-1", "m-2", "(unknown)"]
    assert names("task", later(30)) == ["t4", "t3", "t5"]
    assert names("harness", later(30)) == ["command", "demo"]
    assert cost.costs(verbs.store, "task", later(30)).oldest == later(30)
    remove(verbs, "t4")
    assert names("harness") == ["demo", "command", "(removed)"]
    assert names("account") == ["demo:work", "command:own", "(removed)", "demo:own"]
    assert names("project") == ["(none)", "shop", "(removed)"]
    assert names("model") == ["m-2", "m-1", "(unknown)"]
    nothing = cost.costs(verbs.store, "task", later(99))
    assert (nothing.groups, nothing.oldest, nothing.since, nothing.all) == ((), None, later(99), CostTotal())


def test_days_are_in_order(verbs: Verbs) -> None:
    """Whatever they cost, and by the local time zone."""
    ran(verbs, "t1", 0, **spent(1.0))
    ran(verbs, "t2", 86400, **spent(9.0))
    ran(verbs, "t3", 2 * 86400, **spent(2.0))
    days = [(NOON + timedelta(days=each)).astimezone().date().isoformat() for each in range(3)]
    assert [name for name, _ in cost.costs(verbs.store, "day", None).groups] == days


def test_a_report_has_every_task_once_by_its_state_now(verbs: Verbs) -> None:
    """What ended since, all that needs a person, all that is active; each list in the order of time."""
    ran(verbs, "old", 5)
    ran(verbs, "asks-long", 6, TaskState.NEEDS_INPUT, text="Which?")
    ran(verbs, "d2", 30, text="Second.", **spent(2.0))
    ran(verbs, "d1", 20, text="First.", **spent(1.0))
    ran(verbs, "f", 21, TaskState.FAILED, text="No.")
    ran(verbs, "s", 22, TaskState.STOPPED)
    ran(verbs, "asks", 23, TaskState.NEEDS_INPUT, text="What?")
    ran(verbs, "again", 24, TaskState.QUEUED, text="Busy.")
    ran(verbs, "gone", 25, **spent(4.0))
    remove(verbs, "gone")
    _ = verbs.held("held")
    _ = verbs.prepared("works")
    found = report(verbs.store, lambda: verbs.runtime, later(20), later(60))
    assert (found.since, found.now) == (later(20), later(60))

    def in_list(name: str) -> list[tuple[str, str]]:
        return [(each.row.task.id, each.text) for each in getattr(found, name)]

    assert in_list("done") == [("d1", "First."), ("d2", "Second.")]
    assert sorted(in_list("needs_you")) == [("asks", "What?"), ("asks-long", ""), ("held", "")]
    assert in_list("failed") == [("f", "No.")]
    assert in_list("stopped") == [("s", "")]
    assert sorted(in_list("active")) == [("again", "Busy."), ("works", "")]
    assert found.removed == 1
    assert [each.cost.known_usd for each in found.done] == [1.0, 2.0]
    assert (found.cost.runs, found.cost.known_usd, found.cost.unknown_runs) == (7, 3.0, 1), "the removed one is counted"


def test_the_newest_run_of_a_task_is_told(verbs: Verbs) -> None:
    """And what all its runs cost together."""
    ran(verbs, "t1", 10, TaskState.QUEUED, text="Busy.", **spent(1.0))

    def work(tx: Tx) -> None:
        run = end(tx, reserve(tx, tx.tasks.get("t1")))
        tx.runs.save(replace(run, state=RunState.SETTLED, settled_at=later(20)), run)
        tx.outcomes.add(make_outcome(run, text="Did it.", **spent(2.0)))
        task = tx.tasks.get("t1")
        tx.tasks.save(replace(task, state=TaskState.DONE, run_id=None, ended_at=later(20)), task)
        _ = tx.journal.append("run.settled", later(20), task_id="t1", run=run, data={})

    verbs.store.transact("test", work)
    (row,) = report(verbs.store, lambda: verbs.runtime, ALL, later(60)).done
    assert (row.text, row.cost.runs, row.cost.known_usd) == ("Did it.", 2, 3.0)


def test_a_timeline_has_what_was_active_since(verbs: Verbs, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of handing over, the newest of them where there is no room for all."""
    monkeypatch.setattr(timeline, "_PAGE", 2)
    now = later(100)
    for task_id, created in (("t3", 30), ("t1", 10), ("t2", 20), ("t0", 30)):
        task = make_task(task_id, created_at=later(created))
        _ = verbs.store.transact("test", lambda tx, task=task: add(tx, task))
    ran(verbs, "over", 5)
    found = timeline_of(verbs.store, later(15), now, 9)
    assert [row.task.id for row in found.rows] == ["t1", "t2", "t0", "t3"]
    assert (found.start, found.end, found.left_out, found.at_once) == (later(15), now, 0, 0)
    fewer = timeline_of(verbs.store, later(6), now, 2)
    assert ([row.task.id for row in fewer.rows], fewer.left_out, fewer.start) == (["t0", "t3"], 2, later(30))
    nothing = timeline_of(verbs.store, now, now, 9)
    assert (nothing.rows, nothing.start, nothing.end, nothing.left_out) == ((), now, now, 0)
    later_than_now = timeline_of(verbs.store, later(200), now, 9)
    assert (later_than_now.start, later_than_now.end) == (later(200), later(200))


def test_a_task_that_was_removed_is_not_in_the_timeline(verbs: Verbs) -> None:
    ran(verbs, "t1", 10)
    _ = verbs.store.transact("test", lambda tx: add(tx, make_task("t2")))
    remove(verbs, "t1")
    assert [row.task.id for row in timeline_of(verbs.store, ALL, later(60), 9).rows] == ["t2"]


def test_the_life_of_a_task_is_cut_where_something_was_announced(verbs: Verbs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where it waits for another reason, or for none; two agents at the same time are counted."""
    monkeypatch.setattr(timeline, "_PAGE", 2)

    def work(tx: Tx) -> None:
        _ = add(tx, make_task("t1"))
        for seconds, kind, data in (
            (10, "task.waiting", {"wait": "paused"}), (15, "task.renamed", {"wait": "no"}), (20, "task.ready", {"wait": "no"}), (25, "task.waiting", {}),
        ):  # fmt: skip
            _ = tx.journal.append(kind, later(seconds), task_id="t1", data=dict(data))
        for task_id in ("t2", "t3"):
            run = reserve(tx, add(tx, make_task(task_id)))
            tx.runs.save(
                replace(run, state=RunState.RUNNING, directory=NOWHERE, agent=replace(AGENT, started_at=later(5))), run
            )

    verbs.store.transact("test", work)
    found = timeline_of(verbs.store, NOON, later(40), 9)
    assert found.rows[0].spans == tuple(
        Span(on_step=OnStep.WAITING, start=later(start), end=later(until), why=why)
        for start, until, why in ((0, 10, ""), (10, 20, "paused"), (20, 25, ""), (25, 40, ""))
    )
    assert [[(span.on_step, span.start, span.end) for span in row.spans] for row in found.rows[1:]] == [
        [(OnStep.STARTING, NOON, later(5)), (OnStep.WORKING, later(5), later(40))]
    ] * 2
    assert (found.at_once, found.start, found.end) == (2, NOON, later(40))
