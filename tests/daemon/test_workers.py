"""Work of runs beside each other: bounded, never twice at once, abandoned when it takes too long."""

import threading
from collections.abc import Callable, Iterator

import pytest
from support.waiting import wait_until

from watchkeeper.daemon import workers as module
from watchkeeper.daemon.workers import LATE_S, Workers


class Stage:
    """Works that wait until they are let go, and a clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.gates: dict[str, threading.Event] = {}
        self.begun: list[str] = []
        self.told = threading.Semaphore(0)
        self.workers: Workers[str] = Workers(
            "test", lambda _more: self.told.release(), detail="It has been worked on", abandon_s=30.0, most=2,
            apart="Another process has worked on it", now_s=lambda: self.now_s,
        )  # fmt: skip

    def offer(self, run_id: str) -> bool:
        gate = self.gates.setdefault(run_id, threading.Event())

        def work() -> str:
            self.begun.append(run_id)
            assert gate.wait(20)
            return f"{run_id} is done"

        return self.workers.offer(run_id, work)

    def fail(self, run_id: str) -> bool:
        def work() -> str:
            raise ValueError(run_id)

        return self.workers.offer(run_id, work)

    def let_go(self, run_id: str) -> None:
        self.gates.pop(run_id).set()
        assert self.told.acquire(timeout=20)


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    for gate in made.gates.values():
        gate.set()
    assert made.workers.wait(20)


def test_never_two_of_one_run_and_never_more_than_there_is_room_for(stage: Stage) -> None:
    assert stage.offer("a") and not stage.offer("a")
    assert stage.offer("b") and not stage.offer("c")
    stage.let_go("a")
    assert not stage.offer("a"), "its result may change what is to be done"
    assert stage.offer("c")
    assert stage.workers.collect().results == {"a": "a is done"}
    assert stage.workers.collect().results == {}
    stage.let_go("b")
    assert stage.offer("a"), "and then it may be worked on again"


def test_one_that_waits_for_another_process_leaves_its_room_to_others(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop hears of it. There is a bound to these, too."""
    monkeypatch.setattr(module, "MOST_APART", 3)
    for run_id in "abc":
        assert stage.offer(run_id)
        stage.workers.on_step(run_id, "Another process has worked on it", "/there")
        assert stage.told.acquire(timeout=20)
    assert not stage.offer("d")
    stage.workers.on_step("a")
    assert stage.offer("d") and not stage.offer("e"), "one that works again takes its room again"


def test_one_that_takes_too_long_takes_no_more_room_and_its_result_is_used(stage: Stage) -> None:
    assert stage.offer("hung") and stage.offer("too")
    assert not stage.offer("c")
    stage.now_s += 30
    assert stage.offer("c") and stage.offer("d") and not stage.offer("e")
    assert not stage.offer("hung"), "nothing is begun for it while it is at work"
    stage.let_go("hung")
    assert stage.workers.collect().results == {"hung": "hung is done"}


def test_threads_that_hang_are_bounded(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ABANDONED", 2)
    assert stage.offer("a") and stage.offer("b")
    stage.now_s += 30
    assert not stage.offer("c")
    stage.let_go("a")
    assert stage.offer("c")


def test_what_takes_long_is_told_once_and_what_for(stage: Stage) -> None:
    assert stage.offer("a") and stage.offer("b")
    stage.workers.on_step("b", "Its working directory has not answered", "/mnt/dead")
    assert stage.workers.due_s == pytest.approx(LATE_S)
    assert stage.workers.late() == []
    stage.now_s += LATE_S
    assert {late.run_id: late.detail for late in stage.workers.late()} == {
        "a": "It has been worked on for 5 s and more.",
        "b": "Its working directory has not answered for 5 s and more: /mnt/dead",
    }
    assert stage.workers.late() == []
    assert stage.workers.due_s == pytest.approx(30 - LATE_S), "when they are abandoned there is room"


def test_one_that_fails_rests_ever_longer_and_keeps_no_other_from_working(stage: Stage) -> None:
    waits: list[float] = []
    for _ in range(4):
        assert stage.fail("bad")
        assert stage.told.acquire(timeout=20)
        (problem,) = stage.workers.collect().problems.values()
        assert str(problem) == "bad"
        assert not stage.fail("bad")
        assert stage.offer("good")
        stage.let_go("good")
        _ = stage.workers.collect()
        waits.append(stage.workers.due_s or 0.0)
        stage.now_s += waits[-1]
    assert waits == sorted(set(waits))
    stage.workers.rouse()
    assert stage.fail("bad"), "a rest is over in the end"
    assert stage.told.acquire(timeout=20)
    _ = stage.workers.collect()
    stage.workers.forget_all_but(set())
    assert stage.workers.due_s is None


def test_one_that_has_to_wait_is_roused_when_something_happens(stage: Stage) -> None:
    stage.workers.rest("a", 1.0)
    assert not stage.offer("a")
    stage.workers.rouse()
    assert stage.offer("a")


def test_what_is_heard_during_a_work_is_not_slept_over(stage: Stage) -> None:
    """A shim's last word may come after the work has looked for it: then the run is looked at again at once."""
    assert stage.offer("a")
    stage.workers.rouse()
    stage.let_go("a")
    _ = stage.workers.collect()
    stage.workers.rest("a", 1.0)
    assert stage.offer("a")
    stage.let_go("a")
    _ = stage.workers.collect()
    stage.workers.rest("a", 1.0)
    assert not stage.offer("a"), "nothing was heard this time"


def test_nothing_keeps_the_process_alive(stage: Stage) -> None:
    assert stage.offer("a")
    wait_until(lambda: stage.begun == ["a"], within_s=10, what="it is at work")
    names: Callable[[], list[threading.Thread]] = lambda: [t for t in threading.enumerate() if t.name == "wk-test-a"]  # noqa: E731
    assert [thread.daemon for thread in names()] == [True]
