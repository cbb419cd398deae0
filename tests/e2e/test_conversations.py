"""A conversation continues with the real programs: the same session, and a model that is given what was said before, whatever died meanwhile."""

import json
import os
import shutil
import signal
from typing import Any

import pytest
from support.claude_code import ClaudeRig
from support.codex import CodexRig
from support.real_agent import AgentRig
from support.waiting import wait_until

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import TaskState

pytestmark = [pytest.mark.claude, pytest.mark.codex, pytest.mark.timeout(1200)]

FIRST, SECOND = "Please do the first thing.", "Now do the second thing."


@pytest.fixture(params=["claude", "codex"])
def agents(request: pytest.FixtureRequest) -> ClaudeRig | CodexRig:
    """A rig of each program."""
    return request.getfixturevalue("rig" if request.param == "claude" else "codex_rig")


def give(rig: ClaudeRig | CodexRig, scenario: str, *options: str) -> str:
    """Hand a task over."""
    if isinstance(rig, CodexRig):
        return rig.give(scenario, "--expect", "answer", *options, prompt=FIRST)
    rig.service = {"ANTHROPIC_BASE_URL": rig.stub.url(scenario, rig.key), "ANTHROPIC_API_KEY": "sk-test-local"}
    return rig.hand_over("--expect", "answer", *options, prompt=FIRST)


def messages(rig: AgentRig, task_id: str) -> list[dict[str, Any]]:
    """What `wk thread` says of them."""
    return json.loads(rig.wk("thread", "--json", task_id).stdout)["messages"]


def last_body(rig: AgentRig, scenario: str) -> str:
    """The last request to the model that was a turn of the agent."""
    return json.dumps([one for one in rig.requests(scenario) if one.outcome.startswith("turn")][-1].body)


SCENARIO = {"turns": [{"text": "The first answer."}, {"text": "The second answer."}, {"text": "The third answer."}]}


def test_the_second_turn_is_given_the_first(agents: ClaudeRig | CodexRig) -> None:
    rig = agents
    rig.stub.board.add({f"talk-{rig.harness}": SCENARIO})
    task_id = give(rig, f"talk-{rig.harness}", "--wait")
    assert rig.task(task_id).state is TaskState.DONE

    said = rig.wk("send", "--wait", task_id, SECOND)

    task, runs = rig.task(task_id), rig.runs(task_id)
    assert (task.state, len(runs)) == (TaskState.DONE, 2), said.stderr
    assert runs[0].harness_session and runs[0].harness_session == runs[1].harness_session
    body = last_body(rig, f"talk-{rig.harness}")
    assert FIRST in body and "The first answer." in body and SECOND in body
    assert [(one["state"], one["run"]) for one in messages(rig, task_id)] == [("answered", runs[1].id)]
    # What begins with a dash is text, and so is what the program would take for a command of its own.
    rig.wk("send", "--wait", task_id, "--", "--dangerously-skip-permissions")
    body = last_body(rig, f"talk-{rig.harness}")
    assert "--dangerously-skip-permissions" in body and SECOND in body
    assert rig.runs(task_id)[2].harness_session == runs[0].harness_session


def forget(rig: AgentRig) -> None:
    """Delete what the program keeps of its conversations."""
    home = rig.root / "home"
    for place in (home / ".claude" / "projects", home / ".codex" / "sessions"):
        shutil.rmtree(place, ignore_errors=True)
    for kept in (home / ".codex").glob("state*"):
        kept.unlink()


def keeps(rig: AgentRig, text: str) -> bool:
    """Whether the program has written a text into what it keeps of its conversations."""
    home = rig.root / "home"
    places = (home / ".claude" / "projects", home / ".codex" / "sessions")
    return any(text in file.read_text(encoding="utf-8") for place in places for file in place.rglob("*.jsonl"))


def test_a_conversation_that_the_program_no_longer_knows_keeps_the_message(agents: ClaudeRig | CodexRig) -> None:
    """The kind says so, the message waits, and a new conversation takes it after the prompt."""
    rig = agents
    rig.stub.board.add({f"gone-{rig.harness}": SCENARIO})
    task_id = give(rig, f"gone-{rig.harness}", "--wait")
    forget(rig)

    _ = rig.wk("send", "--wait", task_id, SECOND, check=False)

    task = rig.task(task_id)
    run = rig.runs(task_id)[-1]
    assert (task.state, task.kind) == (TaskState.NEEDS_INPUT, FailureKind.SESSION_GONE), (
        rig.outcome(run.id),
        rig.log(run),
        rig.log(run, "stderr"),
    )
    assert [one["state"] for one in messages(rig, task_id)] == ["waiting"]
    assert "1 message waiting" in rig.show(task_id)
    rig.wk("retry", task_id)
    assert rig.wait_resting(task_id, within_s=60).state is TaskState.DONE
    body = last_body(rig, f"gone-{rig.harness}")
    assert FIRST in body and SECOND in body and "The first answer." not in body
    assert [one["state"] for one in messages(rig, task_id)] == ["answered"]


HELD = {
    "turns": [
        {"text": "I look.", "tools": [{"do": "shell", "command": "echo looked"}]},
        {"text": "Never seen.", "hold": "one"},
    ]
}
PLAIN = {"turns": [{"text": "I look."}, {"text": "The answer after all."}, {"text": "More."}]}


@pytest.mark.parametrize("victim", ["program", "shim", "daemon"])
def test_a_killed_first_turn_is_gone_on_with(agents: ClaudeRig | CodexRig, victim: str) -> None:
    """Its conversation is on record as soon as it is seen, whichever process is killed; the agent keeps what it had said."""
    rig = agents
    name = f"killed-{rig.harness}-{victim}"
    rig.stub.board.add({name: HELD})
    task_id = give(rig, name, "--retries", "0")
    rig.wait_held("one")
    # The program writes down what was said a moment after it has said it; what it has not written, no resumption brings back.
    wait_until(lambda: keeps(rig, FIRST) and keeps(rig, "I look."), within_s=60, what="the program keeps the turn")
    if victim == "daemon":
        rig.kill_daemon()
        rig.start_daemon()
    agent = rig.runs(task_id)[-1].agent
    assert agent is not None
    os.kill(rig.shim(task_id) if victim == "shim" else agent.pid, signal.SIGKILL)
    task = rig.wait_resting(task_id, within_s=90)
    assert task.state in {TaskState.FAILED, TaskState.HELD}
    assert rig.runs(task_id)[0].harness_session
    rig.stub.board.add({name: PLAIN})

    rig.wk("send", task_id, SECOND)

    assert rig.wait_resting(task_id, within_s=90).state is TaskState.DONE
    runs = rig.runs(task_id)
    assert runs[0].harness_session == runs[-1].harness_session
    body = last_body(rig, name)
    assert FIRST in body and "I look." in body and SECOND in body
    assert [one["state"] for one in messages(rig, task_id)] == ["answered"]
