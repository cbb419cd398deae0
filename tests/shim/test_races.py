"""What happens at once: shims on one directory, an end and a stop, a signal and the launch. The order is made certain by halting the shim."""

import json
import os
import signal
import socket

import pytest
from shim.stage import Bench, Execution, answer, python, sh
from support.waiting import wait_until

from watchkeeper.domain.evidence import LockState
from watchkeeper.runtimes import proc

ROUNDS = 12


def state(pid: int) -> str:
    """The kernel's letter."""
    found = proc.stat_of(pid)
    return found.state if found is not None else "-"


def halted_at(execution: Execution, point: str) -> None:
    """Start a shim that stands still at a point, and wait until it does."""
    shim = execution.start({"WATCHKEEPER_CRASH_AT": point, "WATCHKEEPER_CRASH_SIGNAL": "STOP"})
    wait_until(lambda: state(shim.pid) == "T", within_s=30, what=f"the shim stands still at {point}")


def halt(execution: Execution) -> None:
    """Halt a shim wherever it is."""
    shim = execution.shims[-1]
    shim.send_signal(signal.SIGSTOP)
    wait_until(lambda: state(shim.pid) == "T", what="the shim stands still")


def go_on(execution: Execution) -> None:
    """Let the shim that was started last continue."""
    execution.shims[-1].send_signal(signal.SIGCONT)


def end(execution: Execution) -> tuple[int, str]:
    """The raw status and the reason, when all is over and proven."""
    assert execution.shims[-1].wait(timeout=60) == 0, execution.complaints()
    assert execution.record("gone.json")["proof"] == "proven"
    assert execution.survivors() == []
    record = execution.record("exit.json")
    return record["status"], record["reason"]


def send(connection: socket.socket, execution: Execution, **request: object) -> None:
    """Send a request and do not wait for the answer."""
    connection.sendall(json.dumps({"token": execution.token, **request}).encode() + b"\n")


def test_many_shims_at_once_start_one_agent_each_time(bench: Bench) -> None:
    """Three for one directory, round after round: one does it, the others find the lock held or the decision taken."""
    for _ in range(ROUNDS):
        execution = bench.execution(sh('echo x >>"$1"', str(bench.root / "starts")))
        codes = sorted(shim.wait(timeout=60) for shim in [execution.start() for _ in range(3)])
        assert codes[0] == 0
        assert set(codes[1:]) <= {3, 4}
    assert (bench.root / "starts").read_text() == "x\n" * ROUNDS


def test_a_second_shim_goes_while_the_first_decides(bench: Bench) -> None:
    execution = bench.execution(sh('echo x >>"$1"', str(bench.root / "starts")))
    halted_at(execution, "shim.decide.link.before")
    first = execution.shims[0]
    assert execution.run() == 3
    first.send_signal(signal.SIGCONT)
    assert first.wait(timeout=60) == 0
    assert (bench.root / "starts").read_text() == "x\n"


def test_a_decision_that_comes_first_by_a_hair_wins(bench: Bench) -> None:
    """The shim's own is written and about to be linked when recovery's is there."""
    execution = bench.execution(sh("echo ran"))
    halted_at(execution, "shim.decide.link.before")
    (execution.path / "decide").write_text('{"by": "recovery"}')
    go_on(execution)
    assert execution.shims[0].wait(timeout=60) == 4
    assert execution.record("decide") == {"by": "recovery"}
    assert (execution.output(), execution.record("proc.json")) == ("", None)
    assert [path.name for path in execution.path.iterdir() if path.name.endswith(".tmp")] == []


def test_an_end_that_comes_before_the_request_is_the_agents_own(bench: Bench) -> None:
    """The request waits at the socket while the agent ends: the shim sees both at once."""
    execution = bench.started(sh('echo up; read x <"$1"; exit 3', fifo := _fifo(bench)))
    execution.wait_for_output("up")
    agent = execution.record("proc.json")["pid"]
    with execution.connect() as connection:
        halt(execution)
        for do in ("stop", "kill"):
            send(connection, execution, do=do)
        _write(fifo)
        wait_until(lambda: state(agent) == "Z", what="the agent has ended")
        go_on(execution)
        assert [answer(connection)["ok"] for _ in range(2)] == [True, True]
    assert end(execution) == (3 << 8, "exited")


