"""A scratch installation whose tasks are the real Claude Code's."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from support import real_agent
from support.real_agent import AgentRig, commands

from watchkeeper_testing.claude_code import claude_program

__all__ = ["KEY", "NOBODY", "SUBSCRIPTION", "ClaudeRig", "commands", "fetched"]

KEY = {"ANTHROPIC_API_KEY": "sk-test-local"}
SUBSCRIPTION = {"CLAUDE_CODE_OAUTH_TOKEN": "sk-test-local"}
NOBODY: Mapping[str, str] = {}


def fetched(config: pytest.Config) -> Path:
    """The program, as `real_agent.fetched`; `-m "not claude"` leaves out the tests that need it."""
    return real_agent.fetched(config, claude_program)


@dataclass
class ClaudeRig(AgentRig):
    """A rig whose tasks are Claude Code's."""

    harness: ClassVar[str] = "claude"

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}

    def give(self, scenario: str, *options: str, sign_in: Mapping[str, str] = KEY, cwd: Path | None = None) -> str:
        """Hand a task over whose model follows the scenario; returns its id. A daemon runs from then on."""
        self.service = {"ANTHROPIC_BASE_URL": self.stub.url(scenario, self.key), **sign_in}
        return self.hand_over(*options, cwd=cwd)
