"""The decision is taken once."""

import json
import multiprocessing
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from runtimes.stage import Script, Stage

from watchkeeper.domain.evidence import DecidedBy
from watchkeeper.runtimes import atomic, records

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

ROUNDS = 200


def race(root: Path, by: str, barrier: Barrier, answers: "Queue[tuple[str, list[bool]]]") -> None:
    """Try to decide in every directory, in step with the other."""
    won = []
    for number in range(ROUNDS):
        barrier.wait()
        with atomic.directory(root / str(number)) as fd:
            won.append(atomic.publish(fd, "decide", json.dumps({"by": by}).encode(), point="decide"))
    answers.put((by, won))


def test_of_two_exactly_one_is_first(tmp_path: Path) -> None:
    """In each of 200 races between two processes, and the winner's word is what is there."""
    for number in range(ROUNDS):
        (tmp_path / str(number)).mkdir()
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(2), context.Queue()
    racers = [context.Process(target=race, args=(tmp_path, by, barrier, answers)) for by in ("recovery", "stop")]
    for racer in racers:
        racer.start()
    won = dict(answers.get(timeout=60) for _ in racers)
    for racer in racers:
        racer.join()
    for number in range(ROUNDS):
        winners = [by for by in won if won[by][number]]
        assert len(winners) == 1
        assert json.loads((tmp_path / str(number) / "decide").read_bytes()) == {"by": winners[0]}
        assert [path.name for path in (tmp_path / str(number)).iterdir()] == ["decide"]


def test_the_first_decision_stays(stage: Stage) -> None:
    """Ours is readable, and the second process learns that it is second."""
    run = stage.prepared()
    assert stage.runtime.take_decision(run, DecidedBy.STOP)
    assert not stage.runtime.take_decision(run, DecidedBy.RECOVERY)
    decision = records.parse_decision((stage.directory(run) / "decide").read_bytes())
    assert decision.record.by is DecidedBy.STOP


def test_the_shims_decision_stays(stage: Stage) -> None:
    """A shim was first: nothing is overwritten."""
    run = stage.prepared()
    stage.decide(run)
    before = (stage.directory(run) / "decide").read_bytes()
    assert not stage.runtime.take_decision(run, DecidedBy.RECOVERY)
    assert (stage.directory(run) / "decide").read_bytes() == before


def test_nothing_is_decided_in_a_directory_that_is_not_ours(stage: Stage) -> None:
    """Another directory has the name, or none."""
    run = stage.prepared()
    path = stage.directory(run)
    path.rename(stage.state / "aside")
    with pytest.raises(OSError, match="not there"):
        stage.runtime.take_decision(run, DecidedBy.RECOVERY)
    path.mkdir()
    with pytest.raises(OSError, match="not there"):
        stage.runtime.take_decision(run, DecidedBy.RECOVERY)
    assert list(path.iterdir()) == []


def test_killed_while_deciding_it_is_decided_or_not(script: Script, stage: Stage) -> None:
    """At each crash point the register is empty or whole."""
    code = """
import sys
from watchkeeper.runtimes import atomic
with atomic.directory(sys.argv[1]) as fd:
    print(atomic.publish(fd, "decide", b"x" * 500, point="decide"))
"""
    for point in (
        "decide.write.before",
        "decide.write.after",
        "decide.link.before",
        "decide.link.after",
        "decide.sync.after",
    ):
        directory = stage.state / point
        directory.mkdir()
        assert script(code, str(directory), WATCHKEEPER_CRASH_AT=point).returncode == -9
        decided = (directory / "decide").exists()
        assert decided is (point in {"decide.link.after", "decide.sync.after"})
        assert script(code, str(directory)).stdout.strip() == str(not decided)
        assert (directory / "decide").read_bytes() == b"x" * 500
