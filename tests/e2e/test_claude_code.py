"""The whole way with the real Claude Code: `wk run`, daemon, shim, the program itself, git, and a stub model with which nothing leaves the machine."""

import os
import signal
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.claude_code import NOBODY, SUBSCRIPTION, ClaudeRig, commands
from support.waiting import wait_until

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import AgentIdentity, Disposition, EndReason, OutcomeStatus, Proof, TaskState
from watchkeeper.runtimes import proc
from watchkeeper_testing.claude_code import VERSION

pytestmark = [
    pytest.mark.claude,
    pytest.mark.timeout(1200),  # the first of these tests may have to fetch the program
]


def _write(name: str) -> dict[str, Any]:
    return {"text": "I write.", "tools": [{"do": "write", "path": "{{cwd}}/" + name, "content": f"{name}\n"}]}


def _shell(command: str) -> dict[str, Any]:
    return {"text": "I run it.", "tools": [{"do": "shell", "command": command}]}


def _slow(number: int) -> str:
    """A command that lasts as long as this process and that no other test runs. The program refuses to run a mere `sleep`."""
    return f"tail -s 1.{number} --pid={os.getpid()} -f /dev/null"


STEPS = {
    "turns": [
        {**_write("a.txt"), "hold": "one"},
        {**_shell("cat a.txt > b.txt"), "hold": "two"},
        {"text": "All done.", "hold": "three"},
    ]
}
"""Three answers of the model, each of which waits until the test lets it go."""


def assert_nothing_alive(rig: ClaudeRig, task_id: str) -> None:
    """No process of the task is left, by its mark and by the record."""
    assert rig.survivors() == []
    for run in rig.runs(task_id):
        assert run.agent is None or not _lives(run.agent)


def _lives(agent: AgentIdentity) -> bool:
    return proc.identity(agent.pid) == (agent.pid, agent.start_ticks)


def test_work_is_done_and_told(rig: ClaudeRig) -> None:
    """The agent edits and runs a command; the outcome says with what, and how to continue in the program itself."""
    said = rig.wk("run", "--harness", "claude", "--dry-run", "Please do it.").stderr.decode()
    assert said.startswith(f"No sandbox, your network: claude {VERSION} edits here, runs any command")
    assert f"directory  {rig.repo}" in said
    (rig.repo / "README").write_text("Not mine.\n", encoding="utf-8")  # changed before the run, so not by it

    task_id = rig.give("work", "--wait")

    task, outcome = rig.task(task_id), rig.last_outcome(task_id)
    assert (rig.repo / "hello.txt").read_text(encoding="utf-8") == "hello from the stub\n"
    assert (task.state, len(rig.runs(task_id))) == (TaskState.DONE, 1)
    assert (outcome.status, outcome.kind, outcome.proof) == (OutcomeStatus.SUCCEEDED, None, Proof.PROVEN)
    assert outcome.text == "Done. The file says: hello from the stub"
    assert (outcome.turns, outcome.tool_calls) == (3, 2)
    assert outcome.changes is not None
    assert [(file.path, file.change) for file in outcome.changes.files] == [("hello.txt", "added")]
    assert outcome.usage.input_tokens
    assert outcome.usage.output_tokens
    assert outcome.usage.cost_usd
    [begun] = [each for each in rig.events(task_id) if each.get("subtype") == "init"]
    assert (outcome.harness_session, outcome.model) == (begun["session_id"], begun["model"])
    taken = next(line for line in rig.show(task_id).splitlines() if line.startswith("take over"))
    assert taken.split(maxsplit=2)[2] == f"cd {rig.repo} && claude --resume {outcome.harness_session}"
    steps = rig.wk("logs", task_id).stdout.decode()
    assert "Bash: cat hello.txt" in steps
    assert f"Write: {rig.repo}/hello.txt" in steps
    assert "Done. The file says: hello from the stub" in steps
    assert {each.credential for each in rig.requests("work")} == {"x-api-key: sk-test-local"}
    assert_nothing_alive(rig, task_id)


