"""Kill the shim at each of its durable steps: whatever it left on disk is true, and an agent began at most once.

The points are found by playing each story once undisturbed, so a new step is swept from the day it is written.
"""

import os
import re
import secrets
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from shim.stage import Bench, Execution, python, sh
from support.waiting import wait_until

from watchkeeper.domain.evidence import LockState
from watchkeeper.runtimes import proc, records

MIB = 1024 * 1024

STUBBORN = """
import os, signal, sys, time
open(sys.argv[1], "a").write("x")
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    time.sleep(300)
print("up", flush=True)
time.sleep(300)
"""
CHATTY = """
import sys
open(sys.argv[1], "a").write("x")
sys.stdout.write("x" * (12 << 20))
"""


def _nothing(_execution: Execution) -> None:
    """It ends by itself."""


def _stop(execution: Execution) -> None:
    wait_until(lambda: "up" in execution.output() or execution.over(), what="the agent is up, or its shim dead")
    execution.ask("stop", grace_s=0.1)


def _feed(execution: Execution) -> None:
    wait_until(lambda: execution.record("proc.json") or execution.over(), what="the agent runs, or its shim is dead")
    for id_ in "ab":
        execution.ask("input", id=id_, data="x\n")
    execution.ask("close_input")


@dataclass(frozen=True)
class Story:
    """An agent, what is done to it, and how it ends if no process dies."""

    name: str
    agent: Callable[[str], list[str | None]]
    reason: str
    act: Callable[[Execution], None] = _nothing
    changes: dict[str, Any] = field(default_factory=dict)


STORIES = (
    Story("an end of its own", lambda starts: sh('echo x >>"$1"; sleep 0.05 & exit 3', starts), "exited"),
    Story("a stop", lambda starts: python(STUBBORN, starts), "stop", _stop, {"leftovers_grace_s": 0.1}),
    Story("a long log", lambda starts: python(CHATTY, starts), "exited", changes={"log_limit_bytes": 2 * MIB}),
    Story("input", lambda starts: sh('echo x >>"$1"; cat', starts), "exited", _feed, {"input": True}),
    Story("no program", lambda _: ["/nowhere/agent"], "spawn_failed"),
)


def _play(bench: Bench, story: Story, crash: dict[str, str]) -> tuple[Execution, Path, int]:
    starts = bench.root / f"starts-{secrets.token_hex(8)}"
    execution = bench.execution(story.agent(str(starts)), **story.changes)
    shim = execution.start(crash)
    try:
        story.act(execution)
    except (OSError, AssertionError, pytest.fail.Exception):
        assert shim.wait(timeout=30) == -signal.SIGKILL, "it was not the shim's death"
    return execution, starts, shim.wait(timeout=30)


def _look(execution: Execution, starts: Path, story: Story) -> list[str]:
    """What does not hold, once the shim is dead and its agent has noticed."""
    agent = execution.record("proc.json")
    wait_until(lambda: execution.lock() is LockState.FREE, what="the lock is free")
    if agent is not None:
        # Died with its shim, or was let go never: the kernel sees to it.
        wait_until(lambda: (it := proc.stat_of(agent["pid"])) is None or not it.alive, what="the agent has died")
    began = len(starts.read_text().split()) if starts.exists() else 0
    broken: list[str] = []
    if began > 1:
        broken.append(f"the agent began {began} times")
    if agent is None and (began or execution.survivors()):
        broken.append("an agent ran without a record")
    if execution.record("decide") is None and agent is not None:
        broken.append("a launch without a decision")
    if execution.record("exit.json") is not None:
        found = records.parse_exit((execution.path / "exit.json").read_bytes())
        if found.reason != story.reason or (began == 0 and story.reason != "spawn_failed"):
            broken.append(f"the exit record says {found}")
    if execution.record("gone.json") is not None and (execution.record("exit.json") is None or execution.survivors()):
        broken.append("the proof of emptiness is false")
    return broken


def _again(execution: Execution, starts: Path, story: Story) -> list[str]:
    """Another shim for the same directory: it runs nothing if the decision was taken, and everything, once, if it was not."""
    if execution.record("decide") is None:
        shim = execution.start()
        story.act(execution)
        code = shim.wait(timeout=60)
        if code != 0 or execution.record("exit.json")["reason"] != story.reason:
            return [f"another shim ended with {code}"]
        return _look(execution, starts, story)
    before = {path.name: path.read_bytes() for path in execution.path.glob("*.json")}
    code = execution.start().wait(timeout=30)
    if code != 4:
        return [f"another shim ended with {code}"]
    after = {path.name: path.read_bytes() for path in execution.path.glob("*.json")}
    return ["another shim wrote a record"] * (before != after) + _look(execution, starts, story)


def _disturbed(bench: Bench, story: Story, point: str) -> tuple[bool, list[str]]:
    execution, starts, code = _play(bench, story, {"WATCHKEEPER_CRASH_AT": point})
    broken = _look(execution, starts, story)
    broken += _again(execution, starts, story)
    execution.close()
    return code == -signal.SIGKILL, [f"{story.name}, {point}: {said}" for said in broken]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_death_at_any_step_leaves_only_truth(bench: Bench, story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    """Every point that the story reaches, one at a time."""
    log = bench.root / "points"
    execution, starts, code = _play(bench, story, {"WATCHKEEPER_CRASH_LOG": str(log)})
    assert code == 0
    assert execution.record("exit.json")["reason"] == story.reason
    assert _look(execution, starts, story) == []
    points = sorted(set(log.read_text().split()))
    assert len(points) >= 25, "the story reaches too few points to be the real one"
    assert all(re.fullmatch(r"shim\.\w+(\.\w+)?\.(before|after)", point) for point in points), points
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda point: _disturbed(bench, story, point), points))
    deaths, broken = sum(died for died, _ in results), [said for _, found in results for said in found]
    with capsys.disabled():
        print(f"\n{story.name}: {len(points)} points, {deaths} deaths, {len(broken)} violations")
    assert broken == []
    assert deaths >= len(points) - 3, "nearly every point must really kill, or the sweep proves nothing"


def test_every_kind_of_step_has_been_swept(bench: Bench) -> None:
    """The stories together reach every point that the sources name."""
    log = bench.root / "points"
    for story in STORIES:
        _play(bench, story, {"WATCHKEEPER_CRASH_LOG": str(log)})
    reached = set(log.read_text().split())
    for step in (
        "lock",
        "reserve",
        "decide.link",
        "fork",
        "bind",
        "proc.rename",
        "release",
        "signal",
        "signal_all",
        "kill",
    ):
        assert {f"shim.{step}.before", f"shim.{step}.after"} <= reached, step
    for record in ("stop", "exit", "gone", "dropped", "input"):
        assert {
            f"shim.{record}.{at}" for at in ("write.before", "rename.before", "rename.after", "sync.after")
        } <= reached
    assert {"shim.punch.before", "shim.punch.after"} <= reached


def test_a_crash_point_does_not_reach_the_agent(bench: Bench) -> None:
    execution = bench.execution(python("import os; print(sorted(os.environ))"), environment={})
    assert execution.run({"WATCHKEEPER_CRASH_LOG": os.devnull, "WATCHKEEPER_CRASH_AT": "shim.nowhere.before"}) == 0
    assert "CRASH" not in execution.output()
