"""Logs: every byte below the bound, and above it the beginning, the end, and a true account of what is missing."""

import os
import resource

from shim.stage import Bench, Execution, python, sh
from support.waiting import wait_until

MIB = 1024 * 1024
NUMBERED = """
import sys
for block in range(int(sys.argv[1]) * 16):
    sys.stdout.buffer.write(b"%015d\\n" % block * 4096)
sys.stdout.buffer.flush()
print("written", file=sys.stderr, flush=True)
sys.stdin.read()
"""


def written(mebibytes: int) -> bytes:
    """What NUMBERED prints."""
    return b"".join(b"%015d\n" % block * 4096 for block in range(mebibytes * 16))


def check(execution: Execution, mebibytes: int, limit: int) -> None:
    """The log is whole but for what the record names; and it is as small as it was to be."""
    whole = written(mebibytes)
    data, start, end = wait_until(
        lambda: dropped(execution, len(whole)), what="what is on record as dropped is dropped"
    )
    assert start == MIB
    assert len(data) - end >= limit - MIB
    assert data[:start] == whole[:start]
    assert data[end:] == whole[end:]
    assert is_bounded(execution, limit)


def dropped(execution: Execution, size: int) -> tuple[bytes, int, int] | None:
    """The whole log and its dropped range; None while it is shorter than `size`, or a hole is being made: its record comes first."""
    record = execution.record("dropped.json")
    data = (execution.path / "stdout.log").read_bytes()
    ((start, end),) = record["stdout.log"]
    is_whole = len(data) == size and data[start:end] == bytes(end - start)
    return (data, start, end) if is_whole and execution.record("dropped.json") == record else None


def is_bounded(execution: Execution, limit: int) -> bool:
    """Whether the log takes as little room as it was to."""
    return (execution.path / "stdout.log").stat().st_blocks * 512 <= limit + limit // 8 + 256 * 1024


def test_every_byte_below_the_bound_is_kept(bench: Bench) -> None:
    execution = bench.execution(python(NUMBERED, "7"), log_limit_bytes=8 * MIB)
    assert execution.run() == 0
    assert (execution.path / "stdout.log").read_bytes() == written(7)
    assert execution.output("stderr.log") == "written\n"
    assert execution.record("dropped.json") is None


def test_a_long_log_is_bounded_while_the_agent_runs(bench: Bench) -> None:
    execution = bench.started(python(NUMBERED, "40"), input=True, log_limit_bytes=4 * MIB)
    execution.wait_for_output("written", "stderr.log")
    wait_until(lambda: is_bounded(execution, 4 * MIB), within_s=30, what="the log has holes")
    check(execution, 40, 4 * MIB)
    execution.ask("close_input")
    assert execution.shims[0].wait(timeout=30) == 0


def test_a_log_is_bounded_at_the_end_however_quickly_it_came(bench: Bench) -> None:
    """The agent is over before the first look."""
    execution = bench.execution(python(NUMBERED, "40"), log_limit_bytes=4 * MIB)
    assert execution.run() == 0
    check(execution, 40, 4 * MIB)


def test_logs_grow_by_appending_whoever_writes(bench: Bench) -> None:
    """Four processes with descriptors of their own, each of which writes a line at once: none is lost or torn."""
    count = "n=1; while [ $n -le 2000 ]; do echo $n; n=$((n+1)); done"
    execution = bench.execution(sh(f"for i in 1 2 3 4; do ({count}) >/dev/stdout & done; wait"))
    assert execution.run() == 0
    assert sorted(map(int, execution.output().split())) == sorted(list(range(1, 2001)) * 4)


def test_a_full_disk_delays_the_exit_record_and_does_not_lose_it(bench: Bench) -> None:
    """The shim may write nothing for a while: it holds its lock, says that the agent has ended, and writes the record as soon as it can."""
    execution = bench.started(sh("read x; exit 9"), input=True)
    shim = execution.shims[0]
    assert execution.ask("status")["ok"] is True
    # A limit of the process's own does what a full disk does, without one.
    _, hard = resource.prlimit(shim.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(shim.pid, resource.RLIMIT_FSIZE, (0, hard))
    assert execution.ask("close_input") == {"ok": True}
    wait_until(lambda: execution.ask("status")["state"] == "ended", what="the agent has ended")
    assert execution.record("exit.json") is None
    assert not (execution.path / "exit.reserve").exists(), "the reserved space was given up for it"
    assert shim.poll() is None
    resource.prlimit(shim.pid, resource.RLIMIT_FSIZE, (hard, hard))
    assert shim.wait(timeout=30) == 0
    assert os.WEXITSTATUS(execution.record("exit.json")["status"]) == 9
    assert execution.record("gone.json")["proof"] == "proven"
    assert [path.name for path in execution.path.iterdir() if path.name.endswith(".tmp")] == []


def test_a_full_disk_does_not_keep_an_agent_from_being_ended(bench: Bench) -> None:
    """The reason cannot be recorded beforehand, so the exit record alone names it."""
    execution = bench.started(sh("echo up; (sleep 300 & sleep 300)"))
    execution.wait_for_output("up")
    shim = execution.shims[0]
    _, hard = resource.prlimit(shim.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(shim.pid, resource.RLIMIT_FSIZE, (0, hard))
    assert execution.ask("stop", grace_s=0.2) == {"ok": True}
    wait_until(lambda: not execution.survivors(), what="nothing is left")
    assert (execution.record("stop.json"), execution.record("exit.json")) == (None, None)
    resource.prlimit(shim.pid, resource.RLIMIT_FSIZE, (hard, hard))
    assert shim.wait(timeout=30) == 0
    assert execution.record("exit.json")["reason"] == "stop"


def test_space_is_reserved_before_the_decision(bench: Bench) -> None:
    """On a full disk nothing is decided and nothing runs."""
    execution = bench.execution(sh("echo ran"))

    def no_space() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))

    assert execution.start(preexec_fn=no_space).wait(timeout=30) == 6
    assert not (execution.path / "decide").exists()
    assert "cannot be used" in execution.complaints()
