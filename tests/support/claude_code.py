"""A scratch installation in which tasks are given to the real Claude Code, which speaks to a stub model with a key that is none."""

import contextlib
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.model import Outcome
from watchkeeper.runtimes import proc
from watchkeeper.testing.claude_code import claude_program
from watchkeeper.testing.stub_model import Request, StubModel

KEY = {"ANTHROPIC_API_KEY": "sk-test-local"}
SUBSCRIPTION = {"CLAUDE_CODE_OAUTH_TOKEN": "sk-test-local"}
NOBODY: Mapping[str, str] = {}


def fetched(config: pytest.Config) -> Path:
    """The program, fetched first if it is not on this machine yet, while whoever waits for the tests sees how far it is.

    Where it cannot be fetched, the tests fail: `-m "not claude"` leaves them out.
    """
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        return claude_program()


@dataclass
class ClaudeRig(Rig):
    """A rig whose tasks are Claude Code's."""

    program: Path = Path("/nowhere")
    stub: StubModel = field(default_factory=StubModel)
    service: Mapping[str, str] = field(default_factory=dict)
    """What the next task gets to know of the service: its address and the sign-in."""

    @property
    def environment(self) -> dict[str, str]:
        inherited = super().environment
        return {
            **inherited,
            "PATH": f"{self.program.parent}{os.pathsep}{inherited['PATH']}",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            **self.service,
        }

    def give(self, scenario: str, *options: str, sign_in: Mapping[str, str] = KEY, cwd: Path | None = None) -> str:
        """Hand a task over whose model follows the scenario; returns its id. A daemon runs from then on."""
        self.keep_daemon()
        self.service = {"ANTHROPIC_BASE_URL": self.stub.url(scenario, self.key), **sign_in}
        where = ("--cwd", str(cwd)) if cwd else ()
        done = self.wk("run", "--harness", "claude", "--json", *where, *options, "Please do it.")
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
    """Living processes with exactly this command line, whoever's they are and whatever their environment says."""
    wanted = b"".join(word.encode() + b"\0" for word in words.split())
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "cmdline").read_bytes() == wanted and proc.identity(int(entry.name)):
                    found.append(int(entry.name))
    return found
