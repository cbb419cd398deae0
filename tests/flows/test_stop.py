"""What a person stops is stopped: everything of it, at any moment, and nothing else."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
from support.flow_words import daemon_log, go_file, healthy, let_go, shown, working
from support.forks import start_program
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import OutcomeStatus, Proof, Run, RunState, TaskState
from watchkeeper.errors import Exit
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.boot import boot_id

STUBBORN = 3
"""The agent and its two grandchildren."""


def _stubborn(rig: Rig) -> tuple[str, Run]:
    """An agent that ignores TERM, with grandchildren in sessions of their own that do so too."""
    task_id, run = working(rig, "stubborn")
    wait_until(lambda: len(rig.survivors()) >= STUBBORN, within_s=20, what="the grandchildren live")
    return task_id, run


def _shim(rig: Rig, run: Run) -> tuple[int, int]:
    record = json.loads((rig.state / "executions" / run.execution_id / "proc.json").read_bytes())
    return record["shim_pid"], record["shim_start_ticks"]


def _kill_shim(rig: Rig, run: Run) -> None:
    pid, ticks = _shim(rig, run)
    assert proc.signal_checked(pid, ticks, boot_id(), signal.SIGKILL) is proc.SignalResult.REACHED
    wait_until(lambda: proc.identity(pid) != (pid, ticks), what="the shim is dead")


@pytest.mark.parametrize("command", ["stop", "kill"])
def test_everything_of_a_stubborn_agent_is_ended(rig: Rig, command: str) -> None:
    """None of its processes is alive when the command returns, and the outcome says that this is proven."""
    rig.start_daemon()
    task_id, run = _stubborn(rig)
    assert f"{task_id}  stopped".encode() in rig.wk(command, task_id).stdout
    assert not rig.survivors()
    outcome = rig.outcome(run.id)
    assert outcome is not None
    assert (outcome.status, outcome.kind, outcome.proof) == (OutcomeStatus.STOPPED, FailureKind.STOPPED, Proof.PROVEN)
    assert "proven: nothing of it is alive" in shown(rig, task_id)
    assert rig.wk("wait", task_id, check=False).returncode == Exit.TASK_STOPPED


def test_survivors_of_a_killed_shim_are_swept(rig: Rig) -> None:
    """The agent dies with its shim, its grandchildren do not: they are found by their mark and ended, and the task is held as lost."""
    rig.start_daemon()
    task_id, run = _stubborn(rig)
    _kill_shim(rig, run)
    assert rig.wait_resting(task_id).state is TaskState.HELD
    assert not rig.survivors()
    (lost,) = rig.runs(task_id)
    assert (lost.kind, lost.proof) == (FailureKind.LOST, Proof.SWEPT)
    swept = [entry for entry in rig.journal() if entry.kind == "run.swept"]
    assert len(cast("list[str]", swept[0].data["ended"])) >= STUBBORN - 1
    rig.wk("stop", task_id)
    outcome = rig.outcome(run.id)
    assert outcome is not None and outcome.status is OutcomeStatus.STOPPED and outcome.proof is Proof.SWEPT
    healthy(rig)


def test_a_stop_after_the_shim_was_killed(rig: Rig) -> None:
    """No daemon saw the shim's death: the stop, and the daemon that it starts, end what is left all the same."""
    rig.start_daemon()
    task_id, run = _stubborn(rig)
    rig.kill_daemon()
    _kill_shim(rig, run)
    rig.wk("stop", task_id)
    assert rig.task(task_id).state is TaskState.STOPPED
    assert not rig.survivors()
    outcome = rig.outcome(run.id)
    assert outcome is not None and outcome.proof is Proof.SWEPT


def test_a_stranger_with_the_recorded_pid_is_spared(rig: Rig) -> None:
    """The record names a living process that is not the agent: it is not signalled, and that is said in the journal, the log and `wk show`."""
    rig.start_daemon()
    task_id, run = working(rig)
    rig.kill_daemon()
    pid, ticks = _shim(rig, run)
    record = rig.state / "executions" / run.execution_id / "proc.json"
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    try:
        _kill_shim(rig, run)
        assert proc.identity(pid) != (pid, ticks)
        told = json.loads(record.read_bytes())
        _ = told.pop("crc32")  # as an earlier version wrote it
        record.write_text(json.dumps({**told, "pid": stranger.pid}), encoding="utf-8")
        rig.start_daemon()
        assert rig.wait_resting(task_id).state is TaskState.HELD
        assert stranger.poll() is None
        sentence = f"Process {stranger.pid} is not the recorded agent"
        (swept,) = [entry for entry in rig.journal() if entry.kind == "run.swept"]
        assert any(sentence in said for said in cast("list[str]", swept.data["spared"])), swept.data
        assert sentence in daemon_log(rig)
        assert sentence in shown(rig, task_id)
        rig.wk("stop", task_id)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_stop_in_the_launch_window(rig: Rig) -> None:
    """The shim is stopped before it has its lock; the task is stopped meanwhile; when the shim continues, no agent runs."""
    rig.settings = {"WATCHKEEPER_DAEMON_START_GRACE": "60"}
    (rig.root / "gate").touch()
    rig.arm("shim.lock.before", how="STOP")
    rig.start_daemon()
    task_id = rig.run("exit", "0")
    shim = wait_until(rig.stopped_shim, within_s=20, what="the shim is stopped before its lock")
    rig.disarm()
    rig.wk("stop", task_id)
    assert rig.task(task_id).state is TaskState.STOPPED
    assert proc.signal_checked(*shim, boot_id(), signal.SIGCONT) is proc.SignalResult.REACHED
    wait_until(lambda: proc.identity(shim[0]) != shim, within_s=20, what="the late shim ended")
    assert rig.started_runs() == []
    (run,) = rig.runs(task_id)
    outcome = rig.outcome(run.id)
    assert outcome is not None and outcome.proof is Proof.PROVEN
    healthy(rig)


