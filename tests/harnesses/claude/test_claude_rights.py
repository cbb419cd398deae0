"""What the real program lets an agent do under each level of rights is what the line before the run says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harnesses.claude.test_claude_real import Agent
from support.claude_code import fetched

from watchkeeper.domain.profile import RightsLevel
from watchkeeper.harnesses.claude import LEVELS
from watchkeeper_testing.stub_model import StubModel

pytestmark = [pytest.mark.claude, pytest.mark.timeout(1200)]


def raw(name: str, **arguments: Any) -> dict[str, Any]:
    """A turn that calls a tool by its name."""
    return {"text": "Trying.", "tools": [{"do": "raw", "name": name, "args": arguments}]}


ATTEMPTS = [
    raw("Bash", command="echo hi > by-shell", description="write"),
    raw("Write", file_path="{{cwd}}/by-write", content="hi"),
    raw("Edit", file_path="{{cwd}}/there", old_string="old", new_string="new"),
    raw(
        "Task", description="x", prompt="Write a file.", subagent_type="general-purpose"
    ),  # a tool of the program, by its own names
    raw("Read", file_path="{{cwd}}/there"),
]


@pytest.fixture(scope="module")
def program(pytestconfig: pytest.Config) -> Path:
    """The real program; without it the test fails."""
    return fetched(pytestconfig)


@pytest.fixture(scope="module")
def stub() -> Iterator[StubModel]:
    """A stub whose model tries to write in every way."""
    with StubModel({"tries": {"turns": [*ATTEMPTS, {"text": "I am done."}]}}) as running:
        yield running


def attempted(program: Path, stub: StubModel, place: Path, options: dict[str, str]) -> tuple[Path, list[str]]:
    """Run it; the project afterwards, and the names of the tools that the model was offered."""
    agent = Agent(program, stub.url("tries", place.name), place, options)
    _ = (agent.project / "there").write_text("old", encoding="utf-8")
    _ = agent.run()
    asked = [each for each in stub.board.requests("tries", place.name) if each.body.get("tools")]
    return agent.project, [tool["name"] for tool in asked[0].body["tools"]]


@pytest.mark.parametrize(
    "options", [LEVELS.options[RightsLevel.READ], {"permission_mode": "plan"}], ids=["read", "plan"]
)
def test_an_agent_that_may_only_read_changes_nothing(
    program: Path, stub: StubModel, tmp_path: Path, options: dict[str, str]
) -> None:
    """By no tool, and not through the shell."""
    project, _ = attempted(program, stub, tmp_path, dict(options))
    assert [path.name for path in project.iterdir()] == ["there"]
    assert (project / "there").read_text(encoding="utf-8") == "old"


def test_read_is_a_closed_list_of_tools(program: Path, stub: StubModel, tmp_path: Path) -> None:
    """A tool that a later version adds is not offered."""
    _, tools = attempted(program, stub, tmp_path, dict(LEVELS.options[RightsLevel.READ]))
    assert set(tools) <= {"Read", "Glob", "Grep", "WebFetch", "WebSearch"}


def test_an_agent_that_may_edit_does(program: Path, stub: StubModel, tmp_path: Path) -> None:
    project, _ = attempted(program, stub, tmp_path, dict(LEVELS.options[RightsLevel.EDIT]))
    assert (project / "by-shell").exists() and (project / "by-write").exists()
