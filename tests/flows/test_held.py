"""A held run whose agent is alive: what a person's word on it does to the agent, and that no second one is led into its directory."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.flow_words import daemon_log, healthy, working
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.model import Proof, Run, TaskState
from watchkeeper.errors import Exit

STUBBORN = 3
"""The agent and its two grandchildren."""


def _directory(rig: Rig, run: Run) -> Path:
    return rig.state / "executions" / run.execution_id


def _take_away(rig: Rig, path: Path) -> None:
    path.rename(rig.root / "away")


def _tear_decision(_: Rig, path: Path) -> None:
    (path / "decide").write_bytes(b"\xff{")


def _tear_spec(_: Rig, path: Path) -> None:
    (path / "spec.json").write_bytes(b"{")


def _held(rig: Rig, damage: Callable[[Rig, Path], None], *agent: str) -> tuple[str, Run]:
    rig.start_daemon()
    task_id, run = working(rig, *agent)
    damage(rig, _directory(rig, run))
    wait_until(lambda: rig.task(task_id).state is TaskState.HELD, within_s=20, what="it is held")
    return task_id, run


@pytest.mark.parametrize("damage", [_take_away, _tear_decision, _tear_spec])
@pytest.mark.parametrize("command", ["stop", "kill"])
def test_the_agent_of_a_held_run_is_ended_with_it(rig: Rig, command: str, damage: Callable[[Rig, Path], None]) -> None:
    """Through its shim where that answers, else by the sweep; when the command returns the agent is dead, and no more is claimed than that."""
    task_id, run = _held(rig, damage)
    assert run.agent is not None
    said = rig.wk(command, task_id).stdout.decode()
    assert f"{task_id}  stopped; its agent, pid {run.agent.pid}, was alive and has ended" in said
    assert "not proven" in said
    wait_until(lambda: not rig.carrying(run.execution_id), what="nothing of it is alive")
    outcome = rig.outcome(run.id)
    assert outcome is not None and outcome.proof is Proof.UNPROVEN
    wait_until(lambda: not rig.pending(), within_s=20, what="the effect is done")
    assert {"run.end_told", "run.swept"} & {entry.kind for entry in rig.journal()}
    healthy(rig)


def test_grandchildren_of_a_held_run_are_ended_too(rig: Rig) -> None:
    """In sessions of their own, deaf to TERM, and known by their mark only."""
    task_id, run = _held(rig, _take_away, "stubborn")
    wait_until(lambda: len(rig.carrying(run.execution_id)) >= STUBBORN, within_s=20, what="the grandchildren live")
    rig.wk("stop", task_id)
    wait_until(lambda: not rig.carrying(run.execution_id), within_s=20, what="nothing of it is alive")


def test_no_second_agent_beside_a_living_one(rig: Rig) -> None:
    """`wk retry` of a held run is refused while its agent is seen alive, and says who it is and what to do."""
    task_id, run = _held(rig, _take_away)
    assert run.agent is not None
    refused = rig.wk("retry", task_id, check=False)
    assert refused.returncode == Exit.REFUSED
    assert f"still alive (pid {run.agent.pid})" in refused.stderr.decode()
    assert f"wk kill {task_id}" in refused.stderr.decode()
    assert rig.task(task_id).state is TaskState.HELD and len(rig.runs(task_id)) == 1
    rig.wk("kill", task_id)
    (rig.root / "go").touch()
    rig.wk("retry", task_id)
    assert rig.wait_resting(task_id).state is TaskState.DONE


def test_a_stop_that_nobody_performed_is_not_forgotten(rig: Rig) -> None:
    """The daemon dies before it acts: the next one ends the agent."""
    rig.arm("tx.done_end_execution.before_commit")
    task_id, run = _held(rig, _take_away)
    rig.open_gate()
    assert run.agent is not None
    said = rig.wk("stop", "--no-wait", task_id).stdout.decode()
    assert f"its agent, pid {run.agent.pid}, is alive and will be ended" in said
    wait_until(lambda: rig.died, within_s=20, what="the daemon died")
    rig.disarm()
    rig.start_daemon()
    wait_until(lambda: not rig.carrying(run.execution_id) and not rig.pending(), within_s=20, what="its agent is ended")
    assert "not ended" not in daemon_log(rig)


def test_a_run_that_was_held_before_it_began_begins_when_its_directory_is_back(rig: Rig) -> None:
    """The daemon died before the start of the shim, and the directory was away when the next one came: the start is not forgotten."""
    rig.arm("shim.spawn.before")
    rig.open_gate()
    rig.start_daemon()
    task_id = rig.run("lines", "3", "exit", "0")
    wait_until(lambda: rig.daemons[-1].poll() is not None, within_s=20, what="the daemon died before the start")
    rig.disarm()
    (run,) = rig.runs(task_id)
    _take_away(rig, _directory(rig, run))
    rig.start_daemon()
    wait_until(lambda: rig.task(task_id).state is TaskState.HELD, within_s=20, what="it is held")
    wait_until(lambda: not rig.pending(), within_s=20, what="the start was dropped")
    (rig.root / "away").rename(_directory(rig, run))
    wait_until(lambda: rig.task(task_id).state is TaskState.DONE, within_s=20, what="it is done")
    assert rig.started_runs() == [run.id]
