"""How an execution ends, what is recorded of it, and that nothing is left."""

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from shim.stage import Bench, Execution, answer, python, sh
from support.waiting import wait_until

from watchkeeper.domain.evidence import LockState
from watchkeeper.runtimes import proc, records

STUBBORN = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.setsid()
        if os.fork() == 0:
            time.sleep(300)
        print("up", flush=True)
        time.sleep(300)
print("up", flush=True)
while True:
    time.sleep(300)
"""
"""Ignores everything that can be ignored, and has children that left its session and its parentage."""

RUNNER = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
until = time.monotonic() + float(sys.argv[1])
if len(sys.argv) > 2 and os.fork():
    os._exit(0)  # the agent itself ends at once
while time.monotonic() < until:
    if os.fork():
        os._exit(0)
    os.setsid()
time.sleep(300)
"""
"""Is a new process every moment: the one that was found is gone by the time it is signalled."""


def ended(execution: Execution, code: int = 0) -> dict[str, object]:
    """The exit record, once all is over: proven, nothing alive, socket removed, lock free."""
    assert execution.shims[-1].wait(timeout=60) == code
    gone = execution.record("gone.json")
    assert (gone["proof"], gone["how"]) == ("proven", "echild")
    assert execution.survivors() == []
    assert not execution.address.exists()
    assert "fault" not in execution.complaints()
    assert not (execution.path / "exit.reserve").exists()
    assert execution.lock() is LockState.FREE
    # The daemon's own reader takes them.
    records.parse_exit((execution.path / "exit.json").read_bytes())
    records.parse_gone((execution.path / "gone.json").read_bytes())
    return execution.record("exit.json")


@pytest.mark.parametrize("code", [0, 1, 7, 127, 255])
def test_the_exit_status_is_exact(bench: Bench, code: int) -> None:
    execution = bench.execution(sh(f"exit {code}"), wake=True)
    execution.start()
    record = ended(execution)
    assert os.waitstatus_to_exitcode(int(str(record["status"]))) == code
    assert (record["reason"], record["errno"]) == ("exited", None)
    assert execution.record("stop.json") is None
    assert execution.record("gone.json")["leftovers"] == []


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM])
def test_an_agents_own_signal_is_its_own_end(bench: Bench, number: signal.Signals) -> None:
    execution = bench.execution(sh(f"kill -{number.value} $$"))
    execution.start()
    record = ended(execution)
    assert os.WTERMSIG(int(str(record["status"]))) == number
    assert record["reason"] == "exited"


def test_resources_and_time_are_told(bench: Bench) -> None:
    execution = bench.execution(python("x = bytearray(60 << 20); n = 0\nfor i in range(10 ** 6): n += i"))
    execution.start()
    record = ended(execution)
    assert int(str(record["max_rss_kib"])) > 60 * 1024
    assert 0 < float(str(record["user_s"])) <= float(str(record["elapsed_s"])) + 0.1


def test_a_stop_is_term_first(bench: Bench) -> None:
    """The reason is on record before the signal, and the agent may end in its own way."""
    execution = bench.started(
        sh("trap 'cat \"$1\"; exit 5' TERM; echo up; while :; do sleep 0.05; done", "e0/stop.json")
    )
    execution.wait_for_output("up")
    assert execution.ask("stop", grace_s=30) == {"ok": True}
    record = ended(execution)
    assert (record["status"], record["reason"]) == (5 << 8, "stop")
    assert '"how": "stop"' in execution.output()
    assert execution.record("stop.json")["how"] == "stop"


def test_a_stop_reaches_the_group_and_a_halted_agent(bench: Bench) -> None:
    """TERM goes to the group; one that was halted is woken to hear it."""
    execution = bench.started(sh("sleep 300 & echo up; kill -STOP $$; wait"))
    execution.wait_for_output("up")
    assert execution.ask("stop", grace_s=300, how="early_fail") == {"ok": True}
    record = ended(execution)
    assert (os.WTERMSIG(int(str(record["status"]))), record["reason"]) == (signal.SIGTERM, "early_fail")


