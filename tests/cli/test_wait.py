"""`wk wait`, `run --wait`, `run --follow`, `logs -f`: they end when nothing more happens unless a person acts, and say why."""

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from watchkeeper.cli import daemon, task_rest
from watchkeeper.domain.account import SignIn, SignInSeen
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.lanes import HarnessState
from watchkeeper.domain.model import TaskState
from watchkeeper.domain.wait import Wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.cli import Wk


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for longer than it takes to look twice."""
    for name in ("_LOOK_S", "_STEADY_S", "_ALONE_S"):
        monkeypatch.setattr(task_rest, name, 0.0)


@pytest.fixture
def acts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon runs, as far as commands can tell."""
    monkeypatch.setattr(daemon, "is_there", lambda _call: True)


def _paused(wk: "Wk") -> str:
    task_id = wk.add()
    assert wk("queue", "pause").code == 0
    return task_id


def _failed_dependency(wk: "Wk") -> str:
    first = wk.add()
    wk.become(first, TaskState.FAILED)
    return wk.add("do it", "--after", first)


def _chain(wk: "Wk") -> str:
    return wk.add("do it", "--after", _failed_dependency(wk))


def _signed_out(wk: "Wk") -> str:
    task_id = wk.add()
    seen = SignInSeen(sign_in=SignIn.OUT, at=wk.parts.clock.now())
    wk.parts.store.transact("test", lambda tx: tx.accounts.observe("demo:own", wk.parts.state.node(), seen))
    return task_id


def _missing(wk: "Wk") -> str:
    task_id = wk.add()
    state = HarnessState(
        harness="demo", machine=wk.parts.state.node(), present=False, detail="it is gone", at=wk.parts.clock.now()
    )
    wk.parts.store.transact("test", lambda tx: tx.accounts.record_harness(state))
    return task_id


def _paused_and_put_off(wk: "Wk") -> str:
    task_id = wk.add("do it", "--not-before", "+2h")
    assert wk("queue", "pause", "--harness", "demo").code == 0
    return task_id


STUCK: list[tuple["Callable[[Wk], str]", str, str]] = [
    (_paused, "paused", "wk queue resume"),
    (_failed_dependency, "dependency", "wk retry"),
    (_chain, "dependency", "which waits: task"),
    (_signed_out, "signed out", "wk account login demo:own"),
    (_missing, "harness missing", "it is gone"),
    (_paused_and_put_off, "paused", "harness demo is paused"),
]


@pytest.mark.usefixtures("acts")
@pytest.mark.parametrize(("make", "word", "detail"), STUCK, ids=[case[0].__name__ for case in STUCK])
def test_a_wait_ends_when_only_a_person_can_bring_the_task_on(
    wk: "Wk", make: "Callable[[Wk], str]", word: str, detail: str
) -> None:
    """With the code for that, and the reason in words and as JSON; the timeout is there for the old behaviour alone."""
    task_id = make(wk)
    answer = wk("wait", "--timeout", "20", task_id)
    assert answer.code == 10, answer
    assert answer.out.startswith(f"{task_id}  waits for you: {word}: ") and detail in answer.out, answer.out
    row = wk("wait", "--timeout", "20", "--json", task_id).json[0]
    assert row["standstill"]["wait"] == word and detail in row["standstill"]["detail"]
    followed = wk("logs", "-f", task_id)
    assert followed.code == 0 and f"{task_id}  waits for you: {word}" in followed.err


@pytest.mark.usefixtures("acts")
@pytest.mark.parametrize("how", ["--wait", "--follow"])
def test_a_run_that_is_stayed_with_ends_likewise(wk: "Wk", how: str) -> None:
    wk.add()
    assert wk("queue", "pause").code == 0
    answer = wk("run", "--harness", "demo", how, "do it")
    assert answer.code == 10 and "waits for you: paused: the queue is paused" in answer.out
    last = wk("run", "--harness", "demo", how, "--json", "do it").lines[-1]
    assert last["standstill"]["wait"] == "paused" and last["state"] == "queued"


