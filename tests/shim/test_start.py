"""What an agent finds when it begins, and when none begins."""

import errno
import json
import os
import resource
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from shim.stage import MARKER, Bench, python, sh
from support.waiting import wait_until

from watchkeeper.domain.evidence import LockState
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.shim_image import shim_command

ODD = b"--dash first\n\xc3\xa4 \xf0\x9f\x8c\xb1 $HOME `x` \"'\\ \n\n last line without end"
"""A prompt that every quoting mistake would spoil."""

SHOW = """
import json, os, resource, signal, sys
status = dict(line.split(":\\t") for line in open("/proc/self/status") if ":\\t" in line)
fds = sorted(int(name) for name in os.listdir("/proc/self/fd"))
print(json.dumps({
    "environment": {os.fsdecode(k): os.fsdecode(v) for k, v in os.environb.items()}, "cwd": os.getcwd(), "pid": os.getpid(), "session": os.getsid(0),
    "group": os.getpgrp(), "umask": os.umask(0), "nofile": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    "ignored": int(status["SigIgn"], 16), "blocked": int(status["SigBlk"], 16), "fds": [f for f in fds if os.path.exists(f"/proc/self/fd/{f}")],
    "streams": [os.readlink(f"/proc/self/fd/{n}") for n in range(3)],
}))
"""


@pytest.mark.parametrize("prompt", [b"", ODD, b"x" * 100_000], ids=["empty", "odd", "long"])
@pytest.mark.parametrize(
    ("by", "argv"),
    [("stdin", sh("cat")), ("argument", sh('printf %s "$1"', None)), ("file", sh('cat "$1"', None))],
    ids=["stdin", "argument", "file"],
)
def test_the_prompt_arrives_byte_for_byte(bench: Bench, by: str, argv: list[str | None], prompt: bytes) -> None:
    """Whichever way it goes."""
    execution = bench.execution(argv, prompt, prompt_by=by)
    assert execution.run() == 0
    assert (execution.path / "stdout.log").read_bytes() == prompt
    assert execution.record("exit.json")["status"] == 0


@pytest.mark.parametrize("keep_input", [False, True])
def test_a_large_prompt_goes_through_standard_input(bench: Bench, keep_input: bool) -> None:
    """More than any pipe holds."""
    prompt = os.urandom(1024 * 1024)
    execution = bench.execution(
        python("import sys; print(len(d := sys.stdin.buffer.read(1 << 20)), flush=True); sys.stdout.buffer.write(d)"),
        prompt,
        prompt_by="stdin",
        input=keep_input,
    )
    assert execution.run() == 0
    assert (execution.path / "stdout.log").read_bytes() == b"1048576\n" + prompt


def test_a_prompt_with_a_zero_byte_is_no_argument(bench: Bench) -> None:
    """It could only arrive cut short, so nothing is run."""
    execution = bench.execution(sh("true", None), b"a\0b", prompt_by="argument")
    assert execution.run() == 0
    assert (execution.record("exit.json")["reason"], execution.record("exit.json")["errno"]) == (
        "spawn_failed",
        errno.EINVAL,
    )


def test_the_environment_is_the_specs_and_nothing_else(bench: Bench) -> None:
    """Not the shim's own, crash points included; what is not UTF-8 survives."""
    wanted = {"PATH": "/nowhere", "ODD": "a\udcffb=c\nd", MARKER: "x"}
    execution = bench.execution(python(SHOW), environment=wanted)
    assert execution.run({"WATCHKEEPER_CRASH_LOG": str(bench.root / "points")}) == 0
    seen = json.loads(execution.output())["environment"]
    seen.pop("LC_CTYPE", None)  # Python's own doing
    assert seen == wanted


def test_an_agent_begins_as_if_started_by_a_shell(bench: Bench) -> None:
    """A session of its own, default signals, no descriptors but the three, whatever the shim was given itself."""
    stray = os.open("/dev/zero", os.O_RDONLY)
    os.set_inheritable(stray, True)
    execution = bench.execution(python(SHOW), cwd="/usr", nofile=77)

    def spoil() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR1})
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGQUIT, signal.SIG_IGN)

    try:
        assert execution.start(close_fds=False, preexec_fn=spoil).wait(timeout=30) == 0
    finally:
        os.close(stray)
    seen = json.loads(execution.output())
    assert seen["cwd"] == "/usr"
    assert seen["pid"] == seen["session"] == seen["group"] == execution.record("proc.json")["pid"]
    assert (seen["umask"], seen["nofile"], seen["fds"]) == (0o022, 77, [0, 1, 2])
    # Python ignores these two itself.
    assert seen["ignored"] & ~(1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1) == 0
    assert seen["blocked"] == 0
    assert seen["streams"] == ["/dev/null", *(str(execution.path / name) for name in ("stdout.pipe", "stderr.pipe"))]


def test_broken_pipes_end_programs_in_a_shell(bench: Bench) -> None:
    """Python ignores SIGPIPE; an agent's shell must not inherit that."""
    execution = bench.execution(sh("yes | head -n 1"))
    assert execution.run() == 0
    assert (execution.output(), execution.output("stderr.log")) == ("y\n", "")


