"""A shim is killed: what its agent's survivors had printed, and what they print from then on, is in the log, or it is said that its end may be missing."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from runtimes.stage import Stage
from support.waiting import wait_until

from watchkeeper.domain.evidence import VerdictKind, judge
from watchkeeper.domain.model import Proof, Run
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.log_pipes import LogPipes
from watchkeeper.runtimes.process import ProcessRuntime
from watchkeeper.runtimes.shim_image import install_shim

MIB = 1024 * 1024
SURVIVOR = """
import os, signal, sys
if os.fork():
    signal.pause()
os.setsid()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
total = int(sys.argv[1]) << 20
for start in range(0, total, 65536):
    os.write(1, b"%015d\\n" % (start >> 16) * 4096)
    if start == total // 4:
        os.write(2, b"a quarter\\n")
os.write(2, b"all\\n")
if len(sys.argv) > 2:
    signal.pause()
"""
"""It leaves its session and continues when the agent dies with its shim."""


def written(start: int, end: int) -> bytes:
    """What SURVIVOR prints from one place to another."""
    whole = b"".join(b"%015d\n" % block * 4096 for block in range(start >> 16, (end + 65535) >> 16))
    return whole[start & 65535 :][: end - start]


@pytest.fixture
def make(stage: Stage) -> Iterator[Callable[[LogPipes | None], ProcessRuntime]]:
    """Runtimes with real shims; a daemon's has pipes to hold."""
    shims = stage.state / "shims"
    shims.mkdir(mode=0o700)
    made: list[ProcessRuntime] = []

    def runtime(pipes: LogPipes | None) -> ProcessRuntime:
        install = partial(install_shim, shims)
        made.append(ProcessRuntime(stage.state, stage.sockets, None, install, stage.clock, database_id="db1"))
        if pipes is not None:
            made[-1].hold_pipes(pipes)
        return made[-1]

    yield runtime
    for each in made:
        for shim in each._shims:
            shim.kill()
            shim.wait(timeout=30)


def started(
    stage: Stage, runtime: ProcessRuntime, *arguments: str, limit: int = 256 * MIB, argv: tuple[str, ...] = ()
) -> Run:
    """A run with a survivor, seen alive."""
    run = stage.run(stage.id)
    command = argv or ("python3", "-I", "-S", "-c", SURVIVOR, *arguments)
    order = stage.request(run, argv=command, prompt_by="none", environment={"PATH": "/usr/bin:/bin"})
    run = replace(
        run, directory=runtime.prepare(replace(order, log_limit_bytes=limit)), shim_started_at=stage.clock.now()
    )
    runtime.start_shim(run)
    wait_until(lambda: judge(runtime.observe(run, stop_asked=False)).kind is VerdictKind.ALIVE, what="it is alive")
    return run


def said(runtime: ProcessRuntime, run: Run, text: str) -> Callable[[], bool]:
    """Whether the agent has said something on standard error."""
    return lambda: text in runtime.executions().log(run, "stderr").read_text()


def over(runtime: ProcessRuntime, run: Run) -> Callable[[], bool]:
    """Whether the survivor has written all and is gone."""
    return lambda: said(runtime, run, "all")() and not survivors(run)


def kill_shim(runtime: ProcessRuntime) -> None:
    """As the kernel does when memory runs out."""
    (shim,) = runtime._shims
    shim.send_signal(signal.SIGKILL)
    _ = shim.wait(timeout=30)


def drained(runtime: ProcessRuntime, pipes: LogPipes, run: Run, limit: int, enough: Callable[[], bool]) -> None:
    """Drain as a sweep does, until there is enough."""
    with runtime.executions().intact(run) as files, pipes.draining(run.execution_id, files.fd, limit, lambda: True):
        wait_until(enough, within_s=60, what="enough was drained")


@pytest.mark.parametrize("limit", [256 * MIB, 8 * MIB])
def test_every_byte_of_a_survivor_is_there_or_named_as_dropped(
    stage: Stage, make: Callable[[LogPipes | None], ProcessRuntime], limit: int
) -> None:
    """It continues after SIGKILL of its shim in the middle of 64 MiB, unharmed, and the next supervisor logs the rest."""
    pipes = LogPipes()
    runtime = make(pipes)
    run = started(stage, runtime, "64", limit=limit)
    wait_until(said(runtime, run, "a quarter"), what="a quarter is written")
    kill_shim(runtime)
    drained(runtime, pipes, run, limit, over(runtime, run))
    log = runtime.executions().log(run, "stdout")
    assert log.stat().st_size == 64 * MIB
    at = 0
    with log.open("rb") as file:
        for start, end in [*runtime.executions().dropped(run, "stdout"), (64 * MIB, 64 * MIB)]:
            file.seek(at)
            assert file.read(start - at) == written(at, start)
            at = end
    assert log.stat().st_blocks * 512 <= limit + limit // 8 + 256 * 1024
    assert bool(runtime.executions().dropped(run, "stdout")) == (limit < 64 * MIB)
    assert not runtime.executions().may_lack_end(run)