@pytest.mark.parametrize("verb", [("wait",), ("logs", "-f")], ids=" ".join)
def test_a_wait_without_a_daemon_ends(wk: "Wk", verb: tuple[str, ...]) -> None:
    """Queued or claimed and never launched: no daemon is there to bring it on."""
    first = wk.add()
    wk.claim()
    for task_id in (first, wk.add()):
        answer = wk(*verb, task_id)
        assert answer.code == (7 if verb == ("wait",) else 0), answer
        assert f"{task_id}  waits for a daemon: no daemon runs" in answer.out + answer.err
        assert "wk daemon start" in answer.out + answer.err
    assert wk("wait", "--json", first).json[0]["standstill"] == {
        "wait": None, "detail": "no daemon runs that could start or settle it",
    }  # fmt: skip


@pytest.mark.usefixtures("acts")
def test_of_several_all_must_be_stuck(wk: "Wk") -> None:
    """One that waits for a time continues by itself, so the wait lasts until its own timeout."""
    stuck = _failed_dependency(wk)
    put_off = wk.add("do it", "--not-before", "+2h")
    answer = wk("wait", "--timeout", "0.3", stuck, put_off)
    assert (answer.code, answer.out) == (12, "") and "2 tasks have not come to rest" in answer.err
    done = wk.add()
    wk.become(done, TaskState.DONE)
    answer = wk("wait", "--timeout", "20", stuck, done)
    assert answer.code == 10 and [line[:8] for line in answer.out.splitlines()] == [stuck, done]


@pytest.mark.usefixtures("acts")
@pytest.mark.parametrize("changes", [
    {"wake_for": Wait.QUOTA_UNTIL, "kind": FailureKind.QUOTA}, {"wake_for": Wait.RETRY_AT}, {"wake_for": Wait.NOT_BEFORE},
])  # fmt: skip
def test_a_time_is_waited_for(wk: "Wk", changes: dict[str, object]) -> None:
    task_id = wk.add()
    wk.become(task_id, TaskState.QUEUED, wake_at=wk.parts.clock.now() + timedelta(hours=1), **changes)
    assert wk("wait", "--timeout", "0.3", task_id).code == 12


@pytest.mark.usefixtures("acts")
def test_a_pause_that_is_lifted_ends_no_wait(wk: "Wk", monkeypatch: pytest.MonkeyPatch) -> None:
    """What keeps a task for a moment only is not told."""
    task_id = _paused(wk)
    monkeypatch.setattr(task_rest, "_STEADY_S", 3600.0)
    assert wk("wait", "--timeout", "0.3", task_id).code == 12


@pytest.mark.usefixtures("acts")
def test_a_task_that_is_removed_is_not_waited_for(wk: "Wk", monkeypatch: pytest.MonkeyPatch) -> None:
    """One that had come to rest before counts as that."""
    rested, other = wk.add(), wk.add()
    wk.become(rested, TaskState.DONE)
    load = task_rest.load

    def then_remove(store, task_ids):
        found = load(store, task_ids)
        if len(task_ids) == 2 and store.read(lambda tx: tx.tasks.ids_like(rested, 1)):
            assert wk("rm", rested).code == 0
            wk.become(other, TaskState.STOPPED)
        return found

    monkeypatch.setattr(task_rest, "load", then_remove)
    answer = wk("wait", "--timeout", "20", rested, other, "--json")
    assert answer.code == 11, answer
    assert [(row["id"], row["state"], row["removed"]) for row in json.loads(answer.out)] == [
        (rested, "done", False), (other, "stopped", False),
    ]  # fmt: skip


@pytest.mark.usefixtures("acts")
def test_a_removed_task_ends_its_wait(wk: "Wk", monkeypatch: pytest.MonkeyPatch) -> None:
    task_id = wk.add()
    load = task_rest.load

    def then_remove(store, task_ids):
        found = load(store, task_ids)
        if store.read(lambda tx: tx.tasks.ids_like(task_id, 1)):
            wk.become(task_id, TaskState.DONE)
            assert wk("rm", task_id).code == 0
        return found

    monkeypatch.setattr(task_rest, "load", then_remove)
    answer = wk("wait", "--timeout", "20", task_id)
    assert (answer.code, answer.out) == (3, f"{task_id}  was removed\n")