def test_the_conversation_can_be_taken_over(rig: ClaudeRig) -> None:
    """The printed command finds the session that the run has left."""
    task_id = rig.give("text", "--wait", "--expect", "answer")
    taken = next(line for line in rig.show(task_id).splitlines() if line.startswith("take over"))
    done = rig.shell(taken.split(maxsplit=2)[2] + " -p 'And then?'")
    assert done == "Answer 2: you said [And then?]."


def test_a_refused_key_ends_the_run_early(rig: ClaudeRig) -> None:
    """By itself the program would try it again for minutes."""
    task_id = rig.give("bad_key")
    assert rig.wait_over(task_id) == [FailureKind.SIGNED_OUT]
    [run] = rig.runs(task_id)
    assert rig.task(task_id).attempts == 0
    assert run.exit is not None
    assert run.exit.reason is EndReason.EARLY_FAIL
    assert len(rig.requests("bad_key")) <= 3
    assert "401" in rig.last_outcome(task_id).reason
    assert_nothing_alive(rig, task_id)


def test_nobody_signed_in_makes_one_run(rig: ClaudeRig) -> None:
    """The model is not even asked."""
    task_id = rig.give("text", sign_in=NOBODY)
    assert rig.wait_over(task_id) == [FailureKind.SIGNED_OUT]
    assert rig.last_outcome(task_id).reason.startswith("Not logged in")
    assert rig.requests("text") == []


def test_one_overload_is_the_programs_own_business(rig: ClaudeRig) -> None:
    """It tries again within its conversation, and ours is one run."""
    rig.settings = {"WATCHKEEPER_HARNESS_CLAUDE_MAX_RETRIES": "1"}
    task_id = rig.give("overloaded_once")
    assert rig.wait_resting(task_id).state is TaskState.DONE
    assert len(rig.runs(task_id)) == 1
    assert [each.outcome for each in rig.requests("overloaded_once")] == ["fault 529", "turn 0", "turn 1", "turn 2"]
    assert "Try 1 of 1" in rig.wk("logs", task_id).stdout.decode()


def test_a_service_that_is_overloaded_for_long_is_tried_by_one_task_at_a_time(rig: ClaudeRig) -> None:
    """Each run is one try here, because the program's own patience is set to nothing. No attempt is used up, and in the end all is done."""
    rig.stub.board.add({"outage": {"faults": [{"status": 529}] * 5, "turns": [_write("a.txt"), {"text": "All done."}]}})
    rig.settings = {
        "WATCHKEEPER_HARNESS_CLAUDE_MAX_RETRIES": "0", "WATCHKEEPER_QUEUE_LIMIT": "1",
        "WATCHKEEPER_QUEUE_PROBE_BASE": "0.2s", "WATCHKEEPER_QUEUE_PROBE_CAP": "1s",
    }  # fmt: skip
    tasks = [rig.give("outage", "--shared", "--retries", "1") for _ in range(3)]
    assert [rig.wait_resting(task_id).state for task_id in tasks] == [TaskState.DONE] * 3
    assert [rig.task(task_id).attempts for task_id in tasks] == [1] * 3
    kinds = Counter(run.kind for task_id in tasks for run in rig.runs(task_id))
    assert kinds == {None: 3, FailureKind.OVERLOADED: 5}


def test_a_silent_service_ends_at_the_deadline_with_all_that_runs(rig: ClaudeRig) -> None:
    """The program waits for an answer, and a command of its own runs in the background."""
    slow = _slow(1)
    background = {"command": slow, "run_in_background": True, "description": "wait"}
    scenario = {
        "turns": [{"text": "I wait.", "tools": [{"do": "raw", "name": "Bash", "args": background}]}],
        "faults": [{}, {"hang": "accept"}],
        "faults_forever": True,
    }
    rig.stub.board.add({"silence": scenario})
    task_id = rig.give("silence", "--deadline", "10s")
    _ = rig.wait_command(slow)
    task = rig.wait_resting(task_id)
    [run], outcome = rig.runs(task_id), rig.last_outcome(task_id)
    assert (task.state, task.kind) == (TaskState.FAILED, FailureKind.DEADLINE)
    assert run.exit is not None
    assert run.exit.reason is EndReason.DEADLINE
    assert run.exit.elapsed_s >= 10.0
    assert outcome.proof is Proof.PROVEN
    assert commands(slow) == []
    assert_nothing_alive(rig, task_id)