def test_a_survivor_that_nobody_drains_waits_and_is_not_ended(
    stage: Stage, make: Callable[[LogPipes | None], ProcessRuntime]
) -> None:
    """No daemon holds its pipe: it is a reader of its own, so it gets no SIGPIPE, and the next daemon finds all of it."""
    runtime = make(None)
    run = started(stage, runtime, "64")
    wait_until(said(runtime, run, "a quarter"), what="a quarter is written")
    kill_shim(runtime)
    wait_until(lambda: len(survivors(run)) == 1, what="the agent has died with its shim")
    ours = survivors(run)
    wait_until(lambda: "pipe_write" in Path(f"/proc/{ours[0]}/wchan").read_text() or waits(ours[0]), what="it waits")
    drained(runtime, LogPipes(), run, 256 * MIB, over(runtime, run))
    assert runtime.executions().log(run, "stdout").read_bytes() == written(0, 64 * MIB)
    assert not runtime.executions().may_lack_end(run)


def survivors(run: Run) -> list[int]:
    """The living processes of an execution."""
    marker = f"WATCHKEEPER_EXECUTION={run.execution_id}".encode()
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def waits(pid: int) -> bool:
    """Whether a process sleeps in a call, where the kernel does not say in which."""
    stat = proc.stat_of(pid)
    return stat is not None and stat.state == "S"


def test_a_sweep_drains_what_it_ends(stage: Stage, make: Callable[[LogPipes | None], ProcessRuntime]) -> None:
    """The survivor writes until it is killed: all that it wrote is there, in order, and nothing has to be doubted."""
    pipes = LogPipes()
    runtime = make(pipes)
    run = started(stage, runtime, "1024", limit=8 * MIB)
    wait_until(lambda: runtime.executions().log(run, "stdout").stat().st_size > MIB, what="it writes")
    kill_shim(runtime)
    report = runtime.sweep(run)
    assert report.proof is Proof.SWEPT
    assert report.ended
    assert not runtime.executions().may_lack_end(run)
    log = runtime.executions().log(run, "stdout")
    size = log.stat().st_size
    with log.open("rb") as file:
        file.seek(size - size % 16 - 32)
        assert file.read(32) == written(size - size % 16 - 32, size - size % 16)


def test_what_no_sweep_can_find_is_drained_for_as_long_as_the_daemon_lives(
    stage: Stage, make: Callable[[LogPipes | None], ProcessRuntime]
) -> None:
    """It shed marker, session and parent. No process ends it, its open log is what gives it away, and nothing makes it wait."""
    pipes = LogPipes()
    runtime = make(pipes)
    go = stage.state / "go"
    # It says itself that it is up: before that it may still carry the marker.
    hidden = f"echo up >&2; while [ ! -e {go} ]; do sleep 0.05; done; head -c 3000000 /dev/zero; echo $$ >&2"
    script = f"setsid env -i PATH=/usr/bin:/bin sh -c '{hidden}' & exec sleep 300"
    run = started(stage, runtime, argv=("sh", "-c", script))
    wait_until(said(runtime, run, "up"), what="it is up")
    kill_shim(runtime)
    wait_until(lambda: not survivors(run), what="the agent, its parent, has died with the shim")
    report = runtime.sweep(run)
    assert report.proof is Proof.UNPROVEN
    assert any("(sh) has the run's files open for writing" in said for said in report.spared)
    go.touch()
    log = runtime.executions().log(run, "stdout")
    wait_until(lambda: log.stat().st_size == 3000000, what="all of it is in the log")
    wait_until(lambda: not runtime.executions().may_lack_end(run), what="its pipes are not needed any more")


def test_a_daemon_keeps_what_was_in_the_pipe_when_all_others_died(
    stage: Stage, make: Callable[[LogPipes | None], ProcessRuntime]
) -> None:
    """The shim is stopped, so nothing is taken out; then it and the agent's whole tree are killed."""
    pipes = LogPipes()
    runtime = make(pipes)
    run = started(stage, runtime, "1", "stay")
    wait_until(said(runtime, run, "all"), what="it has begun")
    (shim,) = runtime._shims
    shim.send_signal(signal.SIGSTOP)
    with Path(f"/proc/{survivors(run)[0]}/fd/1").open("wb") as out:
        out.write(b"the last words\n")
    for pid in survivors(run):
        os.kill(pid, signal.SIGKILL)
    kill_shim(runtime)
    assert runtime.sweep(run).proof is Proof.SWEPT
    assert runtime.executions().log(run, "stdout").read_bytes() == written(0, MIB) + b"the last words\n"
    assert not runtime.executions().may_lack_end(run)


