"""A scratch installation in which tasks are given to a real agent program, which speaks to a stub model with a made-up key."""

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import RESTING_TASK_STATES, Outcome, TaskState
from watchkeeper.domain.service import SERVICE_KINDS
from watchkeeper.runtimes import proc
from watchkeeper_testing.stub_model import Request, StubModel

DEFERRING = {FailureKind.SIGNED_OUT, FailureKind.QUOTA, *SERVICE_KINDS}
"""Kinds after which a task may wait in the queue for its account or its service."""


def fetched(config: pytest.Config, program: Callable[[], Path]) -> Path:
    """The program, fetched first if it is not on this machine yet, while the person who waits for the tests sees how far it is.

    Where it cannot be fetched, the tests fail: their marker leaves them out.
    """
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        return program()


@dataclass
class AgentRig(Rig):
    """A rig whose tasks are a real agent program's."""

    harness: ClassVar[str] = ""
    program: Path = Path("/nowhere")
    stub: StubModel = field(default_factory=StubModel)
    service: Mapping[str, str] = field(default_factory=dict)
    """What the next task gets to know of the service: its address and the sign-in."""

    @property
    def environment(self) -> dict[str, str]:
        inherited = super().environment
        path = f"{self.program.parent}{os.pathsep}{inherited['PATH']}"
        return {**inherited, "PATH": path, **self.service}

    def hand_over(self, *options: str, prompt: str = "Please do it.", cwd: Path | None = None) -> str:
        """Hand a task over by its prompt; returns its id. A daemon runs from then on."""
        self.keep_daemon()
        where = ("--cwd", str(cwd)) if cwd else ()
        done = self.wk("run", "--harness", self.harness, "--json", *where, *options, given=prompt.encode())
        return str(json.loads(done.stdout.splitlines()[0])["id"])

    @property
    def key(self) -> str:
        """Keeps the requests and gates of this rig apart from those of others at the same stub."""
        return self.root.parent.name

    def requests(self, scenario: str) -> list[Request]:
        """What the agents of this rig asked the model under the scenario."""
        return self.stub.board.requests(scenario, self.key)

    def wait_held(self, gate: str) -> None:
        """Wait until the model's turn waits at the gate."""
        assert self.stub.board.wait_held(f"{gate}@{self.key}"), f"no turn came to the gate {gate}"

    def release(self, gate: str) -> None:
        """Let the turn at the gate go."""
        self.stub.board.release(f"{gate}@{self.key}")

    def wait_over(self, task_id: str, *, within_s: float = 60.0) -> list[FailureKind | None]:
        """Wait until no further run comes by itself, at least not before a person signs in or a limit is over; the kinds of all runs."""

        def over() -> bool:
            self.keep_daemon()
            task, runs = self.task(task_id), self.runs(task_id)
            told = bool(runs) and all(self.outcome(run.id) for run in runs)
            blocked = task.state is TaskState.QUEUED and task.kind in DEFERRING
            return told and (task.state in RESTING_TASK_STATES or blocked)

        wait_until(over, within_s=within_s, what=f"task {task_id} is over ({self.root})")
        return [run.kind for run in self.runs(task_id)]

    def show(self, task_id: str) -> str:
        """What `wk show` prints."""
        return self.wk("show", task_id).stdout.decode()

    def shell(self, line: str) -> str:
        """Type a line into a shell, as a person would after `wk` printed it; returns what it printed."""
        done = subprocess.run(
            ["sh", "-c", line],
            env=self.environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def last_outcome(self, task_id: str) -> Outcome:
        """The outcome of the newest run."""
        outcome = self.outcome(self.runs(task_id)[-1].id)
        assert outcome is not None
        return outcome

    def events(self, task_id: str) -> list[dict[str, Any]]:
        """What the program printed in the newest run; fails where a line is not whole."""
        return [json.loads(line) for line in self.log(self.runs(task_id)[-1]).splitlines()]

    def another_repository(self, name: str) -> Path:
        """A second place to work in."""
        place = self.root / name
        subprocess.run(["git", "init", "-q", str(place)], check=True)
        return place

    def wait_command(self, words: str) -> int:
        """Wait until a process with this command line lives; returns its pid."""
        found = wait_until(lambda: commands(words), within_s=30, what=f"`{words}` runs")
        return found[0]

    def shim(self, task_id: str) -> int:
        """The pid of the shim, found as the parent of the agent that is on record."""

        def parent() -> int | None:
            agent = self.runs(task_id)[-1].agent
            status = Path(f"/proc/{agent.pid}/status").read_text(encoding="utf-8") if agent else ""
            return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("PPid:")), None)

        found = wait_until(parent, what="the agent is on record")
        assert found is not None
        assert str(self.state / "executions").encode() in Path(f"/proc/{found}/cmdline").read_bytes()
        return found


def commands(words: str) -> list[int]:
    """Living processes with exactly this command line, whichever user owns them and whatever their environment says."""
    wanted = b"".join(word.encode() + b"\0" for word in words.split())
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "cmdline").read_bytes() == wanted and proc.identity(int(entry.name)):
                    found.append(int(entry.name))
    return found