def test_a_shim_started_with_closed_streams_still_works(bench: Bench) -> None:
    execution = bench.execution(sh("cat; echo out; echo err >&2"))
    closing = 'exec "$@" 0<&- 1>&- 2>&-'
    done = subprocess.run(
        ["/bin/sh", "-c", closing, "sh", *shim_command(execution.image, execution.path)],
        env={"PATH": "/bin"},
        timeout=30,
        check=False,
    )
    assert done.returncode == 0
    assert (execution.output(), execution.output("stderr.log")) == ("out\n", "err\n")


def test_a_program_is_looked_up_in_the_path_of_the_spec(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "my-agent").write_text("#!/bin/sh\necho found\n")
    (tmp_path / "bin" / "my-agent").chmod(0o755)
    execution = bench.execution(["my-agent"], environment={"PATH": f"/nowhere:{tmp_path}/bin"})
    assert execution.run() == 0
    assert execution.output() == "found\n"


@pytest.mark.parametrize(
    ("argv", "changes", "number", "failed"),
    [
        (["/nowhere/agent"], {}, errno.ENOENT, ("exec", "/nowhere/agent")),
        (["no-such-agent"], {}, errno.ENOENT, ("exec", "no-such-agent")),
        (["/etc/passwd"], {}, errno.EACCES, ("exec", "/etc/passwd")),
        (["/bin/true"], {"cwd": "/nowhere"}, errno.ENOENT, ("chdir", "/nowhere")),
        (["/bin/true"], {"cwd": "/etc/passwd"}, errno.ENOTDIR, ("chdir", "/etc/passwd")),
        (["/bin/true", "x" * 200_000], {}, errno.E2BIG, ("exec", "/bin/true")),
    ],
    ids=["missing", "not in PATH", "no program", "no directory", "a file as directory", "too long"],
)
def test_what_cannot_be_run_says_why(
    bench: Bench, argv: list[str | None], changes: dict[str, Any], number: int, failed: tuple[str, str]
) -> None:
    """The exit record names the error, the step and what it was about; nothing is left, and that is proven."""
    execution = bench.execution(argv, **changes)
    assert execution.run() == 0
    record = execution.record("exit.json")
    assert (record["status"], record["reason"], record["errno"]) == (None, "spawn_failed", number)
    assert (record["step"], record["path"]) == failed
    assert execution.record("gone.json")["proof"] == "proven"
    assert execution.lock() is LockState.FREE


def test_a_program_whose_interpreter_is_missing_is_there_itself(bench: Bench, tmp_path: Path) -> None:
    """The system tells both by the same error."""
    script = tmp_path / "script"
    script.write_text("#!/nowhere/interpreter\n")
    script.chmod(0o755)
    execution = bench.execution([str(script)])
    assert execution.run() == 0
    record = execution.record("exit.json")
    assert (record["errno"], record["step"], record["path"]) == (errno.ENOENT, "interpreter", str(script))


@pytest.mark.parametrize(
    "spec",
    [
        None,
        b"",
        b"{",
        b"[]",
        b'{"format": 2}',
        b'{"format": 1}',
        b"\xff",
        b"[" * 100_000,
    ],
    ids=["missing", "empty", "cut", "no object", "newer", "lacking", "no text", "deep"],
)
def test_a_spec_that_cannot_be_used_starts_nothing(bench: Bench, spec: bytes | None) -> None:
    """Exit 5 with a sentence, and no decision, so that the next process may rule the launch out."""
    execution = bench.execution(sh("true"))
    if spec is None:
        (execution.path / "spec.json").unlink()
    else:
        (execution.path / "spec.json").write_bytes(spec)
    assert execution.run() == 5
    assert "the spec cannot be used" in execution.complaints()
    assert not (execution.path / "decide").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"argv": []},
        {"argv": [None]},
        {"argv": ["a\0b"]},
        {"argv": ["a", 1]},
        {"cwd": "relative"},
        {"environment": {"a=b": "c"}},
        {"environment": {"a": "\ud800"}},
        {"prompt_by": "telepathy"},
        {"deadline_s": -1},
        {"deadline_s": float("nan")},
        {"grace_s": float("inf")},
        {"leftovers": "keep"},
        {"log_limit_bytes": "1"},
        {"execution": 3},
    ],
    ids=str,
)
def test_a_value_that_makes_no_sense_starts_nothing(bench: Bench, change: dict[str, Any]) -> None:
    changed: dict[str, Any] = {"argv": sh("true"), **change}
    execution = bench.execution(**changed)
    assert execution.run() == 5
    assert not (execution.path / "decide").exists()


def test_there_is_one_agent_however_many_shims(bench: Bench) -> None:
    """All start at once; one gets the lock or the decision, the others say that they did not."""
    execution = bench.execution(sh('echo x >>"$1"; sleep 0.2', str(bench.root / "starts")))
    codes = sorted(shim.wait(timeout=30) for shim in [execution.start() for _ in range(4)])
    assert codes[0] == 0
    assert set(codes[1:]) <= {3, 4}
    assert (bench.root / "starts").read_text() == "x\n"


