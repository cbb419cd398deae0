"""What execution directories tell of themselves, without the database: whose they are, and whether something has begun or ended in them."""

import json
import stat
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from runtimes.stage import Stage

from watchkeeper.domain.evidence import DecidedBy
from watchkeeper.domain.lock_state import LockState
from watchkeeper.domain.model import Run, RunState, StopHow
from watchkeeper.ports.backup import DescribedExecution
from watchkeeper.ports.off_record import FoundRun, StopNote
from watchkeeper.ports.runtime import Executions
from watchkeeper.runtimes.executions import ExecutionDirectories

BEGINS = ("decide", "proc.json", "exit.json", "gone.json")


def executions(stage: Stage) -> Executions:
    return stage.runtime.executions()


def directories(stage: Stage) -> ExecutionDirectories:
    return ExecutionDirectories(stage.state / "executions")


def described(stage: Stage, run: Run) -> DescribedExecution:
    (found,) = [each for each in directories(stage).described() if each.execution_id == run.execution_id]
    return found


@pytest.mark.parametrize("name", BEGINS)
def test_a_directory_says_whose_it_is(stage: Stage, name: str) -> None:
    """And what it is, once a record is there, however it reads, or a shim lives in it."""
    run = stage.prepared()
    expected = DescribedExecution(
        execution_id="exec1", database_id="db1", task_id="task1", run_id="run-exec1", fence=7, lock=LockState.FREE
    )
    assert described(stage, run) == expected
    assert executions(stage).begun(run, "db1") is None
    lock = stage.hold(run)
    assert described(stage, run) == replace(expected, lock=LockState.HELD, begun=run.directory)
    assert executions(stage).begun(run, "db1") == run.directory
    lock.close()
    stage.locks.clear()
    stage.write(run, name, b"torn")
    assert described(stage, run) == replace(expected, begun=run.directory)
    assert executions(stage).begun(run, "db1") == run.directory


def test_a_directory_that_cannot_be_read_is_left_out(stage: Stage) -> None:
    whole, torn = stage.prepared("a"), stage.prepared("b")
    stage.write(torn, "spec.json", b"torn")
    assert [each.execution_id for each in directories(stage).described()] == [whole.execution_id]
    stage.write(torn, "decide", b"")
    assert executions(stage).begun(torn, "db1") is None


def test_only_its_own_directory_tells_of_a_run(stage: Stage) -> None:
    """Of the same database, with the same fence."""
    run = stage.prepared()
    stage.write(run, "decide", b"")
    assert executions(stage).begun(run, "db2") is None
    assert executions(stage).begun(replace(run, fence=8), "db1") is None
    assert executions(stage).begun(replace(run, task_id="task2"), "db1") is None
    assert executions(stage).begun(stage.run("exec2"), "db1") is None
    assert executions(stage).begun(run, "db1") == run.directory


def test_what_a_shim_complained_of_is_found(stage: Stage) -> None:
    """If it did."""
    run = stage.prepared()
    path = stage.directory(run) / "shim.err"
    path.unlink(missing_ok=True)
    assert executions(stage).complaints(run) is None
    path.touch()
    assert executions(stage).complaints(run) is None
    path.write_text("No.\n", encoding="utf-8")
    assert executions(stage).complaints(run) == path


def test_a_directory_is_open_until_a_launch_is_decided(stage: Stage) -> None:
    run = stage.prepared()
    assert executions(stage).still_open(run) and not executions(stage).has_exit(run)
    stage.decide(run)
    assert not executions(stage).still_open(run)
    assert not executions(stage).still_open(stage.run("exec2")), "it is not there"
    (stage.directory(run) / "exit.json").symlink_to("nowhere")
    assert executions(stage).has_exit(run)


def found(stage: Stage) -> list[FoundRun]:
    return stage.runtime.off_record.runs()


def test_a_run_is_found_by_its_directory_alone(stage: Stage) -> None:
    """Until it is proven that it is over; its number is that of its id."""
    assert found(stage) == []
    run = stage.prepared(claimed_at=datetime.fromtimestamp(0, UTC))
    (told,) = found(stage)
    assert told.database_id == "db1"
    known = ("id", "task_id", "fence", "execution_id", "directory", "cause")
    assert [getattr(told.run, name) for name in known] == [getattr(run, name) for name in known]
    assert (told.run.state, told.run.number, told.run.machine, told.run.incarnation) == (RunState.PREPARED, 1, "", 0)
    changed = datetime.fromtimestamp(stage.directory(run).stat().st_ctime, UTC)
    assert abs((told.run.claimed_at - changed).total_seconds()) < 1
    stage.decide(run)
    agent = stage.python("input()")
    stage.agent(run, agent)
    (told,) = found(stage)
    assert told.run.agent is not None
    assert (told.run.state, told.run.agent.pid, told.run.exit) == (RunState.RUNNING, agent.pid, None)
    stage.exit(run)
    (told,) = found(stage)
    assert told.run.exit is not None and told.run.exit.status == 256, "what it started may live"
    stage.gone(run)
    assert found(stage) == []


@pytest.mark.parametrize(("by", "left"), [(DecidedBy.SHIM, 1), (DecidedBy.RECOVERY, 0), (DecidedBy.STOP, 0)])
def test_a_run_whose_launch_was_prevented_is_over(stage: Stage, by: DecidedBy, left: int) -> None:
    run = stage.prepared()
    stage.decide(run, by)
    assert len(found(stage)) == left


@pytest.mark.parametrize(("run_id", "number"), [("k3f9m2qx.12", 12), ("k3f9m2qx", 1), ("a.b", 1), ("9.", 1)])
def test_the_number_of_a_run_is_the_end_of_its_id(stage: Stage, run_id: str, number: int) -> None:
    run = stage.run()
    _ = stage.runtime.prepare(stage.request(replace(run, id=run_id)))
    assert [each.run.number for each in found(stage)] == [number]


def test_what_no_shim_wrote_is_not_a_run(stage: Stage) -> None:
    """A directory of another execution's, one without a spec, and a file."""
    _, moved, torn = stage.prepared("a"), stage.prepared("b"), stage.prepared("c")
    stage.directory(moved).rename(stage.state / "executions" / "d")
    stage.write(torn, "spec.json", b"torn")
    (stage.state / "executions" / "e").touch()
    assert [each.run.execution_id for each in found(stage)] == ["a"]


def test_stops_are_noted_in_order(stage: Stage) -> None:
    """One that cannot be read stays, and so does what has another name."""
    off = stage.runtime.off_record
    assert off.notes() == []
    later, first = (
        StopNote(database_id="db1", task_id="t", run_id=f"t.{number}", fence=number, execution_id=name, how=how, by="ada",
                 at=stage.clock.now(), grace_s=grace)
        for number, name, how, grace in ((2, "a", StopHow.KILL, None), (1, "b", StopHow.STOP, 2.5))
    )  # fmt: skip
    stage.clock.step(60)
    later = replace(later, at=stage.clock.now())
    off.put(later)
    off.put(first)
    notes = stage.state / "stops"
    assert stat.S_IMODE(notes.stat().st_mode) == 0o700
    (notes / "c.json").write_text("torn", encoding="utf-8")
    (notes / "d.new").write_text(json.dumps({}), encoding="utf-8")
    assert off.notes() == [first, later]
    off.forget(first)
    off.forget(first)
    assert off.notes() == [later]
    assert sorted(path.name for path in notes.iterdir()) == ["a.json", "c.json", "d.new"]
