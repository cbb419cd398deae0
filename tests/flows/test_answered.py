"""A program that continues after its final answer: reported, ended after a grace, and its success stays one."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.model import EndReason, TaskState

ANSWERS = """run echo hello
run printf '%s\\n' '{"type":"result","ok":true,"text":"All done."}' >> /proc/$PPID/fd/1; sleep 1000
"""
"""The demonstration's agent, whose last tool prints the final event for it and then never ends."""


@pytest.fixture
def lingering(tmp_path: Path) -> Iterator[Rig]:
    """A scratch installation with a short grace."""
    made = Rig(tmp_path / "rig", settings={"WATCHKEEPER_DAEMON_ANSWERED_GRACE": "1"})
    yield made
    made.close()


def _hand_over(rig: Rig, *options: str) -> str:
    return str(
        json.loads(rig.wk("run", "--json", "--harness", "demo", *options, "-f", "-", given=ANSWERS.encode()).stdout)[
            "id"
        ]
    )


def test_it_is_ended_after_the_grace_and_is_done(lingering: Rig) -> None:
    """With a reason of its own: no person stopped it."""
    lingering.start_daemon()
    task_id = _hand_over(lingering)
    task = lingering.wait_resting(task_id)
    assert task.state is TaskState.DONE
    assert task.reason == "Done: nothing changed. Its process went on after its answer, and was ended."
    (run,) = lingering.runs(task_id)
    assert run.exit is not None and run.exit.reason is EndReason.ANSWERED
    kinds = [entry.kind for entry in lingering.journal()]
    assert kinds.count("run.answered") == kinds.count("run.lingered") == 1
    assert not lingering.survivors()


def test_who_waits_for_leftovers_keeps_it_and_a_stop_takes_nothing_away(lingering: Rig) -> None:
    lingering.start_daemon()
    task_id = _hand_over(lingering, "--leftovers", "wait")
    wait_until(lambda: b"answered, still running" in lingering.wk("ls").stdout, within_s=30, what="it has answered")
    lingering.wk("stop", task_id)
    task = lingering.wait_resting(task_id)
    assert task.state is TaskState.DONE
    assert task.reason == "Done: nothing changed. Its process went on after its answer, and was stopped."
    assert "run.lingered" not in [entry.kind for entry in lingering.journal()]
