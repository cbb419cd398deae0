"""Run what a harness plans as a real process, the way a shim would, and read it."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from watchkeeper.domain.model import EndReason, ExitFact, TaskSpec, Trace
from watchkeeper.ports.harness import CommandPlan, Harness, LaunchRequest, StreamEvent, StreamReader


def spec_of(cwd: Path, prompt: str = "", *, harness: str = "demo", argv: tuple[str, ...] = ()) -> TaskSpec:
    """A task that asks for little."""
    return TaskSpec(prompt=prompt, title="t", harness=harness, model=None, cwd=str(cwd), argv=argv)


def exit_fact(status: int, reason: EndReason = EndReason.EXITED) -> ExitFact:
    """An end with this raw wait status."""
    return ExitFact(status=status, reason=reason, at=datetime(2026, 1, 1, tzinfo=UTC), elapsed_s=1.0)


def plan_of(
    harness: Harness,
    spec: TaskSpec,
    options: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> CommandPlan:
    """Check, find and plan."""
    environment = {"PATH": os.environ["PATH"]} if environment is None else environment
    harness.check(spec)
    program = harness.find(environment, options or {})
    return harness.plan(
        LaunchRequest(spec=spec, program=program, environment=environment, directory=spec.cwd, options=options or {})
    )


def start(plan: CommandPlan, spec: TaskSpec) -> subprocess.Popen[bytes]:
    """Start it with the prompt where the plan wants it."""
    prompt = Path(spec.cwd, ".prompt")
    place = spec.prompt
    if plan.prompt_by == "file":
        prompt.write_text(spec.prompt, encoding="utf-8")
        place = str(prompt)
    process = subprocess.Popen(
        [place if word is None else word for word in plan.argv],
        cwd=spec.cwd,
        env=dict(plan.environment),
        stdin=subprocess.PIPE if plan.prompt_by == "stdin" else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    if process.stdin is not None:
        process.stdin.write(spec.prompt.encode())
        process.stdin.close()
        process.stdin = None
    return process


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A run that has ended, read."""

    trace: Trace
    events: list[StreamEvent]
    reader: StreamReader
    stdout: bytes
    stderr: str
    status: int


def run(harness: Harness, spec: TaskSpec, options: Mapping[str, str] | None = None) -> Ran:
    """Run it to its end."""
    process = start(plan_of(harness, spec, options), spec)
    stdout, stderr = process.communicate(timeout=30)
    code = process.returncode
    status = -code if code < 0 else code << 8
    reader = harness.reader(spec)
    events = reader.feed(stdout)
    complaint = stderr.decode()
    return Ran(
        trace=reader.trace(exit_fact(status), complaint),
        events=events,
        reader=reader,
        stdout=stdout,
        stderr=complaint,
        status=status,
    )
