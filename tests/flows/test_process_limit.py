"""The system starts no process: the run was never launched, its outcome says why, and the task is tried again."""

import errno

import pytest
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.failure_kind import FailureKind
from watchkeeper.domain.model import TaskState


def _reason(rig: Rig, task_id: str) -> str | None:
    outcome = rig.outcome(f"{task_id}.1")
    return None if outcome is None else outcome.reason


@pytest.mark.parametrize(
    ("point", "number", "words"),
    [
        ("shim.fork.before", errno.EAGAIN, "the system's process limit was reached (EAGAIN)"),
        ("shim.fork.before", errno.ENOMEM, "no memory left (ENOMEM)"),
        ("shim.spawn.before", errno.EAGAIN, "the system's process limit was reached (EAGAIN)"),
    ],
)
def test_a_launch_that_the_system_refuses(rig: Rig, point: str, number: int, words: str) -> None:
    """In the shim, and where the daemon starts shims; when processes can be started again, the agent begins once."""
    rig.crash = {"WATCHKEEPER_CRASH_AT": point, "WATCHKEEPER_CRASH_ERRNO": str(number)}
    rig.start_daemon()
    task_id = rig.run("exit", "0")
    said = wait_until(lambda: _reason(rig, task_id), within_s=20, what="the first run is settled")
    assert words in said, said
    outcome = rig.outcome(f"{task_id}.1")
    assert outcome is not None and outcome.kind is FailureKind.NEVER_LAUNCHED
    assert rig.task(task_id).attempts == 0
    rig.kill_daemon()
    rig.disarm()
    assert rig.wait_resting(task_id).state is TaskState.DONE
    assert len(rig.started_runs()) == 1
