"""The runtime and the real shim meet only in the directory."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from runtimes.stage import Stage
from support.waiting import wait_until

from watchkeeper.domain.evidence import DecidedBy, Verdict, VerdictKind, judge
from watchkeeper.domain.model import EndReason, Proof, Run, StopHow
from watchkeeper.ports.runtime import ShimUnreachable
from watchkeeper.runtimes import proc, records
from watchkeeper.runtimes.boot import boot_id
from watchkeeper.runtimes.process import ProcessRuntime
from watchkeeper.runtimes.shim_image import install_shim


@pytest.fixture
def runtime(stage: Stage) -> Iterator[ProcessRuntime]:
    """A runtime that starts real shims; a shim that wrote its last record is about to end."""
    shims = stage.state / "shims"
    shims.mkdir(mode=0o700)
    made = ProcessRuntime(
        stage.state, stage.sockets, None, partial(install_shim, shims), stage.clock, database_id="db1"
    )
    yield made
    for shim in made._shims:
        shim.wait(timeout=30)


def started(stage: Stage, runtime: ProcessRuntime, *argv: str) -> Run:
    """A run whose shim was started."""
    run = stage.run(stage.id)
    order = stage.request(run, argv=argv, prompt_by="none", environment={"PATH": "/usr/bin:/bin"})
    run = replace(run, directory=runtime.prepare(order), shim_started_at=stage.clock.now())
    runtime.start_shim(run)
    return run


def until(runtime: ProcessRuntime, run: Run, enough: Callable[[Verdict], bool]) -> Verdict:
    """Look until the verdict is as wanted; the last one if it never is."""
    deadline, pause = time.monotonic() + 30, threading.Event()
    verdict = judge(runtime.observe(run, stop_asked=False))
    while not enough(verdict) and time.monotonic() < deadline:
        assert verdict.kind is not VerdictKind.UNKNOWN, verdict.reason
        pause.wait(0.01)
        verdict = judge(runtime.observe(run, stop_asked=False))
    return verdict


def test_a_whole_life(stage: Stage, runtime: ProcessRuntime) -> None:
    """Started, ended by itself, proven gone."""
    run = started(stage, runtime, "sh", "-c", "echo hello; exit 3")
    assert until(runtime, run, lambda verdict: verdict.final).final
    evidence = runtime.observe(run, stop_asked=False)
    assert evidence.exit is not None
    assert (evidence.exit.exit_code, evidence.exit.reason) == (3, EndReason.EXITED)
    assert evidence.gone is not None
    assert evidence.gone.proven
    assert runtime.executions().log(run, "stdout").read_text() == "hello\n"


def test_a_stop_arrives(stage: Stage, runtime: ProcessRuntime) -> None:
    """Through the socket, with the token."""
    run = started(stage, runtime, "sleep", "600")
    assert until(runtime, run, lambda verdict: verdict.kind is VerdictKind.ALIVE).kind is VerdictKind.ALIVE
    runtime.end(run, StopHow.STOP, grace_s=5.0, why=EndReason.STOP)
    assert until(runtime, run, lambda verdict: verdict.final).final
    evidence = runtime.observe(run, stop_asked=False)
    assert evidence.exit is not None
    assert (evidence.exit.signal, evidence.exit.reason) == (signal.SIGTERM, EndReason.STOP)


def test_a_killed_shim_is_noticed_and_swept(stage: Stage, runtime: ProcessRuntime) -> None:
    """Its agent's escaped child is ended."""
    run = started(stage, runtime, "sh", "-c", "setsid sleep 600 & sleep 600")
    assert until(runtime, run, lambda verdict: verdict.kind is VerdictKind.ALIVE).kind is VerdictKind.ALIVE
    record = records.parse_agent((runtime.executions().path(run) / "proc.json").read_bytes())
    assert (
        proc.signal_checked(record.shim_pid, record.shim_start_ticks, boot_id(), signal.SIGKILL)
        is proc.SignalResult.REACHED
    )
    assert until(runtime, run, lambda verdict: verdict.kind is VerdictKind.SHIM_DIED).kind is VerdictKind.SHIM_DIED
    assert runtime.sweep(run).proof is Proof.SWEPT
    marked = f"WATCHKEEPER_EXECUTION={run.execution_id}".encode()
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are what is wanted
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:  # noqa: PTH123 - may go meanwhile
                    assert marked not in file.read()
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                pass


def test_a_late_shim_gives_up(stage: Stage, runtime: ProcessRuntime) -> None:
    """Recovery decided first: no agent ever runs."""
    run = stage.run(stage.id)
    run = replace(run, directory=runtime.prepare(stage.request(run, argv=("sh", "-c", "echo ran"), prompt_by="none")))
    assert runtime.take_decision(run, DecidedBy.RECOVERY)
    runtime.start_shim(run)
    (shim,) = runtime._shims
    assert shim.wait(timeout=30) == 4
    assert judge(runtime.observe(run, stop_asked=False)).kind is VerdictKind.NEVER_LAUNCHED
    assert not runtime.executions().log(run, "stdout").exists()


@pytest.mark.parametrize("how", [StopHow.STOP, StopHow.KILL])
@pytest.mark.parametrize("why", [EndReason.STOP, EndReason.EARLY_FAIL])
def test_a_shim_whose_socket_was_cleared_away_is_told_why_and_how_long(
    stage: Stage, runtime: ProcessRuntime, how: StopHow, why: EndReason
) -> None:
    """By a record in its directory. Its agent ignores TERM; the grace of the request is over long before that of its spec."""
    run = started(stage, runtime, "sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done")
    assert until(runtime, run, lambda verdict: verdict.kind is VerdictKind.ALIVE).kind is VerdictKind.ALIVE
    log = runtime.executions().log(run, "stdout")
    wait_until(lambda: b"up" in log.read_bytes(), what="the agent ignores TERM")
    spec = records.parse_spec((runtime.executions().path(run) / "spec.json").read_bytes())
    Path(spec.socket).unlink()
    runtime.end(run, how, grace_s=0.1, why=why)
    assert until(runtime, run, lambda verdict: verdict.final).final
    found = runtime.observe(run, stop_asked=False).exit
    assert found is not None
    assert (found.signal, found.reason) == (signal.SIGKILL, EndReason.KILL if how is StopHow.KILL else why)


def test_a_shim_of_an_earlier_version_is_told_by_term(stage: Stage, runtime: ProcessRuntime) -> None:
    """It does not know of requests, and the signal that goes with one would end it."""
    run = started(stage, runtime, "sh", "-c", "echo up; exec sleep 600")
    assert until(runtime, run, lambda verdict: verdict.kind is VerdictKind.ALIVE).kind is VerdictKind.ALIVE
    record = runtime.executions().path(run) / "proc.json"
    older = {
        key: value for key, value in json.loads(record.read_text()).items() if key not in {"hears_requests", "crc32"}
    }
    record.write_text(json.dumps(older))
    spec = records.parse_spec((runtime.executions().path(run) / "spec.json").read_bytes())
    Path(spec.socket).unlink()
    with pytest.raises(ShimUnreachable):
        runtime.end(run, StopHow.STOP, grace_s=0.1, why=EndReason.EARLY_FAIL)
    runtime.end(run, StopHow.STOP, grace_s=0.1, why=EndReason.STOP)
    assert until(runtime, run, lambda verdict: verdict.final).final
    found = runtime.observe(run, stop_asked=False).exit
    assert found is not None
    assert (found.signal, found.reason) == (signal.SIGTERM, EndReason.INTERRUPTED)
    assert not (runtime.executions().path(run) / "request.json").exists()
