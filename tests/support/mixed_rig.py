"""A scratch installation whose tasks are Claude Code's, Codex's and the demo agent's, side by side."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support import claude_code, codex
from support.rig import Rig

from watchkeeper_testing.stub_model import StubModel


@dataclass
class MixedRig(Rig):
    """A rig with both real programs and one stub model for them."""

    programs: tuple[Path, ...] = ()
    stub: StubModel = field(default_factory=StubModel)
    service: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the next command gets to know of a model."""
    services: dict[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """The same for each task, by its name."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.temporary.mkdir()

    @property
    def temporary(self) -> Path:
        """The directory for temporary files of everything that runs here."""
        return self.root / "temporary"

    @property
    def environment(self) -> dict[str, str]:
        inherited = super().environment
        places = [str(program.parent) for program in self.programs]
        return {
            **inherited,
            "PATH": os.pathsep.join((*places, inherited["PATH"])),
            "TMPDIR": str(self.temporary),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "WATCHKEEPER_HARNESS_CODEX_CONFIG": codex.provider(self.stub.base_url),
            **self.service,
        }

    @property
    def key(self) -> str:
        """Keeps the gates of this rig apart from those of others at the same stub."""
        return self.root.parent.name

    def give(self, harness: str, name: str, script: str | list[dict[str, Any]], *options: str) -> str:
        """Hand a task over that follows the script: text for the demo agent, turns of the model for the others; its id.

        Each task has the model to itself, under its own name.
        """
        prompt, more = "Please do it.", ()
        self.service = {}
        if isinstance(script, str):
            prompt = script
        else:
            self.stub.board.add({name: {"turns": script}})
            if harness == "claude":
                self.service = {"ANTHROPIC_BASE_URL": self.stub.url(name, self.key), **claude_code.KEY}
            else:
                self.service = {"STUB_SCENARIO": f"{name}@{self.key}", **codex.KEY}
                more = ("--model", codex.MODEL, "--env", "STUB_SCENARIO")
        self.services[name] = self.service
        done = self.wk("run", "--json", "--harness", harness, *more, *options, given=prompt.encode())
        return str(json.loads(done.stdout.splitlines()[0])["id"])

    def wait_held(self, gate: str) -> None:
        """Wait until the model's turn waits at the gate."""
        assert self.stub.board.wait_held(f"{gate}@{self.key}"), f"no turn came to the gate {gate}"

    def release(self, gate: str) -> None:
        """Let the turn at the gate go."""
        self.stub.board.release(f"{gate}@{self.key}")
