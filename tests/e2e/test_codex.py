"""The whole way with the real Codex: `wk run`, daemon, shim, the program itself with its sandbox, git, and a stub model on this machine."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from support.codex import MODEL, OWN_KEY, CodexRig
from support.real_agent import commands
from support.waiting import wait_until

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import AgentIdentity, EndReason, OutcomeStatus, Proof, TaskState
from watchkeeper.runtimes import proc
from watchkeeper_testing.codex import VERSION

pytestmark = [
    pytest.mark.codex,
    pytest.mark.timeout(1200),  # the first of these tests may have to fetch the program
]


def _write(name: str) -> dict[str, Any]:
    return {"text": "I write.", "tools": [{"do": "write", "path": "{{cwd}}/" + name, "content": f"{name}\n"}]}


def _shell(command: str) -> dict[str, Any]:
    return {"text": "I run it.", "tools": [{"do": "shell", "command": command}]}


STEPS = {
    "turns": [
        {**_write("a.txt"), "hold": "one"},
        {**_shell("cat a.txt > b.txt"), "hold": "two"},
        {"text": "All done.", "hold": "three"},
    ]
}
"""Three answers of the model, each of which waits until the test lets it go."""


def assert_nothing_alive(rig: CodexRig, task_id: str) -> None:
    """No process of the task is left, by its mark and by the record."""
    assert rig.survivors() == []
    for run in rig.runs(task_id):
        assert run.agent is None or not _lives(run.agent)


def _lives(agent: AgentIdentity) -> bool:
    return proc.identity(agent.pid) == (agent.pid, agent.start_ticks)


def test_work_is_done_and_told(codex_rig: CodexRig) -> None:
    """The agent edits and runs a command; the outcome says with what, and how to continue in the program itself."""
    rig = codex_rig
    said = rig.wk("run", "--harness", "codex", "--dry-run", "Please do it.").stderr.decode()
    assert said.startswith(f"Sandbox: writes only here, no network: codex {VERSION} edits here, runs commands")
    assert f"directory  {rig.repo}" in said
    (rig.repo / "README").write_text("Not mine.\n", encoding="utf-8")  # changed before the run, so not by it

    task_id = rig.give("work", "--wait")

    task, outcome = rig.task(task_id), rig.last_outcome(task_id)
    assert (rig.repo / "hello.txt").read_text(encoding="utf-8") == "hello from the stub\n"
    assert (task.state, len(rig.runs(task_id))) == (TaskState.DONE, 1)
    assert (outcome.status, outcome.kind, outcome.proof) == (OutcomeStatus.SUCCEEDED, None, Proof.PROVEN)
    assert outcome.text == "Done. The file says: hello from the stub"
    assert (outcome.tool_calls, outcome.model) == (2, MODEL)
    assert outcome.changes is not None
    assert [(file.path, file.change) for file in outcome.changes.files] == [("hello.txt", "added")]
    assert outcome.usage.input_tokens
    assert outcome.usage.output_tokens
    assert outcome.usage.cost_usd is None  # unknown, which is not nothing
    assert outcome.harness_session == rig.events(task_id)[0]["thread_id"]
    taken = next(line for line in rig.show(task_id).splitlines() if line.startswith("take over"))
    assert taken.split(maxsplit=2)[2] == f"cd {rig.repo} && codex resume {outcome.harness_session}"
    steps = rig.wk("logs", task_id).stdout.decode()
    assert "shell: cat hello.txt" in steps
    assert f"edit: add {rig.repo}/hello.txt" in steps
    assert "Done. The file says: hello from the stub" in steps
    assert {each.credential for each in rig.requests("work")} == {"authorization: Bearer sk-test-local"}
    assert_nothing_alive(rig, task_id)


def test_the_conversation_can_be_taken_over(codex_rig: CodexRig) -> None:
    """The session that is named is found by the program; its screen is exchanged for a run without one, which needs the provider again."""
    rig = codex_rig
    task_id = rig.give("text", "--wait", "--expect", "answer")
    taken = next(line for line in rig.show(task_id).splitlines() if line.startswith("take over"))
    line = taken.split(maxsplit=2)[2].replace("codex resume", "codex exec resume --json --skip-git-repo-check")
    home = rig.root / "home" / ".codex"
    (home / "config.toml").write_text(rig.settings["WATCHKEEPER_HARNESS_CODEX_CONFIG"], encoding="utf-8")
    said = [json.loads(each) for each in rig.shell(f"{line} -m {MODEL} 'And then?'").splitlines()]
    assert said[0] == {"type": "thread.started", "thread_id": rig.last_outcome(task_id).harness_session}
    assert "Answer 2: you said [And then?]." in [each.get("item", {}).get("text") for each in said]


def test_the_programs_own_provider_takes_the_key_of_its_variable(codex_rig: CodexRig) -> None:
    """Which it asks for a web socket first, and then continues without."""
    rig = codex_rig
    rig.configure(f'openai_base_url = "{rig.stub.url("text", rig.key)}/v1"')
    task_id = rig.give("text", "--wait", "--expect", "answer", sign_in=OWN_KEY)
    assert rig.last_outcome(task_id).text == "Answer 1: you said [Please do it.]."
    assert [each.credential for each in rig.requests("text")] == ["authorization: Bearer sk-test-local"]


def test_a_prompt_arrives_byte_for_byte(codex_rig: CodexRig) -> None:
    """A dash at its beginning, quotes, line ends of both kinds, what a shell would take, other scripts, and a hundred kilobytes."""
    prompt = "-c --help \"a\" 'b' `c` $HOME \\ %s {prompt}\r\n\n\tünïcödé ✓ 🎉\n" + "0123456789" * 10_000 + "\nend"
    task_id = codex_rig.give("text", "--wait", "--expect", "answer", prompt=prompt)
    assert [each.prompts for each in codex_rig.requests("text")] == [(prompt,)]
    assert codex_rig.last_outcome(task_id).status is OutcomeStatus.SUCCEEDED


def test_a_refused_key_ends_the_run_early(codex_rig: CodexRig) -> None:
    """By itself the program would try it four more times."""
    rig = codex_rig
    rig.configure(f'openai_base_url = "{rig.stub.url("bad_key", rig.key)}/v1"')
    task_id = rig.give("bad_key", sign_in=OWN_KEY)
    assert rig.wait_over(task_id) == [FailureKind.SIGNED_OUT]
    [run] = rig.runs(task_id)
    assert run.exit is not None
    assert run.exit.reason is EndReason.EARLY_FAIL
    assert len(rig.requests("bad_key")) <= 4
    assert "401" in rig.last_outcome(task_id).reason
    assert_nothing_alive(rig, task_id)


def test_a_silent_service_ends_at_the_deadline_with_all_that_runs(codex_rig: CodexRig) -> None:
    """The program waits for an answer, and a command of its own runs in the background."""
    rig = codex_rig
    slow = f"tail -s 1.71 --pid={os.getpid()} -f /dev/null"
    call = {"do": "raw", "name": "exec_command", "args": {"cmd": slow, "yield_time_ms": 300}}
    rig.stub.board.add(
        {
            "codex_silence": {
                "turns": [{"text": "I wait.", "tools": [call]}],
                "faults": [{}, {"hang": "accept"}],
                "faults_forever": True,
            }
        }
    )
    rig.configure(
        sandbox="danger-full-access"
    )  # in its sandbox the command sees another pid than ours and ends at once
    task_id = rig.give("codex_silence", "--deadline", "6s")
    _ = rig.wait_command(slow)
    assert rig.wait_over(task_id) == [FailureKind.DEADLINE]
    [run], outcome = rig.runs(task_id), rig.last_outcome(task_id)
    assert run.exit is not None
    assert run.exit.reason is EndReason.DEADLINE
    assert run.exit.elapsed_s >= 6.0
    assert outcome.proof is Proof.PROVEN
    assert commands(slow) == []
    assert_nothing_alive(rig, task_id)


def test_the_sandbox_keeps_the_agent_in_its_directory(codex_rig: CodexRig) -> None:
    """It can neither write elsewhere nor into the repository's own directory, nor reach the network; the run says so beforehand."""
    rig = codex_rig
    elsewhere = (
        Path("/var/tmp") / f"watchkeeper-{rig.key}-{os.getpid()}"
    )  # other temporary directories are allowed to it
    command = f"touch {elsewhere} .git/x; curl -s {rig.stub.base_url}/__stub/health; touch here.txt; echo over"
    rig.stub.board.add({"codex_bounds": {"turns": [_shell(command), {"text": "Done."}]}})
    task_id = rig.give("codex_bounds")
    assert rig.wait_over(task_id) == [None]
    assert not elsewhere.exists()
    assert not (rig.repo / ".git" / "x").exists()
    assert (rig.repo / "here.txt").exists()
    [output] = [
        each["item"]["aggregated_output"]
        for each in rig.events(task_id)
        if each["type"] == "item.completed" and each["item"]["type"] == "command_execution"
    ]
    assert output.count("Read-only file system") == 2
    assert output.splitlines()[-1] == "over"
    assert '"ok"' not in output