def test_a_second_shim_sees_the_lock_and_a_later_one_the_decision(bench: Bench) -> None:
    execution = bench.started(sh('read x; echo "$x"'), input=True)
    assert execution.run() == 3
    assert execution.lock() is LockState.HELD
    assert execution.ask("input", id="a", data="go\n") == {"ok": True}
    assert execution.shims[0].wait(timeout=30) == 0
    before = {path.name: path.read_bytes() for path in execution.path.iterdir()}
    assert execution.run() == 4
    assert before == {path.name: path.read_bytes() for path in execution.path.iterdir()}


def test_a_decision_that_is_taken_stays(bench: Bench) -> None:
    """Recovery ruled the launch out: nothing is run, and its word is not touched."""
    execution = bench.execution(sh("echo ran"))
    (execution.path / "decide").write_text('{"by": "recovery"}')
    assert execution.run() == 4
    assert execution.record("decide") == {"by": "recovery"}
    assert not (execution.path / "stdout.log").exists()


def test_the_records_say_who_is_who(bench: Bench) -> None:
    """Pid and start time of both, as the kernel has them; hints come after each record."""
    execution = bench.started(sh("read x"), input=True, wake=True)
    assert execution.wake is not None
    assert execution.wake.recv(100).decode() == execution.id
    agent, decision = execution.record("proc.json"), execution.record("decide")
    for pid, ticks in ((agent["pid"], agent["start_ticks"]), (agent["shim_pid"], agent["shim_start_ticks"])):
        found = proc.stat_of(pid)
        assert found is not None
        assert found.start_ticks == ticks
    assert decision["by"] == "shim"
    for key, value in (("pid", agent["shim_pid"]), ("start_ticks", agent["shim_start_ticks"])):
        assert decision[key] == value
    for key, value in (("boot_id", Path("/proc/sys/kernel/random/boot_id").read_text().strip()),):
        assert decision[key] == agent[key] == value
    assert decision["pid_namespace"] == agent["pid_namespace"] == str(Path("/proc/self/ns/pid").readlink())
    assert agent["shim_pid"] == execution.shims[0].pid
    assert execution.ask("close_input") == {"ok": True}
    assert [execution.wake.recv(100).decode() for _ in range(2)] == [execution.id] * 2
    assert execution.record("gone.json") is not None


def test_everything_is_the_owners_alone(bench: Bench) -> None:
    execution = bench.started(sh("read x"), input=True)
    wait_until(execution.address.exists, what="the shim listens")
    modes = {path.name: path.stat().st_mode & 0o077 for path in [*execution.path.iterdir(), execution.address]}
    del modes["prompt"], modes["token"], modes["spec.json"], modes["shim.err"]  # the daemon's
    assert {"lock", "decide", "proc.json", "stdout.log", "stderr.log", execution.address.name} <= modes.keys()
    assert set(modes.values()) == {0}


@pytest.mark.parametrize("point", ["shim.fork.after", "shim.proc.rename.before", "shim.release.before"])
def test_an_agent_that_was_not_released_never_ran(bench: Bench, point: str) -> None:
    """The shim dies between the fork and the release: the child reads end of file and goes."""
    marker = bench.root / "ran"
    execution = bench.execution(sh('echo >"$1"', str(marker)))
    assert execution.run({"WATCHKEEPER_CRASH_AT": point}) == -signal.SIGKILL
    wait_until(lambda: not execution.survivors(), what="the child has gone")
    wait_until(lambda: execution.lock() is LockState.FREE, what="the lock is free")
    assert not marker.exists()
    assert (execution.record("proc.json") is not None) is (point == "shim.release.before")


def test_an_agent_dies_with_its_shim(bench: Bench) -> None:
    """The kernel ends it: the sweep finds at most what it had started itself."""
    execution = bench.started(sh("echo on; exec sleep 300"))
    execution.wait_for_output("on")
    pid = execution.record("proc.json")["pid"]
    execution.shims[0].kill()
    wait_until(lambda: (found := proc.stat_of(pid)) is None or not found.alive, what="the agent has died")
    assert execution.record("exit.json") is None


def test_a_directory_that_cannot_be_written_is_said(bench: Bench) -> None:
    execution = bench.execution(sh("echo ran"))
    (execution.path / "stdout.log").mkdir()
    assert execution.run() == 6
    assert "cannot be used" in execution.complaints()
    assert execution.record("proc.json") is None
    assert not execution.address.exists()


def test_no_limit_on_descriptors_is_raised(bench: Bench) -> None:
    """The soft limit is the spec's, but never above the hard one."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    execution = bench.execution(sh("ulimit -Sn; ulimit -Hn"), nofile=hard + 1000)
    assert execution.run() == 0
    assert execution.output().split() == [str(hard)] * 2
