"""The end of an agent whose shim did not live to prove that nothing is left."""

import json
import signal
from pathlib import Path

from support.flow_words import let_go, working
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.model import Proof, Run, TaskState
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.boot import boot_id


def _directory(rig: Rig, run: Run) -> Path:
    return rig.state / "executions" / run.execution_id


def _rewrite(path: Path, **changes: str) -> None:
    record = json.loads(path.read_bytes())
    _ = record.pop("crc32")  # as an earlier version wrote it
    path.write_text(json.dumps({**record, **changes}), encoding="utf-8")


def test_a_restart_of_the_machine_proves_that_nothing_is_left(rig: Rig) -> None:
    """It came between the record of the end and the proof of emptiness: no process outlives it."""
    rig.start_daemon()
    task_id, run = working(rig)
    rig.kill_daemon()
    let_go(rig)
    directory = _directory(rig, run)
    wait_until((directory / "gone.json").exists, within_s=20, what="the shim has ended")
    (directory / "gone.json").unlink()
    for name in ("decide", "proc.json"):
        _rewrite(directory / name, boot_id="another")
    rig.start_daemon()
    assert rig.wait_resting(task_id).state is TaskState.DONE
    outcome = rig.outcome(run.id)
    assert outcome is not None and outcome.proof is Proof.PROVEN
    assert "run.swept" not in {entry.kind for entry in rig.journal()}


def test_a_dead_shim_without_its_lock_is_waited_for_no_longer(rig: Rig) -> None:
    """The agent has ended, its shim was killed among the leftovers, and the lock was deleted: what is left is swept, and the run is settled."""
    rig.start_daemon()
    task_id, run = working(rig, "stubborn", options=("--leftovers", "wait"))
    directory = _directory(rig, run)
    let_go(rig)
    wait_until((directory / "exit.json").exists, within_s=20, what="the agent has ended")
    record = json.loads((directory / "proc.json").read_bytes())
    assert rig.survivors()
    (directory / "lock").unlink()
    assert (
        proc.signal_checked(record["shim_pid"], record["shim_start_ticks"], boot_id(), signal.SIGKILL)
        is proc.SignalResult.REACHED
    )
    assert rig.wait_resting(task_id).state is TaskState.DONE
    assert not rig.survivors()
    outcome = rig.outcome(run.id)
    assert outcome is not None and outcome.proof is Proof.SWEPT