@pytest.mark.parametrize("ends", ["alone", "watched"])
def test_the_agent_outlives_every_daemon(codex_rig: CodexRig, ends: str) -> None:
    """The daemon is killed again and again; the agent works on without one, and its end is known, whichever daemon watched."""
    rig = codex_rig
    rig.stub.board.add({"codex_steps": STEPS})
    task_id = rig.give("codex_steps")
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

    assert rig.wait_over(task_id) == [None]
    [run], outcome = rig.runs(task_id), rig.last_outcome(task_id)
    assert (outcome.status, outcome.proof, outcome.text) == (OutcomeStatus.SUCCEEDED, Proof.PROVEN, "All done.")
    assert run.exit is not None
    assert (run.exit.reason, run.exit.exit_code) == (EndReason.EXITED, 0)
    assert (rig.repo / "b.txt").read_text(encoding="utf-8") == "a.txt\n"
    assert outcome.changes is not None
    assert [file.path for file in outcome.changes.files] == ["a.txt", "b.txt"]
    assert [(each.outcome, each.end) for each in rig.requests("codex_steps")] == [
        (f"turn {number}", "sent") for number in range(3)
    ]
    assert [each["type"] for each in rig.events(task_id)][-1] == "turn.completed"
    assert_nothing_alive(rig, task_id)