def test_a_writer_that_is_about_to_end_is_waited_for(
    stage: Stage, make: Callable[[LogPipes | None], ProcessRuntime]
) -> None:
    """A process that was killed lets go of its files one after another: its lock may be free before its end of the pipe is."""
    pipes = LogPipes()
    runtime = make(pipes)
    run = started(stage, runtime, "1", "stay")
    wait_until(said(runtime, run, "all"), what="it has begun")
    held = os.open(f"/proc/{survivors(run)[0]}/fd/1", os.O_WRONLY)
    ending = subprocess.Popen(["sh", "-c", "read go; sleep 0.3"], stdin=subprocess.PIPE, stdout=held)
    os.close(held)
    kill_shim(runtime)
    for pid in survivors(run):
        os.kill(pid, signal.SIGKILL)
    with runtime.executions().intact(run) as files, pipes.draining(run.execution_id, files.fd, MIB, lambda: True):
        wait_until(lambda: not survivors(run), what="all others are dead")
        assert ending.stdin is not None
        ending.stdin.close()
    assert not runtime.executions().may_lack_end(run)
    assert ending.wait(timeout=30) == 0


def test_where_nobody_was_left_to_hold_it_the_end_may_be_missing(
    stage: Stage, make: Callable[[LogPipes | None], ProcessRuntime]
) -> None:
    runtime = make(None)
    run = started(stage, runtime, "1", "stay")
    wait_until(said(runtime, run, "all"), what="it has begun")
    (shim,) = runtime._shims
    shim.send_signal(signal.SIGSTOP)
    with Path(f"/proc/{survivors(run)[0]}/fd/1").open("wb") as out:
        out.write(b"the last words\n")
    for pid in survivors(run):
        os.kill(pid, signal.SIGKILL)
    kill_shim(runtime)
    wait_until(lambda: not survivors(run), what="all are dead")
    assert runtime.sweep(run).proof is Proof.SWEPT
    assert runtime.executions().may_lack_end(run)
    assert runtime.sweep(run).proof is Proof.SWEPT
    assert runtime.executions().may_lack_end(run), "a second look doubts it still"


def test_two_drainers_do_not_write_over_one_another(
    stage: Stage, make: Callable[[LogPipes | None], ProcessRuntime]
) -> None:
    first, second = LogPipes(), LogPipes()
    runtime = make(first)
    run = started(stage, runtime, "32")
    wait_until(said(runtime, run, "a quarter"), what="a quarter is written")
    kill_shim(runtime)
    enough = over(runtime, run)
    other = threading.Thread(target=drained, args=(runtime, second, run, 256 * MIB, enough))
    other.start()
    drained(runtime, first, run, 256 * MIB, enough)
    other.join()
    assert runtime.executions().log(run, "stdout").read_bytes() == written(0, 32 * MIB)


def test_two_sweeps_of_one_run_say_the_same_of_its_log(
    stage: Stage, make: Callable[[LogPipes | None], ProcessRuntime]
) -> None:
    """The second waits for what the first one still moves; else it would say that the end may be missing."""
    pipes = LogPipes()
    runtime = make(pipes)
    run = started(stage, runtime, "1")
    wait_until(said(runtime, run, "all"), what="all is written")
    kill_shim(runtime)
    entered, lacks = threading.Event(), list[bool]()

    def second() -> None:
        with runtime.executions().intact(run) as files, pipes.draining(run.execution_id, files.fd, MIB, lambda: True):
            entered.set()
        lacks.append(runtime.executions().may_lack_end(run))

    other = threading.Thread(target=second)
    with runtime.executions().intact(run) as files, pipes.draining(run.execution_id, files.fd, MIB, lambda: True):
        other.start()
        assert entered.wait(30)
        wait_until(lambda: not survivors(run), what="the survivor is gone")
    other.join()
    assert lacks == [False]
    assert runtime.executions().log(run, "stdout").stat().st_size == MIB


def test_a_shim_that_lives_is_left_to_drain_alone(
    stage: Stage, make: Callable[[LogPipes | None], ProcessRuntime]
) -> None:
    pipes = LogPipes()
    runtime = make(pipes)
    run = started(stage, runtime, "8")
    wait_until(said(runtime, run, "all"), what="all is written")
    (shim,) = runtime._shims
    shim.send_signal(signal.SIGSTOP)
    with runtime.executions().intact(run) as files, pipes.draining(run.execution_id, files.fd, MIB, lambda: False):
        pass
    shim.send_signal(signal.SIGCONT)
    assert runtime.executions().log(run, "stdout").read_bytes() == written(0, 8 * MIB)
    assert runtime.sweep(run, asked=True).ended
    assert shim.wait(timeout=30) == 0
    assert not runtime.executions().may_lack_end(run)
