"""Exit 0 with an empty diff, with uncommitted work, with a refusal, with a failing check: four outcomes of the real programs, none a plain success."""

from typing import Any

import pytest
from support.claude_code import ClaudeRig
from support.codex import CodexRig
from support.real_agent import AgentRig

from watchkeeper.domain.check_verdict import CheckVerdict
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import RESTING_TASK_STATES, OutcomeStatus, Result, TaskState

SCENARIOS: dict[str, Any] = {"says_so": {"turns": [{"text": "Everything is done."}], "repeat_last": True}}

pytestmark = pytest.mark.timeout(1200)  # the first of these tests may have to fetch the program


@pytest.fixture(autouse=True)
def scenarios(request: pytest.FixtureRequest) -> None:
    """Make the further scenario known."""
    request.getfixturevalue("stub").board.add(SCENARIOS)


def _came_to(rig: AgentRig, scenario: str, *options: str) -> tuple[TaskState, object, object, object, OutcomeStatus]:
    assert isinstance(rig, ClaudeRig | CodexRig)
    place = rig.another_repository(f"{scenario}-{len(options)}")
    task_id = rig.give(scenario, "--retries", "0", *options, cwd=place)
    task = rig.wait_resting(task_id, within_s=120)
    assert task.state in RESTING_TASK_STATES
    outcome = rig.last_outcome(task_id)
    return task.state, outcome.kind, outcome.result, outcome.verdict, outcome.status


def _four(rig: AgentRig) -> None:
    failed, unchecked = OutcomeStatus.FAILED, CheckVerdict.UNCHECKED
    ends = {
        "empty": _came_to(rig, "says_so", "--expect", "changes"),
        "uncommitted": _came_to(rig, "work"),
        "refused": _came_to(rig, "refusal"),
        "failing": _came_to(rig, "work", "--check", "grep goodbye hello.txt", "--check", "true"),
    }
    assert ends == {
        "empty": (TaskState.NEEDS_INPUT, FailureKind.NOTHING_CHANGED, Result.UNCHANGED, unchecked, failed),
        "uncommitted": (TaskState.DONE, None, Result.CHANGED, unchecked, OutcomeStatus.SUCCEEDED),
        "refused": (TaskState.FAILED, FailureKind.REFUSED, Result.REFUSED, unchecked, failed),
        "failing": (TaskState.FAILED, FailureKind.CHECK_FAILED, Result.CHANGED, CheckVerdict.FAILED, failed),
    }
    assert rig.survivors() == []


@pytest.mark.claude
def test_four_ends_of_claude_code(rig: ClaudeRig) -> None:
    _four(rig)


@pytest.mark.codex
def test_four_ends_of_codex(codex_rig: CodexRig) -> None:
    _four(codex_rig)
