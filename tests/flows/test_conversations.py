"""Messages to a task continue its conversation, in order and once each, whatever is killed; nothing that was sent is lost."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.rig import Rig

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import TaskState
from watchkeeper.errors import Exit


def hand_over(rig: Rig, script: str, *options: str) -> str:
    """A task of the demo agent."""
    done = rig.wk("run", "--json", "--harness", "demo", "--expect", "any", *options, script)
    return str(json.loads(done.stdout)["id"])


def thread(rig: Rig, task_id: str) -> dict[str, Any]:
    """What `wk thread` shows."""
    return json.loads(rig.wk("thread", "--json", task_id).stdout)


def states(rig: Rig, task_id: str) -> list[str]:
    """How the messages stand."""
    return [one["state"] for one in thread(rig, task_id)["messages"]]


def test_a_message_to_a_finished_task_goes_on_with_the_same_conversation(rig: Rig) -> None:
    rig.start_daemon()
    task_id = hand_over(rig, "say one", "--title", "Talk")
    assert rig.wait_resting(task_id).state is TaskState.DONE

    sent = rig.wk("send", task_id, "say two\nwrite seen here")

    assert sent.stdout.decode() == f"{task_id}.m1  waits for its turn; the conversation continues.\n"
    assert rig.wait_resting(task_id).state is TaskState.DONE
    first, second = rig.runs(task_id)
    assert first.harness_session == second.harness_session
    assert (rig.repo / "seen").read_text(encoding="utf-8").strip() == "here"
    assert rig.task(task_id).attempts == 1  # a message begins a fresh budget
    shown = thread(rig, task_id)
    assert [one["text"] for one in shown["replies"]] == ["one", "two"]
    assert shown["replies"][1]["messages"] == [f"{task_id}.m1"]
    assert shown["messages"][0]["run"] == second.id
    text = rig.wk("thread", task_id).stdout.decode()
    assert text.index("say one") < text.index("say two") < text.index("to m1")
    assert f'wk send {task_id} "…"' in rig.wk("show", task_id).stdout.decode()


def test_what_comes_while_the_agent_works_rides_the_next_run_in_order(rig: Rig) -> None:
    rig.start_daemon()
    task_id = hand_over(rig, f"wait-for {rig.root}/go\nsay one")
    sent = [rig.wk("send", task_id, f"say {number}").stdout.decode() for number in range(2, 5)]
    assert all("the next run of the task takes it" in one for one in sent)
    assert "3 messages waiting" in rig.wk("show", task_id).stdout.decode()
    (rig.root / "go").touch()
    assert rig.wait_resting(task_id).state is TaskState.DONE
    first, second = thread(rig, task_id)["replies"]
    assert (first["messages"], len(second["messages"]), second["resumed"]) == ([], 3, True)
    assert states(rig, task_id) == ["answered"] * 3
    assert second["text"] == "4"  # the last of the joined script


def test_the_same_key_is_the_same_message_and_another_text_is_refused(rig: Rig) -> None:
    rig.start_daemon()
    task_id = hand_over(rig, "say one")
    _ = rig.wait_resting(task_id)
    first, again = (rig.wk("send", "--json", "--key", "k", task_id, "say two") for _ in range(2))
    assert json.loads(first.stdout)["id"] == json.loads(again.stdout)["id"] == f"{task_id}.m1"
    other = rig.wk("send", "--key", "k", task_id, "say three", check=False)
    assert other.returncode == Exit.REFUSED and b"says something else" in other.stderr
    _ = rig.wait_resting(task_id)
    assert states(rig, task_id) == ["answered"]


def test_a_stop_answers_what_waits_with_stopped(rig: Rig) -> None:
    rig.start_daemon()
    task_id = hand_over(rig, f"wait-for {rig.root}/never")
    rig.wk("send", task_id, "say two")
    rig.wk("stop", task_id)
    assert rig.wait_resting(task_id).state is TaskState.STOPPED
    assert states(rig, task_id) == ["stopped"]
    assert len(rig.runs(task_id)) == 1


def test_the_third_failure_ends_a_message_with_its_kind(rig: Rig) -> None:
    rig.start_daemon()
    task_id = hand_over(rig, "say one", "--retries", "9")
    _ = rig.wait_resting(task_id)
    rig.wk("send", task_id, "fail crash")
    assert rig.wait_resting(task_id, within_s=60).state is not TaskState.QUEUED
    (message,) = thread(rig, task_id)["messages"]
    assert (message["state"], message["kind"]) == ("failed", "crash"), message


@pytest.mark.parametrize("kind", [FailureKind.INTERRUPTED, FailureKind.SESSION_GONE])
def test_a_message_outlives_a_run_that_is_not_its_fault(rig: Rig, kind: FailureKind) -> None:
    """It waits for a person's next act; then a new conversation, or the old one, takes it."""
    rig.start_daemon()
    task_id = hand_over(rig, "say one")
    _ = rig.wait_resting(task_id)
    rig.wk("send", task_id, f"fail {kind}")
    task = rig.wait_resting(task_id)
    assert (task.state, task.kind) == (TaskState.NEEDS_INPUT, kind)
    assert states(rig, task_id) == ["waiting"]
    rig.wk("retry", "--fresh", task_id)
    assert rig.wait_resting(task_id).state is not TaskState.QUEUED
    last = thread(rig, task_id)["replies"][-1]
    assert (last["resumed"], last["messages"]) == (False, [f"{task_id}.m1"])
    assert rig.runs(task_id)[-1].harness_session != rig.runs(task_id)[0].harness_session


