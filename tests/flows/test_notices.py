"""Notices of the real daemon: each change once, also when it is killed at any step, and no outcome waits for a sink."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.model import TaskState


def received(rig: Rig) -> list[dict[str, str]]:
    file = rig.root / "told"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture
def telling(rig: Rig) -> Rig:
    """A rig whose notices are written into a file."""
    rig.settings = {"WATCHKEEPER_NOTIFY_COMMAND": f"cat >> {rig.root}/told"}
    return rig


def test_a_failure_and_a_success_are_told(telling: Rig) -> None:
    rig = telling
    rig.start_daemon()
    failed = rig.run("exit", "3")
    assert rig.wait_resting(failed).state is TaskState.FAILED
    done = rig.run("exit", "0")
    assert rig.wait_resting(done).state is TaskState.DONE
    wait_until(lambda: len(received(rig)) == 2, within_s=30, what="both are told")
    assert [(each["kind"], each["task"]) for each in received(rig)] == [("failed", failed), ("done", done)]
    assert received(rig)[0]["command"] == f"wk show {failed}" and "exit code 3" in received(rig)[0]["reason"]
    listed = json.loads(rig.wk("notify", "ls", "--json").stdout)
    assert [(each["sink"], each["problem"]) for each in listed] == [("command", None)]


def test_a_question_is_told_before_anyone_looks(telling: Rig) -> None:
    """The run of the demo agent that asks ends with a question."""
    rig = telling
    rig.start_daemon()
    task_id = rig.run("exit", "0", options=("--expect", "changes"))
    assert rig.wait_resting(task_id).state is TaskState.NEEDS_INPUT
    wait_until(lambda: received(rig), within_s=30, what="it is told")
    assert [(each["kind"], each["task"]) for each in received(rig)] == [("needs_you", task_id)]


def test_every_point_of_a_notice_is_one_at_which_the_daemon_may_die(telling: Rig) -> None:
    """Each change is sent at least once, with one id, and what was sent before is not sent again."""
    rig = telling
    points = _points(rig)
    assert points
    for number, point in enumerate(points):
        rig.disarm()
        rig.keep_daemon()
        before = rig.run("exit", "0")
        wait_until(lambda before=before: _ids(rig, before), within_s=30, what="the first is told")
        rig.wk("daemon", "stop")
        (rig.root / "died").unlink(missing_ok=True)
        rig.arm(point)
        rig.open_gate()
        rig.start_daemon()
        task_id = rig.run("exit", "0")
        wait_until(lambda: rig.died, within_s=30, what=f"the daemon died at {point} ({number})")
        _ = rig.daemons[-1].wait(30)
        rig.disarm()
        rig.keep_daemon()
        assert rig.wait_resting(task_id).state is TaskState.DONE
        wait_until(lambda task_id=task_id: _ids(rig, task_id), within_s=30, what=f"it is told although {point}")
        assert len(set(_ids(rig, task_id))) == 1 and len(_ids(rig, task_id)) <= 2
        assert len(_ids(rig, before)) == 1
    print(f"notices: {len(points)} points, 0 violations")


def _points(rig: Rig) -> list[str]:
    """The points that a daemon passes while it sends one notice."""
    log = rig.record_points()
    rig.start_daemon()
    rig.open_gate()
    task_id = rig.run("exit", "0")
    wait_until(lambda: _ids(rig, task_id), within_s=30, what="it is told")
    wait_until(lambda: "notice_sent" in log.read_text(), within_s=30, what="that is on record")
    rig.wk("daemon", "stop")
    (rig.root / "gate").unlink()
    return sorted(
        {line.split()[-1] for line in log.read_text().splitlines() if "notice" in line and "begin" not in line}
    )


def _ids(rig: Rig, task_id: str) -> list[str]:
    return [each["id"] for each in received(rig) if each["task"] == task_id]


class _Never(BaseHTTPRequestHandler):
    """Takes what is posted and does not answer until the test is over."""

    over: threading.Event

    def do_POST(self) -> None:
        self.over.wait(60)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base
        """Say nothing."""


def test_a_sink_that_does_not_answer_delays_no_outcome_and_no_other_sink(telling: Rig) -> None:
    rig, over = telling, threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Never", (_Never,), {"over": over}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    rig.settings = {**rig.settings, "WATCHKEEPER_NOTIFY_WEBHOOK": f"http://127.0.0.1:{server.server_port}/"}
    try:
        rig.start_daemon()
        for number in range(3):
            task_id = rig.run("exit", "0")
            assert rig.wait_resting(task_id).state is TaskState.DONE
            wait_until(lambda number=number: len(received(rig)) == number + 1, within_s=10, what="the command is told")
        rig.wk("daemon", "stop")
    finally:
        over.set()
        server.shutdown()
        server.server_close()


def test_what_happened_while_no_daemon_ran_is_told_by_the_next(telling: Rig) -> None:
    rig = telling
    rig.start_daemon()
    first = rig.run("exit", "0")
    wait_until(lambda: _ids(rig, first), within_s=30, what="the first is told")
    task_id = rig.run("wait", str(rig.root / "go"), "exit", "0")
    wait_until(rig.started_runs, within_s=30, what="it works")
    rig.kill_daemon()
    (rig.root / "go").touch()
    rig.start_daemon()
    assert rig.wait_resting(task_id).state is TaskState.DONE
    wait_until(lambda: _ids(rig, task_id), within_s=30, what="it is told")
    assert len(_ids(rig, first)) == 1


def test_a_test_notice_and_its_exit_code(telling: Rig) -> None:
    rig = telling
    assert b"command (cat): sent." in rig.wk("notify", "test").stdout
    assert received(rig)[0]["id"].startswith("test-")
    rig.settings = {"WATCHKEEPER_NOTIFY_WEBHOOK": "http://127.0.0.1:1/secret"}
    done = rig.wk("notify", "test", check=False)
    assert done.returncode == 8 and b"webhook (http://127.0.0.1:1/***): Connection refused." in done.stdout
    rig.settings = {}
    assert rig.wk("notify", "test", check=False).returncode == 8
    assert b"secret" not in done.stdout + done.stderr and Path(rig.state).is_dir()
