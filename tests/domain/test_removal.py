"""Every reason against a removal is given, and none is made up."""

from dataclasses import replace

import pytest
from support.records import NOON, make_run, make_task

from watchkeeper.domain.model import DirectoryIdentity, Proof, Run, RunState, TaskState
from watchkeeper.domain.removal import ObstacleKind, alive, obstacles
from watchkeeper.domain.waiting import Dependency

K = ObstacleKind
DONE = make_task(state=TaskState.DONE, ended_at=NOON)
PLACE = DirectoryIdentity(device=1, inode=2)


def settled(proof: Proof | None, number: int = 1, directory: DirectoryIdentity | None = PLACE) -> Run:
    """A run that is over."""
    run = make_run(make_task(), number, directory=directory, proof=proof)
    return replace(run, number=number, state=RunState.SETTLED, settled_at=NOON)


def kinds(*args, **more) -> list[ObstacleKind]:
    return [each.kind for each in obstacles(*args, **more)]


def test_an_ended_task_whose_ends_are_proven_may_go() -> None:
    runs = [settled(Proof.PROVEN), settled(None, 2, directory=None)]
    assert kinds(DONE, runs, [Dependency(task_id="t2", state=TaskState.QUEUED)]) == [K.AWAITED]
    assert kinds(DONE, runs, []) == []


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        (TaskState.QUEUED, K.QUEUED),
        (TaskState.RUNNING, K.RUNNING),
        (TaskState.NEEDS_INPUT, K.NEEDS_INPUT),
        (TaskState.HELD, K.HELD),
    ],
)
def test_what_has_not_ended_stays(state: TaskState, kind: ObstacleKind) -> None:
    """Whatever a person's word is on what may be alive."""
    for trusting in (False, True):
        assert kinds(make_task(state=state), [settled(Proof.UNPROVEN)], [], trusting=trusting) == [kind]


@pytest.mark.parametrize("proof", [Proof.SWEPT, Proof.UNPROVEN, None])
def test_what_is_not_proven_to_have_ended_needs_a_persons_word(proof: Proof | None) -> None:
    runs = [settled(Proof.PROVEN), settled(proof, 2), settled(proof, 3)]
    found = obstacles(DONE, runs, [])
    assert [each.kind for each in found] == [K.UNPROVEN, K.UNPROVEN]
    assert [word for word in ("run 2", "run 3") if any(word in each.detail for each in found)] == ["run 2", "run 3"]
    assert kinds(DONE, runs, [], trusting=True) == []


@pytest.mark.parametrize(
    ("state", "dependent", "stays"),
    [
        (TaskState.DONE, TaskState.QUEUED, True),
        (TaskState.DONE, TaskState.HELD, True),
        (TaskState.DONE, TaskState.FAILED, False),
        (TaskState.DONE, TaskState.DONE, False),
        (TaskState.FAILED, TaskState.QUEUED, True),
        (TaskState.FAILED, TaskState.STOPPED, True),  # `wk retry` of it would find nothing to wait for
        (TaskState.FAILED, TaskState.DONE, False),
    ],
)
def test_what_others_wait_for_stays(state: TaskState, dependent: TaskState, stays: bool) -> None:
    found = kinds(replace(DONE, state=state), [], [Dependency(task_id="t2", state=dependent)])
    assert found == ([K.AWAITED] if stays else [])


def test_every_reason_is_told_with_what_takes_it_away() -> None:
    task = replace(DONE, state=TaskState.FAILED, pinned_at=NOON)
    found = obstacles(task, [settled(Proof.SWEPT)], [Dependency(task_id="t2", state=TaskState.QUEUED)])
    assert [each.kind for each in found] == [K.UNPROVEN, K.AWAITED, K.PINNED]
    assert all(each.detail and each.hint.endswith(".") for each in found)


@pytest.mark.parametrize(
    ("state", "detail", "hint"),
    [
        (TaskState.QUEUED, "it is in the queue", "`wk cancel t1` takes it out."),
        (TaskState.RUNNING, "it is running", "`wk stop t1` ends it."),
        (TaskState.NEEDS_INPUT, "it waits for you", "`wk stop t1` gives it up."),
    ],
)
def test_a_task_that_is_open_is_named_with_the_command_that_ends_it(state: TaskState, detail: str, hint: str) -> None:
    (found,) = obstacles(make_task(state=state), [], [])
    assert (found.detail, found.hint) == (detail, hint)


def test_what_was_seen_alive_is_named_with_the_command_that_ends_it() -> None:
    found = alive(settled(Proof.UNPROVEN, 2), "the agent (pid 7)")
    assert (found.kind, found.detail) == (K.ALIVE, "the agent (pid 7) of run 2 is alive")
    assert found.hint == "`wk kill t1` ends it."


def test_a_pin_and_a_doubt_say_what_takes_them_away() -> None:
    doubt, pin = obstacles(replace(DONE, pinned_at=NOON), [settled(Proof.SWEPT)], [])
    assert (pin.detail, pin.hint) == ("it is pinned", "`wk unpin t1` lets it go.")
    assert doubt.hint == "Look for it; --force removes it on your word."
