"""A scratch installation whose tasks are the real Codex's."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from support import real_agent
from support.real_agent import AgentRig

from watchkeeper_testing.codex import codex_program

KEY = {"OPENAI_API_KEY": "sk-test-local"}
OWN_KEY = {"CODEX_API_KEY": "sk-test-local"}
"""For the program's own provider."""
NOBODY: Mapping[str, str] = {}
MODEL = "gpt-5"
"""A model that this version of the program has no entry for, and to which it therefore offers plain tools."""


def fetched(config: pytest.Config) -> Path:
    """The program, as `real_agent.fetched`; `-m "not codex"` leaves out the tests that need it."""
    return real_agent.fetched(config, codex_program)


def provider(url: str, tries: int = 1, **more: str) -> str:
    """The option `config` for a stub at this address, which the program tries again so many times. A variable names the scenario."""
    settings = {"name": '"stub"', "base_url": f'"{url}/s/-/v1"', "env_key": '"OPENAI_API_KEY"'}
    settings |= {"env_http_headers": '{ "x-stub-scenario" = "STUB_SCENARIO" }'}
    settings |= {"request_max_retries": "0", "stream_max_retries": str(tries), **more}
    lines = (f"model_providers.stub.{name} = {value}" for name, value in settings.items())
    return "\n".join(('model_provider = "stub"', *lines))


@dataclass
class CodexRig(AgentRig):
    """A rig whose tasks are Codex's, by a provider that the settings describe."""

    harness: ClassVar[str] = "codex"

    def configure(self, config: str = "", **options: str) -> None:
        """Set the harness's options before there is a daemon; without a configuration the stub is its provider."""
        given = {"config": config or provider(self.stub.base_url), **options}
        self.settings = {
            **self.settings,
            **{f"WATCHKEEPER_HARNESS_CODEX_{name.upper()}": value for name, value in given.items()},
        }

    def give(
        self,
        scenario: str,
        *options: str,
        sign_in: Mapping[str, str] = KEY,
        prompt: str = "Please do it.",
        cwd: Path | None = None,
    ) -> str:
        """Hand a task over whose model follows the scenario; returns its id. A daemon runs from then on."""
        if "WATCHKEEPER_HARNESS_CODEX_CONFIG" not in self.settings:
            self.configure()
        self.service = {"STUB_SCENARIO": f"{scenario}@{self.key}", **sign_in}
        return self.hand_over("--model", MODEL, "--env", "STUB_SCENARIO", *options, prompt=prompt, cwd=cwd)
