"""Twenty real processes at once, adding, stopping, retrying and listing, while the daemon works with room for four."""

import json
import random
import subprocess
import sys
from collections import Counter

import pytest
from support.flow_words import sound
from support.forks import start_program
from support.rig import AGENT, Rig
from support.waiting import wait_until

from watchkeeper.domain.model import LIVE_RUN_STATES, RESTING_TASK_STATES, TaskState
from watchkeeper.errors import Exit

ADDED, STOPPED, RETRIED, LISTED = 10, 4, 3, 3


@pytest.mark.timeout(240)
def test_twenty_at_once(rig: Rig) -> None:
    """No command fails, every task comes to its end, each run's agent began once, and the database is whole."""
    rig.start_daemon()
    to_stop = [rig.run("lines", "5", "wait", str(rig.root / "never"), options=("--shared",)) for _ in range(STOPPED)]
    to_retry = [rig.run("fail-first", "3", "exit", "0", options=("--retries", "0", "--shared")) for _ in range(RETRIED)]
    rig.wk("stop", to_stop[0])  # makes room for those that fail first
    for task_id in to_retry:
        assert rig.wait_resting(task_id).state is TaskState.FAILED
    agent = [sys.executable, str(AGENT), str(rig.starts), "lines", "20", "exit", "0"]
    commands = (
        [["run", "--json", "--shared", "--", *agent]] * ADDED
        + [["stop", task_id] for task_id in to_stop]
        + [["retry", task_id] for task_id in to_retry]
        + [["ls", "--all", "--json"]] * LISTED
    )
    random.Random(1).shuffle(commands)
    processes = [_start(rig, command) for command in commands]
    for command, process in zip(commands, processes, strict=True):
        out, err = process.communicate(timeout=120)
        assert process.returncode == Exit.OK and b"Traceback" not in err, (command, out, err)
        if command[0] == "ls":
            json.loads(out)
    tasks = rig.tasks()
    assert len(tasks) == ADDED + STOPPED + RETRIED

    def at_rest() -> bool:
        return all(task.state in RESTING_TASK_STATES for task in rig.tasks())

    wait_until(at_rest, within_s=90, what="every task rests")
    states = Counter(task.state for task in rig.tasks())
    assert states == {TaskState.DONE: ADDED + RETRIED, TaskState.STOPPED: STOPPED}, states
    runs = [run for task in rig.tasks() for run in rig.runs(task.id)]
    assert not any(run.state in LIVE_RUN_STATES for run in runs)
    began = Counter(rig.started_runs())
    assert set(began.values()) == {1}
    assert all(began[run.id] == 1 for run in runs if run.exit is not None)
    assert _most_at_once(rig) <= 4
    assert not rig.survivors()
    sound(rig)


def _start(rig: Rig, command: list[str]) -> "subprocess.Popen[bytes]":
    return start_program(
        command,
        env=rig.environment,
        cwd=rig.repo,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _most_at_once(rig: Rig) -> int:
    """How many runs had a claim at once, by the journal."""
    most = now = 0
    for entry in rig.journal():
        if entry.kind in {"run.reserved", "run.settled"}:
            now += 1 if entry.kind == "run.reserved" else -1
            most = max(most, now)
    return most
