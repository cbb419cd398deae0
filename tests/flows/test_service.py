"""A service that fails, with real agents and a real daemon: nothing is lost, little is started, and people learn of it."""

import json

from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import RunState, TaskState

QUICK = {"WATCHKEEPER_QUEUE_PROBE_BASE": "0.3s", "WATCHKEEPER_QUEUE_PROBE_CAP": "1s"}
NEVER = {"WATCHKEEPER_QUEUE_PROBE_BASE": "1h", "WATCHKEEPER_QUEUE_PROBE_CAP": "1h"}


def hand_over(rig: Rig, prompt: str) -> str:
    """A task of the demo agent that works beside others."""
    done = rig.wk("run", "--harness", "demo", "--shared", "--expect", "answer", "--json", prompt)
    return str(json.loads(done.stdout.splitlines()[0])["id"])


def waits(rig: Rig, task_id: str) -> list[str]:
    """The words for why it waits."""
    return [reason["wait"] for reason in json.loads(rig.wk("why", task_id, "--json").stdout)["reasons"]]


def test_twenty_tasks_outlive_an_outage(rig: Rig) -> None:
    """The service fails the first eight requests, whichever agent makes them. A daemon dies meanwhile."""
    rig.settings = QUICK
    rig.start_daemon()
    tasks = [hand_over(rig, f"fail-once overloaded {rig.root / 'asked'} 8\nsay Done.") for _ in range(20)]
    _ = wait_until(lambda: len([run for task_id in tasks for run in rig.runs(task_id)]) > 5, what="the first probes")
    rig.kill_daemon()
    assert {rig.wait_resting(task_id).state for task_id in tasks} == {TaskState.DONE}
    assert {rig.task(task_id).attempts for task_id in tasks} == {1}
    runs = [run for task_id in tasks for run in rig.runs(task_id)]
    failed = [run for run in runs if run.kind is FailureKind.OVERLOADED]
    assert len(failed) <= 8 and len(runs) - len(failed) == 20


def test_people_are_told_of_a_service_that_fails(rig: Rig) -> None:
    """By every command that says why something waits; after a while it needs them; their command tries it at once."""
    rig.settings = {**NEVER, "WATCHKEEPER_QUEUE_LIMIT": "1"}
    rig.start_daemon()
    first = hand_over(rig, f"fail-once network {rig.root / 'asked'} 1\nsay Done.")
    second = hand_over(rig, "say Done.")
    _ = wait_until(lambda: waits(rig, second) == ["service"], what="the lane is closed")
    _ = wait_until(lambda: "service" in rig.wk("ls").stdout.decode(), what="the list says so")
    why, shown = rig.wk("why", second).stdout.decode(), rig.wk("show", second).stdout.decode()
    for told in (why, shown):
        assert "service: the service of demo:own cannot be reached since" in " ".join(told.split())
    status = " ".join(rig.wk("status").stdout.decode().split())
    assert "The service of demo:own cannot be reached since" in status and "; next probe at" in status
    assert "Needs you" not in status
    rig.settings = {**rig.settings, "WATCHKEEPER_QUEUE_OUTAGE_PATIENCE": "0.01s"}
    assert "Needs you: The service of demo:own" in " ".join(rig.wk("status").stdout.decode().split())
    [closed] = json.loads(rig.wk("status", "--json").stdout)["accounts_closed"]
    assert (closed["id"], closed["service"], closed["probes"], closed["needs_you"]) == ("demo:own", "network", 0, True)
    listed = rig.wk("account", "ls").stdout.decode()
    assert "network since" in listed
    events = rig.wk("events").stdout.decode()
    assert events.count("account demo:own: its service is in trouble (network)") == 1
    assert rig.task(second).runs == 0
    rig.wk("retry", second)
    assert {rig.wait_resting(task_id).state for task_id in (first, second)} == {TaskState.DONE}
    assert "tries the service of demo:own for all its tasks" in rig.wk("events").stdout.decode()


def test_a_probe_that_is_stopped_makes_way(rig: Rig) -> None:
    """It hangs, and a person stops it: the next task is the probe."""
    rig.settings = {**QUICK, "WATCHKEEPER_QUEUE_LIMIT": "1"}
    rig.start_daemon()
    first = hand_over(rig, "fail overloaded")
    _ = wait_until(lambda: rig.task(first).kind is FailureKind.OVERLOADED, what="it failed")
    hangs, last = hand_over(rig, "hang"), hand_over(rig, "say Done.")
    _ = wait_until(lambda: [run for run in rig.runs(hangs) if run.state is RunState.RUNNING], what="the probe is out")
    assert f"task {hangs} is the probe" in " ".join(rig.wk("why", last).stdout.decode().split())
    rig.wk("stop", hangs)
    assert rig.wait_resting(last).state is TaskState.DONE
    rig.wk("stop", first)