@pytest.mark.parametrize("forever", [False, True], ids=["once", "always"])
def test_a_stream_that_breaks_off_in_the_middle_is_no_answer(rig: ClaudeRig, forever: bool) -> None:
    """The program asks again, at last without a stream; nothing of the broken answer counts, and ours is one run."""
    name = f"cut_{forever}"
    turns = [_write("a.txt"), {"text": "All done."}]
    rig.stub.board.add({name: {"turns": turns, "faults": [{"truncate": True}], "faults_forever": forever}})
    task_id = rig.give(name)
    assert rig.wait_resting(task_id).state is TaskState.DONE
    outcome = rig.last_outcome(task_id)
    assert (len(rig.runs(task_id)), outcome.tool_calls, outcome.text) == (1, 1, "All done.")
    ends = [each.end for each in rig.requests(name)]
    assert (ends[0], ends.count("sent")) == ("cut", 2)


def test_a_denied_permission_asks_for_a_person_and_names_the_call(rig: ClaudeRig) -> None:
    """Writing elsewhere is not allowed beforehand, and no person can be asked."""
    elsewhere = rig.root / "elsewhere" / "note.txt"
    turns = [
        {"text": "I write.", "tools": [{"do": "write", "path": str(elsewhere), "content": "x"}]},
        {"text": "I was not allowed to."},
    ]
    rig.stub.board.add({"elsewhere": {"turns": turns}})
    task_id = rig.give("elsewhere")
    task = rig.wait_resting(task_id)
    assert (task.state, task.kind) == (TaskState.NEEDS_INPUT, FailureKind.PERMISSION_DENIED)
    assert "Write" in task.reason
    assert str(elsewhere) in task.reason
    assert len(rig.runs(task_id)) == 1
    assert rig.last_outcome(task_id).harness_session
    assert rig.wk("logs", task_id).stdout.decode().count("you haven't granted it") == 1
    assert not elsewhere.exists()


def test_a_used_up_subscription_waits_for_its_reset(rig: ClaudeRig) -> None:
    """Also a new daemon lets it wait."""
    task_id = rig.give("limit", sign_in=SUBSCRIPTION)
    wait_until(lambda: rig.task(task_id).kind, within_s=30, what="the run is settled")
    rig.kill_daemon()
    rig.start_daemon()  # ready means that it has looked at every task
    task, outcome = rig.task(task_id), rig.last_outcome(task_id)
    assert (task.state, task.kind, task.attempts) == (TaskState.QUEUED, FailureKind.QUOTA, 0)
    assert outcome.disposition is Disposition.RETRY
    assert task.wake_at is not None
    assert abs(task.wake_at - datetime.now(UTC) - timedelta(hours=1)) < timedelta(minutes=2)
    assert (len(rig.runs(task_id)), len(rig.requests("limit"))) == (1, 1)
    assert "quota until" in rig.show(task_id)