def test_a_queued_task_is_stopped_where_it_is(rig: Rig) -> None:
    """No run begins for it, also when there is room again."""
    rig.settings = {"WATCHKEEPER_QUEUE_LIMIT": "1"}
    first, _ = working(rig)
    second = rig.run("exit", "0", options=("--shared",))
    rig.wk("stop", second)
    assert rig.task(second).state is TaskState.STOPPED
    let_go(rig)
    assert rig.wait_resting(first).state is TaskState.DONE
    healthy(rig)
    assert rig.runs(second) == []


def test_a_finished_task_stays_as_it_ended(rig: Rig) -> None:
    """The command says so and ends well."""
    task_id = rig.run("exit", "0")
    assert rig.wait_resting(task_id, keep=False).state is TaskState.DONE
    said = rig.wk("stop", task_id).stdout.decode()
    assert "had ended already: done" in said
    assert rig.task(task_id).state is TaskState.DONE


def test_a_task_that_waits_for_its_next_try_is_stopped(rig: Rig) -> None:
    """During the wait before a retry: no other run begins."""
    rig.settings = {"WATCHKEEPER_DAEMON_START_GRACE": "0.2", "WATCHKEEPER_QUEUE_RELAUNCH_BASE": "1h"}
    rig.arm("shim.lock.before")
    (rig.root / "gate").touch()
    rig.start_daemon()
    task_id = rig.run("exit", "0")
    wait_until(lambda: rig.task(task_id).wake_at, within_s=20, what="it waits for its next try")
    assert rig.task(task_id).state is TaskState.QUEUED
    rig.disarm()
    rig.wk("stop", task_id)
    assert rig.task(task_id).state is TaskState.STOPPED
    healthy(rig)
    assert len(rig.runs(task_id)) == 1 and rig.started_runs().count(f"{task_id}.1") == 0


def test_draining_waits_for_the_agents_and_starts_nothing(rig: Rig) -> None:
    """`wk daemon stop --drain`: what works ends by itself, what waits keeps waiting."""
    rig.settings = {"WATCHKEEPER_QUEUE_LIMIT": "1"}
    daemon = rig.start_daemon()
    first, _ = working(rig)
    second = rig.run("exit", "0", options=("--shared",))
    drain = start_program(
        ["daemon", "stop", "--drain"],
        env=rig.environment,
        cwd=rig.repo,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_until(lambda: "order=drain" in daemon_log(rig), what="the daemon heard it")
    assert drain.poll() is None and daemon.poll() is None
    let_go(rig)
    out, _ = drain.communicate(timeout=30)
    assert (drain.returncode, daemon.wait(timeout=20)) == (0, 0), out
    assert rig.task(first).state is TaskState.DONE
    assert rig.task(second).state is TaskState.QUEUED and rig.runs(second) == []
    rig.start_daemon()
    assert rig.wait_resting(second).state is TaskState.DONE


def test_interrupting_gives_receipts(rig: Rig) -> None:
    """`wk daemon stop --interrupt`: every agent is ended, its task needs a person and says that it was not the person who ended it."""
    daemon = rig.start_daemon()
    task_id, run = _stubborn(rig)
    rig.wk("daemon", "stop", "--interrupt")
    assert daemon.wait(timeout=20) == 0
    assert not rig.survivors()
    outcome = rig.outcome(run.id)
    assert outcome is not None and (outcome.kind, outcome.proof) == (FailureKind.INTERRUPTED, Proof.PROVEN)
    task = rig.task(task_id)
    assert (task.state, task.attempts) == (TaskState.NEEDS_INPUT, 0)
    assert rig.runs(task_id)[0].state is RunState.SETTLED
    rig.wk("retry", task_id)
    let_go(rig)
    wait_until(lambda: rig.started_runs().count(f"{task_id}.2") == 1, within_s=20, what="it works again")
    rig.wk("kill", task_id)
    assert not rig.survivors()


def test_ending_by_hand_is_no_stop(rig: Rig) -> None:
    """A person kills the agent itself: that is a failure of the agent's, and the true signal is on record."""
    rig.start_daemon()
    task_id, run = working(rig, options=("--retries", "0"))
    assert run.agent is not None
    os.kill(run.agent.pid, signal.SIGKILL)
    assert rig.wait_resting(task_id).state is TaskState.FAILED
    (ended,) = rig.runs(task_id)
    assert ended.exit is not None and ended.exit.signal == signal.SIGKILL
    assert not Path(go_file(rig)).exists()