def test_the_shims_death_is_no_success_and_leaves_nothing_alive(codex_rig: CodexRig) -> None:
    """The agent's end was not seen, so a person must look; what it had started in its sandbox is ended."""
    rig = codex_rig
    slow = f"sleep 1717.{os.getpid()}"
    rig.stub.board.add({"codex_lost": {"turns": [_shell(f"exec {slow}"), {"text": "Done."}]}})
    task_id = rig.give("codex_lost")
    _ = rig.wait_command(slow)
    os.kill(rig.shim(task_id), signal.SIGKILL)
    task = rig.wait_resting(task_id)
    assert (task.state, task.kind) == (TaskState.HELD, FailureKind.LOST)
    assert commands(slow) == []
    assert_nothing_alive(rig, task_id)
    assert len(rig.requests("codex_lost")) == 1


def test_stop_ends_the_agent_and_its_command(codex_rig: CodexRig) -> None:
    """`wk stop` returns when nothing of it is alive, in its sandbox neither."""
    rig = codex_rig
    slow = f"sleep 1718.{os.getpid()}"
    rig.stub.board.add({"codex_stop": {"turns": [_shell(f"exec {slow}"), {"text": "Done."}]}})
    task_id = rig.give("codex_stop")
    _ = rig.wait_command(slow)
    _ = rig.wk("stop", task_id)
    assert commands(slow) == []
    assert_nothing_alive(rig, task_id)
    task, outcome = rig.task(task_id), rig.last_outcome(task_id)
    assert (task.state, outcome.status, outcome.proof) == (TaskState.STOPPED, OutcomeStatus.STOPPED, Proof.PROVEN)
    assert outcome.harness_session