@pytest.mark.parametrize("point", ["shim.stop.write.before", "shim.stop.rename.before", "shim.stop.sync.after"])
def test_an_end_while_the_reason_is_written_is_the_agents_own(bench: Bench, point: str) -> None:
    """None of our signals had a part in it, whatever is on record about what we meant to do."""
    execution = bench.execution(sh('echo up; read x <"$1"; exit 3', fifo := _fifo(bench)))
    shim = execution.start({"WATCHKEEPER_CRASH_AT": point, "WATCHKEEPER_CRASH_SIGNAL": "STOP"})
    execution.wait_for_output("up")
    agent = execution.record("proc.json")["pid"]
    with execution.connect() as connection:
        send(connection, execution, do="stop")
        wait_until(lambda: state(shim.pid) == "T", what="the shim writes the reason")
        _write(fifo)
        wait_until(lambda: state(agent) == "Z", what="the agent has ended")
        go_on(execution)
        assert answer(connection) == {"ok": True}
    assert end(execution) == (3 << 8, "exited")


@pytest.mark.parametrize("point", ["shim.fork.after", "shim.proc.rename.before", "shim.release.before"])
def test_a_signal_to_the_shim_during_the_launch_is_not_lost(bench: Bench, point: str) -> None:
    """It is heard when the launch is on record, and ends the agent as later on."""
    execution = bench.execution(sh("exec sleep 600"))
    halted_at(execution, point)
    execution.shims[0].send_signal(signal.SIGTERM)
    go_on(execution)
    assert end(execution) == (signal.SIGTERM, "interrupted")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_that_is_killed_before_its_release_is_an_agent_that_ended(bench: Bench, number: signal.Signals) -> None:
    execution = bench.execution(sh("echo ran"))
    halted_at(execution, "shim.release.before")
    os.kill(execution.record("proc.json")["pid"], number)
    wait_until(lambda: state(execution.record("proc.json")["pid"]) == "Z", what="the child has ended")
    go_on(execution)
    assert end(execution) == (number, "exited")
    assert execution.output() == ""


def test_a_client_that_leaves_while_its_answer_is_due_takes_nobody_along(bench: Bench) -> None:
    """Its message is in the agent's input all the same, whole and before the next one."""
    count = "import sys; sys.stdin.buffer.read(1); print('up', flush=True); data = sys.stdin.buffer.read(); print(len(data), data.count(b'z'))"
    execution = bench.started(python(count), input=True)
    leaving, staying = execution.connect(), execution.connect()
    send(leaving, execution, do="input", id="a", data="y" * 1_000_001)
    execution.wait_for_output("up")
    send(staying, execution, do="input", id="b", data="z" * 10)
    halt(execution)
    leaving.close()
    go_on(execution)
    assert answer(staying) == {"ok": True}
    staying.close()
    assert execution.ask("close_input") == {"ok": True}
    assert end(execution) == (0, "exited")
    assert execution.output() == "up\n1000010 10\n"


def test_a_probe_never_takes_the_lock_away(bench: Bench) -> None:
    """Looking, opening and closing the lock's file however often."""
    execution = bench.started(sh("exec sleep 600"))
    for _ in range(20):
        assert execution.lock() is LockState.HELD
        (execution.path / "lock").open("r+b").close()
    assert execution.run() == 3
    execution.shims[0].kill()
    execution.shims[0].wait()
    assert execution.lock() is LockState.FREE


def test_a_leftover_does_not_hold_the_lock_of_a_dead_shim(bench: Bench) -> None:
    """What outlives a killed shim must not look like its heartbeat."""
    execution = bench.started(sh("setsid sleep 600 & echo up; wait"))
    execution.wait_for_output("up")
    execution.shims[0].kill()
    execution.shims[0].wait()
    assert execution.lock() is LockState.FREE
    assert execution.survivors() != []


def _fifo(bench: Bench) -> str:
    path = bench.root / f"fifo{len(bench.made)}"
    os.mkfifo(path)
    return str(path)


def _write(fifo: str) -> None:
    with open(fifo, "w", encoding="ascii") as file:  # noqa: PTH123 - waits for the reader
        file.write("go\n")