@pytest.mark.parametrize("ends", ["alone", "watched"])
def test_the_agent_outlives_every_daemon(rig: ClaudeRig, ends: str) -> None:
    """The daemon is killed again and again; the agent works on without one, and its end is known, whichever daemon watched."""
    rig.stub.board.add({"steps": STEPS})
    task_id = rig.give("steps")
    rig.wait_held("one")
    rig.kill_daemon()
    rig.release("one")
    rig.wait_held("two")  # it has worked without a daemon
    rig.start_daemon()
    rig.kill_daemon()
    rig.start_daemon()
    rig.release("two")
    rig.wait_held("three")
    rig.kill_daemon()
    agent = rig.runs(task_id)[0].agent
    assert agent is not None
    if ends == "watched":
        rig.start_daemon()
    rig.release("three")
    wait_until(lambda: not _lives(agent), what="the agent has ended")

    assert rig.wait_resting(task_id).state is TaskState.DONE
    [run], outcome = rig.runs(task_id), rig.last_outcome(task_id)
    assert (outcome.status, outcome.proof, outcome.text) == (OutcomeStatus.SUCCEEDED, Proof.PROVEN, "All done.")
    assert run.exit is not None
    assert (run.exit.reason, run.exit.exit_code) == (EndReason.EXITED, 0)
    assert (rig.repo / "b.txt").read_text(encoding="utf-8") == "a.txt\n"
    assert outcome.changes is not None
    assert [file.path for file in outcome.changes.files] == ["a.txt", "b.txt"]
    assert [(each.outcome, each.end) for each in rig.requests("steps")] == [(f"turn {n}", "sent") for n in range(3)]
    events = rig.events(task_id)
    assert [each["type"] for each in events if each["type"] != "system"] == [
        *["assistant", "assistant", "user"] * 2, "assistant", "result",
    ]  # fmt: skip
    assert len({each["session_id"] for each in events}) == 1
    assert_nothing_alive(rig, task_id)


def test_the_shims_death_is_no_success_and_leaves_nothing_alive(rig: ClaudeRig) -> None:
    """The agent's end was not seen, so a person must look; what it had started is ended."""
    slow = _slow(2)
    rig.stub.board.add({"slow_lost": {"turns": [_shell(slow), {"text": "Done."}]}})
    task_id = rig.give("slow_lost")
    _ = rig.wait_command(slow)
    os.kill(rig.shim(task_id), signal.SIGKILL)
    task = rig.wait_resting(task_id)
    assert (task.state, task.kind) == (TaskState.HELD, FailureKind.LOST)
    assert [run.kind for run in rig.runs(task_id)] == [FailureKind.LOST]
    assert commands(slow) == []
    assert_nothing_alive(rig, task_id)
    assert len(rig.requests("slow_lost")) == 1


def test_stop_ends_the_agent_and_its_command(rig: ClaudeRig) -> None:
    """`wk stop` returns when nothing of it is alive."""
    slow = _slow(3)
    rig.stub.board.add({"slow_stop": {"turns": [_shell(slow), {"text": "Done."}]}})
    task_id = rig.give("slow_stop")
    _ = rig.wait_command(slow)
    _ = rig.wk("stop", task_id)
    assert commands(slow) == []
    assert_nothing_alive(rig, task_id)
    task, outcome = rig.task(task_id), rig.last_outcome(task_id)
    assert (task.state, outcome.status, outcome.proof) == (TaskState.STOPPED, OutcomeStatus.STOPPED, Proof.PROVEN)
    assert len(rig.runs(task_id)) == 1
    assert outcome.harness_session


def test_two_tasks_work_at_once_each_in_its_own_repository(rig: ClaudeRig) -> None:
    """Each gets only its own changes."""
    names = ("left", "right")
    for name in names:
        rig.stub.board.add({name: {"turns": [_write(f"{name}.txt"), {"text": "Done.", "hold": name}]}})
    places = {name: rig.another_repository(name) for name in names}
    tasks = {name: rig.give(name, cwd=places[name]) for name in names}
    for name in names:
        rig.wait_held(name)  # both wait: they work at the same time
    for name in names:
        rig.release(name)
    for name in names:
        assert rig.wait_resting(tasks[name]).state is TaskState.DONE
        changes = rig.last_outcome(tasks[name]).changes
        assert changes is not None
        assert [(file.path, file.change) for file in changes.files] == [(f"{name}.txt", "added")]
        assert len(rig.requests(name)) == 2