@pytest.mark.parametrize("how", ["stop", "kill", "deadline", "interrupted"])
def test_nothing_outlives_the_ladder(bench: Bench, how: str) -> None:
    """An agent that ignores TERM, with grandchildren in sessions of their own that ignore it too: all gone, proven, and the first reason stays."""
    changes: dict[str, Any] = {"deadline_s": 1.5} if how == "deadline" else {}
    execution = bench.started(python(STUBBORN), grace_s=0.3, **changes)
    wait_until(lambda: execution.output().count("up") == 4, what="all are up")
    if how == "stop":
        assert execution.ask("stop", grace_s=0.2) == {"ok": True}
    elif how == "kill":
        assert execution.ask("kill") == {"ok": True}
    elif how == "interrupted":
        execution.shims[0].terminate()
    record = ended(execution)
    assert (os.WTERMSIG(int(str(record["status"]))), record["reason"]) == (signal.SIGKILL, how)
    assert execution.record("stop.json")["how"] == how


def test_a_signal_to_the_shim_interrupts(bench: Bench) -> None:
    """When the system is shut down everything gets it."""
    execution = bench.started(sh("echo up; exec sleep 300"))
    execution.wait_for_output("up")
    execution.shims[0].terminate()
    record = ended(execution)
    assert (record["reason"], record["status"]) == ("interrupted", signal.SIGTERM)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_that_is_not_for_the_shim_ends_nothing(bench: Bench, number: signal.Signals) -> None:
    execution = bench.started(sh("read x; exit 4"), input=True)
    execution.shims[0].send_signal(number)
    assert execution.ask("status")["how"] is None
    assert execution.ask("close_input") == {"ok": True}
    record = ended(execution)
    assert (record["reason"], os.WEXITSTATUS(int(str(record["status"])))) == ("exited", 4)


END_PYTHONS = """
import os, signal
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        names = open(f"/proc/{pid}/comm").read() + open(f"/proc/{pid}/cmdline").read()
    except OSError:
        continue
    if "python" in names and pid == str(os.getppid()):
        os.kill(int(pid), signal.SIGTERM)
print("done")
"""
"""Of all that it finds it spares what is not its parent: the machine is not only ours."""


def test_an_agent_that_ends_all_pythons_spares_its_shim(bench: Bench) -> None:
    """By the name of the program, by the whole command line, and by what its interpreter is called."""
    execution = bench.execution(python(END_PYTHONS))
    assert execution.run() == 0
    assert execution.record("exit.json")["reason"] == "exited"
    assert execution.output() == "done\n"


