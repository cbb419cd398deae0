"""Kill one process at each durable step from a message to its reply: the message is there once, and in the end it is answered."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.rig import Rig

from watchkeeper.domain.message import MOST_TRIES
from watchkeeper.domain.model import TaskState

LEAST = 30
_AT_ONCE = 2


def _begin(root: Path) -> tuple[Rig, str]:
    """A rig with a task whose first turn is over."""
    rig = Rig(root)
    rig.start_daemon()
    done = rig.wk("run", "--json", "--harness", "demo", "--expect", "any", "--on-lost", "retry", "say one")
    task_id = str(json.loads(done.stdout)["id"])
    assert rig.wait_resting(task_id).state is TaskState.DONE
    rig.kill_daemon()
    return rig, task_id


def _send(rig: Rig, task_id: str) -> None:
    """Send, by a caller that repeats itself if it is killed, to a task whose daemon is brought back if it is killed."""
    command = ("send", "--key", "k", task_id, "say two\nappend log two")
    rig.open_gate()
    rig.start_daemon()
    if rig.wk(*command, check=False).returncode != 0:
        rig.keep_daemon()
        _ = rig.wk(*command)
    for _ in range(MOST_TRIES):
        if rig.wait_resting(task_id, within_s=60).state is TaskState.DONE:
            break
        _ = rig.wk("retry", task_id)  # a person's word on a run that was lost


def _violations(rig: Rig, task_id: str) -> list[str]:
    """What does not hold in the end."""
    shown: dict[str, Any] = json.loads(rig.wk("thread", "--json", task_id).stdout)
    messages = [(one["id"], one["state"]) for one in shown["messages"]]
    found: list[str] = []
    if messages != [(f"{task_id}.m1", "answered")]:
        found.append(f"the messages are {messages}")
    if (state := rig.task(task_id).state) is not TaskState.DONE:
        found.append(f"the task is {state}")
    covering = [one for one in shown["replies"] if one["messages"]]
    if not covering or covering[-1]["text"] != "two" or covering[-1]["run"] != shown["messages"][0]["run"]:
        found.append(f"the reply is not that of the run that took it: {shown['replies']}")
    if any(not one["resumed"] for one in covering):
        found.append("a run that took it began a new conversation")
    if len({run.harness_session for run in rig.runs(task_id) if run.harness_session}) != 1:
        found.append("there is more than one conversation")
    log = rig.repo / "log"
    written = log.read_text(encoding="utf-8").split() if log.exists() else []
    began = sum(1 for run in rig.runs(task_id)[1:] if run.harness_session)
    if not 1 <= len(written) <= max(1, began):
        found.append(f"the agent wrote {written} in {began} runs")
    found += rig.faults()
    if left := rig.survivors():
        found.append(f"processes are left: {left}")
    return found


def _play(root: Path, point: str) -> tuple[bool, list[str]]:
    rig, task_id = _begin(root)
    try:
        rig.arm(point)
        _send(rig, task_id)
        rig.disarm()
        return rig.died, [f"{point}: {said}" for said in _violations(rig, task_id)]
    except BaseException as problem:  # noqa: BLE001 - pytest.fail is one: a flow that does not come to its end is a violation too
        return True, [f"{point}: {problem}"]
    finally:
        rig.close()


@pytest.mark.timeout(900)
def test_one_death_anywhere_between_a_message_and_its_reply_breaks_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rig, task_id = _begin(tmp_path / "undisturbed")
    try:
        log = rig.record_points()
        _send(rig, task_id)
        rig.disarm()
        assert _violations(rig, task_id) == []
    finally:
        rig.close()
    points = list(dict.fromkeys(log.read_text(encoding="utf-8").split()))
    assert len(points) >= LEAST, points
    names = [tmp_path / f"p{number}" for number in range(len(points))]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        results = list(pool.map(_play, names, points))
    broken = [said for _, found in results for said in found]
    reached = sum(died for died, _ in results)
    with capsys.disabled():
        print(f"\nsweep of send: {len(points)} points, {reached} reached, {len(broken)} violations")
    assert broken == []
    assert reached >= len(points) * 9 // 10