def test_a_resumed_task_is_asked_to_continue(rig: Rig) -> None:
    rig.start_daemon()
    task_id = hand_over(rig, "say one")
    _ = rig.wait_resting(task_id)
    rig.wk("resume", task_id)
    _ = rig.wait_resting(task_id)
    rig.wk("retry", "--continue", task_id)
    _ = rig.wait_resting(task_id)
    shown = thread(rig, task_id)
    assert [(one["text"], one["state"]) for one in shown["messages"]] == [("Continue.", "answered")] * 2
    assert {run.harness_session for run in rig.runs(task_id)} == {rig.runs(task_id)[0].harness_session}


def test_what_cannot_go_on_is_refused_and_nothing_changes(rig: Rig) -> None:
    rig.start_daemon()
    command = str(json.loads(rig.wk("run", "--json", "--", "true").stdout)["id"])
    _ = rig.wait_resting(command)
    refused = rig.wk("send", command, "more", check=False)
    assert refused.returncode == Exit.REFUSED and b"cannot continue a conversation" in refused.stderr
    waiting = str(
        json.loads(rig.wk("add", "--json", "--harness", "demo", "--not-before", "23:59", "say x").stdout)["id"]
    )
    rig.wk("cancel", waiting)
    refused = rig.wk("send", waiting, "more", check=False)
    assert refused.returncode == Exit.REFUSED and b"no conversation on record" in refused.stderr
    huge = rig.wk("send", waiting, "-", given=b"x" * 1_000_001, check=False)
    assert b"at most 1 MB" in huge.stderr
    assert rig.wk("send", waiting, " ", check=False).returncode != 0
    assert states(rig, waiting) == states(rig, command) == []
    assert rig.task(waiting).state is TaskState.STOPPED


def test_the_conversation_goes_with_its_task(rig: Rig) -> None:
    rig.start_daemon()
    task_id = hand_over(rig, "say one")
    _ = rig.wait_resting(task_id)
    rig.wk("send", "--wait", task_id, "say two")
    rig.wk("rm", "-y", task_id)
    assert rig.wk("thread", task_id, check=False).returncode == Exit.NOT_FOUND


@pytest.mark.timeout(300)
def test_ten_senders_with_two_receipts_each_across_three_kills(rig: Rig) -> None:
    """Each message arrives once, whatever is killed; those of one sender arrive in its order."""
    rig.start_daemon()
    task_id = hand_over(rig, "say one")
    _ = rig.wait_resting(task_id)

    def sender(number: int) -> None:
        for part in ("a", "b"):
            for _ in range(2):
                rig.wk("send", "--key", f"{number}{part}", task_id, f"append log {number}{part}")

    with ThreadPoolExecutor(10) as senders:
        working = [senders.submit(sender, number) for number in range(10)]
        for _ in range(3):
            rig.kill_daemon()
            rig.start_daemon()
            _ = working.pop().result()
        for each in working:
            each.result()
    _ = rig.wait_resting(task_id, within_s=120)
    shown = thread(rig, task_id)
    assert [one["state"] for one in shown["messages"]] == ["answered"] * 20
    taken = [message for reply in shown["replies"] for message in reply["messages"]]
    assert taken == [f"{task_id}.m{number}" for number in range(1, 21)]
    lines = (rig.repo / "log").read_text(encoding="utf-8").split()
    assert lines == [one["text"].split()[-1] for one in shown["messages"]]
    for number in range(10):
        assert lines.index(f"{number}a") < lines.index(f"{number}b")