def test_a_shim_has_a_name_of_its_own(bench: Bench) -> None:
    execution = bench.started(["/bin/sleep", "300"])
    shim = execution.shims[0].pid
    assert Path(f"/proc/{shim}/comm").read_text() == "wk-shim\n"
    words = Path(f"/proc/{shim}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    assert words == [b"wk-shim", bytes(execution.path)]


@pytest.mark.parametrize("signalled", [True, False])
def test_a_request_on_record_is_obeyed_with_its_reason_and_grace(bench: Bench, signalled: bool) -> None:
    """Its socket is gone. The signal only makes it look at once; it looks from time to time anyway."""
    execution = bench.started(python(STUBBORN), grace_s=300)
    wait_until(lambda: execution.output().count("up") == 4, what="all are up")
    execution.address.unlink()
    (execution.path / "new").write_text('{"do": "stop", "how": "early_fail", "grace_s": 0.1}')
    (execution.path / "new").rename(execution.path / "request.json")
    if signalled:
        execution.shims[0].send_signal(signal.SIGUSR1)
    record = ended(execution)
    assert (os.WTERMSIG(int(str(record["status"]))), record["reason"]) == (signal.SIGKILL, "early_fail")


@pytest.mark.parametrize("record", ["", "{", "[]", '{"do": "input"}', '{"do": "stop", "how": "whim"}'])
def test_a_request_on_record_that_is_none_is_complained_of_once(bench: Bench, record: str) -> None:
    execution = bench.started(sh("read x"), input=True)
    (execution.path / "request.json").write_text(record)
    for _ in range(3):
        execution.shims[0].send_signal(signal.SIGUSR1)
        assert execution.ask("status")["how"] is None
    execution.ask("close_input")
    assert ended(execution)["reason"] == "exited"
    assert execution.complaints().count("request.json") == 1


def test_a_kill_after_a_stop_does_not_wait(bench: Bench) -> None:
    """The grace of ten minutes is over; the first reason stays."""
    execution = bench.started(python(STUBBORN))
    wait_until(lambda: execution.output().count("up") == 4, what="all are up")
    assert execution.ask("stop", grace_s=600) == {"ok": True}
    assert execution.ask("status")["how"] == "stop"
    assert execution.ask("kill") == {"ok": True}
    assert ended(execution)["reason"] == "stop"


def test_a_second_stop_may_shorten_the_grace_and_never_lengthens_it(bench: Bench) -> None:
    execution = bench.started(python(STUBBORN))
    wait_until(lambda: execution.output().count("up") == 4, what="all are up")
    assert execution.ask("stop", grace_s=600) == {"ok": True}
    assert execution.ask("stop", grace_s=0.2, how="early_fail") == {"ok": True}
    assert execution.ask("stop", grace_s=600) == {"ok": True}
    assert ended(execution)["reason"] == "stop"


def test_an_end_before_any_signal_is_the_agents_own(bench: Bench) -> None:
    """It has ended by itself; what stop ends is only what it left."""
    execution = bench.started(sh("sleep 300 & exit 4"), leftovers="wait")
    assert execution.wait("exit.json")["reason"] == "exited"
    assert execution.ask("status")["state"] == "ended"
    assert execution.ask("stop") == {"ok": True}
    record = ended(execution)
    assert (record["status"], record["reason"]) == (4 << 8, "exited")
    assert execution.record("stop.json") is None
    assert execution.record("gone.json")["killed"] == 1


def test_what_is_left_behind_is_ended_and_named(bench: Bench) -> None:
    """The exit is on record while leftovers still live; they get TERM, then KILL."""
    code = "trap '' TERM; (trap 'echo heard; exit' TERM; echo up; while :; do sleep 0.02; done) & sleep 301 & "
    execution = bench.started(
        sh(code + "while ! grep -q up e0/stdout.log; do sleep 0.02; done; exit 3"), leftovers_grace_s=0.5
    )
    assert execution.wait("exit.json")["status"] == 3 << 8
    record = ended(execution)
    assert (record["status"], record["reason"]) == (3 << 8, "exited")
    gone = execution.record("gone.json")
    assert any("sleep 301" in each["command"] for each in gone["leftovers"])
    assert gone["killed"] >= 2
    assert "heard" in execution.output()


def test_what_is_left_behind_may_be_waited_for(bench: Bench) -> None:
    """With `wait` it lives until it ends by itself, and is named all the same."""
    fifo = bench.root / "fifo"
    os.mkfifo(fifo)
    execution = bench.started(sh('(read x <"$1"; echo late) & exit 0', str(fifo)), leftovers="wait")
    assert execution.wait("exit.json")["reason"] == "exited"
    assert execution.ask("status")["leftovers"] == 1
    assert (execution.record("gone.json"), execution.lock()) == (None, LockState.HELD)
    fifo.write_text("go\n")
    assert ended(execution)["reason"] == "exited"
    assert execution.output() == "late\n"
    gone = execution.record("gone.json")
    assert (len(gone["leftovers"]), gone["killed"]) == (1, 0)


@pytest.mark.parametrize("agent_ends", [False, True], ids=["agent runs on", "agent ends"])
def test_a_process_that_forks_without_end_is_caught(bench: Bench, agent_ends: bool) -> None:
    """For as long as it does so there is a living process, and none that was found is still there; in the end there is none."""
    execution = bench.started(python(RUNNER, "8", *(["end"] if agent_ends else [])), leftovers_grace_s=0.2)
    execution.wait_for_output("up")
    began = time.monotonic()
    if not agent_ends:
        assert execution.ask("kill") == {"ok": True}
    ended(execution)
    assert time.monotonic() - began < 60


def test_many_leftovers_are_named_up_to_a_bound(bench: Bench) -> None:
    execution = bench.execution(sh("i=0; while [ $i -lt 130 ]; do sleep 300 & i=$((i+1)); done; exit 0"))
    execution.start()
    ended(execution)
    gone = execution.record("gone.json")
    assert len(gone["leftovers"]) == 100
    assert gone["killed"] >= 100
    assert all(len(each["command"]) <= 200 for each in gone["leftovers"])


def test_a_far_deadline_is_no_trouble(bench: Bench) -> None:
    """More milliseconds than fit into an int."""
    execution = bench.execution(sh("exit 0"), deadline_s=1e9, grace_s=1e300)
    execution.start()
    assert ended(execution)["reason"] == "exited"


def test_a_deadline_that_is_met_ends_nothing(bench: Bench) -> None:
    execution = bench.execution(sh("exit 0"), deadline_s=20)
    execution.start()
    assert ended(execution)["reason"] == "exited"
    assert execution.record("stop.json") is None


def test_a_hint_that_nobody_hears_costs_nothing(bench: Bench) -> None:
    execution = bench.execution(sh("exit 0"), wake=str(bench.sockets / "nobody"))
    execution.start()
    ended(execution)
    assert execution.complaints() == ""


def halted(execution: Execution, point: str) -> None:
    """Wait until the shim stands still at a point."""
    pid = execution.shims[-1].pid
    wait_until(lambda: (it := proc.stat_of(pid)) is not None and it.state == "T", within_s=30, what=f"it is at {point}")


def test_an_end_while_the_reason_is_written_is_the_agents_own(bench: Bench) -> None:
    """The shim stands still between stop.json and the first signal, and the agent ends: none of our signals had a part in that."""
    point = "shim.stop.sync.after"
    execution = bench.execution(sh("read x; exit 6"), input=True)
    shim = execution.start({"WATCHKEEPER_CRASH_AT": point, "WATCHKEEPER_CRASH_SIGNAL": "STOP"})
    execution.wait("proc.json")
    with execution.connect() as connection:
        connection.sendall(json.dumps({"token": execution.token, "do": "stop"}).encode() + b"\n")
        halted(execution, point)
        # Through the agent's own input: the shim's end of it is all that is open.
        pid = execution.record("proc.json")["pid"]
        Path(f"/proc/{pid}/fd/0").write_text("go\n")
        wait_until(lambda: (it := proc.stat_of(pid)) is not None and not it.alive, what="the agent has ended")
        shim.send_signal(signal.SIGCONT)
        assert answer(connection) == {"ok": True}
    record = ended(execution)
    assert (record["status"], record["reason"]) == (6 << 8, "exited")


def test_a_signal_to_the_shim_before_the_agent_begins_is_not_lost(bench: Bench) -> None:
    """It is too late to launch nothing, so what was launched is ended."""
    point = "shim.decide.sync.after"
    execution = bench.execution(sh("exec sleep 300"))
    shim = execution.start({"WATCHKEEPER_CRASH_AT": point, "WATCHKEEPER_CRASH_SIGNAL": "STOP"})
    halted(execution, point)
    shim.terminate()
    shim.send_signal(signal.SIGCONT)
    record = ended(execution)
    assert (record["status"], record["reason"]) == (signal.SIGTERM, "interrupted")


def test_a_stop_before_the_agent_has_begun_is_not_lost(bench: Bench) -> None:
    """TERM meets the child between fork and exec, where the shim's own handlers are still in place: it must end it, not wait for the grace to be over."""
    execution = bench.execution(sh("exec sleep 300"), grace_s=300)
    shim = execution.start({"WATCHKEEPER_CRASH_AT": "shim.release.before", "WATCHKEEPER_CRASH_SIGNAL": "STOP"})
    halted(execution, "shim.release.before")
    pid = execution.record("proc.json")["pid"]
    os.kill(pid, signal.SIGTERM)
    shim.send_signal(signal.SIGCONT)
    record = ended(execution)
    assert record["status"] == signal.SIGTERM


@pytest.mark.parametrize("deaf", [False, True])
def test_a_shim_whose_directory_was_deleted_ends_after_its_agent(bench: Bench, deaf: bool) -> None:
    """There is nowhere to write to, forever: it does not stay for that; one whose address was cleared away does not either."""
    execution = bench.execution(sh("echo up; read go < fifo"))
    os.mkfifo(execution.path.parent / "fifo")
    execution.start()
    execution.wait("proc.json")
    if deaf:
        wait_until(execution.address.exists, what="it listens")
        execution.address.unlink()
    else:
        shutil.rmtree(execution.path)
    with (execution.path.parent / "fifo").open("w") as fifo:
        fifo.write("go\n")
    assert execution.shims[-1].wait(timeout=10) == 0
    assert execution.survivors() == []
    assert deaf or not execution.path.exists()
