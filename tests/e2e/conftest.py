"""The real program, a stub model for all, and a rig for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.claude_code import ClaudeRig, fetched

from watchkeeper.testing.stub_model import StubModel


@pytest.fixture(scope="session")
def claude_code(pytestconfig: pytest.Config) -> Path:
    """The real program; without it the test fails."""
    return fetched(pytestconfig)


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
