"""What waits, and for what."""

import json
import os
import signal

from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.app.interrupt import interrupt_all
from watchkeeper.compose import Watchkeeper
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import TaskState
from watchkeeper.runtimes.system import SystemClock


def test_a_held_task_keeps_nobody_from_running(rig: Rig) -> None:
    """Room for one; the shim of the first task is killed while its agent works, and the next task runs all the same."""
    rig.settings = {"WATCHKEEPER_QUEUE_LIMIT": "1"}
    rig.start_daemon()
    held = rig.run("wait", str(rig.root / "never"))
    wait_until(rig.started_runs, what="its agent works")
    (run,) = rig.runs(held)
    record = rig.state / "executions" / run.execution_id / "proc.json"
    os.kill(json.loads(record.read_text(encoding="utf-8"))["shim_pid"], signal.SIGKILL)
    assert rig.wait_resting(held).state is TaskState.HELD
    assert rig.wait_resting(rig.run("exit", "0", options=("--shared",))).state is TaskState.DONE
    assert rig.task(held).state is TaskState.HELD


def test_without_room_a_task_waits_its_turn(rig: Rig) -> None:
    """Room for one: the second begins when the first has ended, and not before."""
    rig.settings = {"WATCHKEEPER_QUEUE_LIMIT": "1"}
    rig.start_daemon()
    first = rig.run("wait", str(rig.root / "go"))
    wait_until(rig.started_runs, what="the first works")
    second = rig.run("exit", "0", options=("--shared",))
    rig.wk("ls")  # any user may look meanwhile
    assert rig.task(second).state is TaskState.QUEUED
    (rig.root / "go").touch()
    assert rig.wait_resting(second).state is TaskState.DONE
    assert rig.started_runs() == [f"{first}.1", f"{second}.1"]


def test_a_command_that_died_before_its_hint_costs_a_look(rig: Rig) -> None:
    """It had committed and sent no hint; the daemon sees the commit by itself, long before half a minute has passed."""
    rig.start_daemon()
    rig.arm("tx.add.after_commit")
    rig.open_gate()
    assert rig.wk("run", "--", "true", check=False).returncode == -signal.SIGKILL
    rig.disarm()
    (task,) = rig.tasks()
    assert rig.wait_resting(task.id, within_s=15).state is TaskState.DONE


def test_an_interrupted_service_starts_nothing_more(rig: Rig) -> None:
    """A run that is reserved when the service is interrupted goes back to the queue; the daemon ends, and the next one runs the task."""
    rig.arm("prepare.mkdir.before", how="STOP")
    rig.open_gate()
    daemon = rig.start_daemon()
    task_id = rig.run("exit", "0")
    wait_until((rig.root / "died").exists, what="the daemon stands still while it prepares the run")
    parts = Watchkeeper.open(rig.repo, rig.environment, writes=True)
    interrupt_all(parts.store, SystemClock(), parts.state.node())
    daemon.send_signal(signal.SIGCONT)
    assert rig.wait_resting(task_id).state is TaskState.DONE
    assert [run.kind for run in rig.runs(task_id)] == [FailureKind.NEVER_LAUNCHED, None]
    assert rig.started_runs() == [f"{task_id}.2"]
