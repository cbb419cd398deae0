"""The real programs, a stub model for all, and rigs for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support import claude_code as claude
from support import codex
from support.claude_code import ClaudeRig
from support.codex import CodexRig

from watchkeeper_testing.stub_model import StubModel


@pytest.fixture(scope="session")
def claude_code(pytestconfig: pytest.Config) -> Path:
    """The real Claude Code; without it the test fails."""
    return claude.fetched(pytestconfig)


@pytest.fixture(scope="session")
def codex_program(pytestconfig: pytest.Config) -> Path:
    """The real Codex; without it the test fails."""
    return codex.fetched(pytestconfig)


@pytest.fixture(scope="session")
def stub() -> Iterator[StubModel]:
    """One stub for all; each rig has a key of its own there."""
    with StubModel() as running:
        yield running


@pytest.fixture
def rig(claude_code: Path, stub: StubModel, tmp_path: Path) -> Iterator[ClaudeRig]:
    """A scratch installation whose processes are all gone afterwards."""
    made = ClaudeRig(tmp_path / "rig", program=claude_code, stub=stub)
    yield made
    made.close()


@pytest.fixture
def codex_rig(codex_program: Path, stub: StubModel, tmp_path: Path) -> Iterator[CodexRig]:
    """A scratch installation for Codex whose processes are all gone afterwards."""
    made = CodexRig(tmp_path / "rig", program=codex_program, stub=stub)
    yield made
    made.close()
