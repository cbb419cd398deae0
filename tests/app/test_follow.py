"""Following what agents print: each for itself."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from app.stage import Verbs

from watchkeeper.app import read_output
from watchkeeper.app.follow import Followers
from watchkeeper.domain.model import Run, RunState
from watchkeeper.harnesses.registry import get_harness
from watchkeeper.ports.harness import Harness


def _working(verbs: Verbs, task_id: str) -> tuple[Run, Path]:
    run = replace(verbs.prepared(task_id), state=RunState.RUNNING)
    log = verbs.runtime.executions().log(run, "stdout")
    log.parent.mkdir(parents=True)
    return run, log


def _followers(verbs: Verbs, harness: Callable[[str], Harness] = get_harness) -> Followers:
    return Followers(store=verbs.store, clock=verbs.clock, executions=verbs.runtime.executions(), harness=harness)


def test_a_log_that_cannot_be_read_keeps_no_other_from_being_followed(
    verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said which one, it is tried again ever more seldom, and it is followed when it can be read."""
    (bad, bad_log), (good, good_log) = _working(verbs, "t1"), _working(verbs, "t2")
    bad_log.mkdir()
    good_log.write_bytes(b"hello\n")
    followers = _followers(verbs)
    read: list[str] = []
    monkeypatch.setattr(Followers, "_tell", lambda _self, run, _follower: bool(read.append(run.id)))
    found = followers.follow([bad, good])
    assert list(found.problems) == [bad.id] and read == [good.id]
    assert not followers.follow([bad, good]).problems, "it rests"
    waits: list[float] = []
    for _ in range(3):
        waited = 0.0
        while not followers.follow([bad, good]).problems:
            verbs.clock.step(0.5)
            waited += 0.5
        waits.append(waited)
    assert waits == sorted(set(waits)), "each rest is longer than the last"
    bad_log.rmdir()
    bad_log.write_bytes(b"hello\n")
    verbs.clock.step(60)
    assert not followers.follow([bad, good]).problems
    assert bad.id in read


def test_a_reader_that_breaks_is_made_anew(verbs: Verbs) -> None:
    """Nothing of what was half read is kept."""
    run, log = _working(verbs, "t1")
    log.write_bytes(b"hello\n")
    made: list[str] = []

    def harness(name: str) -> Harness:
        made.append(name)
        if len(made) == 1:
            raise RuntimeError("a plug-in's mistake")
        return get_harness(name)

    followers = _followers(verbs, harness)
    assert list(followers.follow([run]).problems) == [run.id]
    verbs.clock.step(2)
    assert not followers.follow([run]).problems
    assert len(made) == 2


def test_a_pipe_in_place_of_a_log_is_said_and_not_waited_for(verbs: Verbs) -> None:
    """To open it would wait for somebody to write."""
    run, log = _working(verbs, "t1")
    os.mkfifo(log)
    found = _followers(verbs).follow([run])
    assert "stdout.log is a named pipe" in str(found.problems[run.id])


def test_a_hole_of_sixty_gigabytes_is_stepped_over_at_once(verbs: Verbs, monkeypatch: pytest.MonkeyPatch) -> None:
    run, log = _working(verbs, "t1")
    with log.open("wb") as file:
        file.truncate(60 * 1024**3)
        file.seek(0, os.SEEK_END)
        file.write(b"hello\n")
    seen: list[bytes] = []
    monkeypatch.setattr(read_output, "take", lambda _reader, piece: seen.append(piece) or [])
    followers = _followers(verbs)
    assert not followers.follow([run]).problems
    assert seen[-1] == b"hello\n" and len(seen) == 2
