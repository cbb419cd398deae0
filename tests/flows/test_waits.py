"""Tasks that wait for each other, with real agents and a real daemon: who begins when."""

import json

import pytest
from support.flow_words import go_file, let_go, sound, working
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.model import TaskState


def why(rig: Rig, task_id: str) -> list[str]:
    """The words for why it waits."""
    return [reason["wait"] for reason in json.loads(rig.wk("why", task_id, "--json").stdout)["reasons"]]


def kinds(rig: Rig, task_id: str) -> list[str]:
    """What the journal says of its waits."""
    return [
        f"{entry.kind} {entry.data.get('wait', '')}".strip()
        for entry in rig.journal()
        if entry.task_id == task_id and entry.kind in {"task.waiting", "task.ready"}
    ]


def test_one_task_at_a_time_works_in_a_checkout(rig: Rig) -> None:
    """The second waits and says for whom; one that is shared, and one elsewhere, work meanwhile; then the second begins by itself."""
    rig.start_daemon()
    first, _ = working(rig)
    second = rig.run("exit", "0")
    beside = rig.run("exit", "0", options=("--shared",))
    (rig.root / "elsewhere").mkdir()
    elsewhere = rig.run("exit", "0", options=("--cwd", str(rig.root / "elsewhere")))
    assert rig.wait_resting(beside).state is rig.wait_resting(elsewhere).state is TaskState.DONE
    assert rig.task(second).state is TaskState.QUEUED and why(rig, second) == ["checkout busy"]
    assert f"waits: checkout busy, task {first}" in rig.wk("ls").stdout.decode()
    let_go(rig)
    assert rig.wait_resting(second).state is TaskState.DONE
    assert rig.started_runs().index(f"{first}.1") < rig.started_runs().index(f"{second}.1")
    assert kinds(rig, second) == ["task.waiting checkout busy"]
    sound(rig)


def test_a_chain_begins_link_by_link(rig: Rig) -> None:
    """Handed over without a daemon; nothing is started until there is one, and then in the order of the chain."""
    lines = [
        {"name": "a", "argv": ["true"]},
        {"name": "b", "argv": ["true"], "after": ["a"], "priority": 9, "shared": True},
        {"name": "c", "argv": ["true"], "after": ["a", "b"], "priority": 99, "shared": True},
    ]
    added = rig.wk("add", "--json-lines", given="\n".join(map(json.dumps, lines)).encode())
    ids = added.stdout.decode().split()
    assert b"No daemon runs" in added.stderr and not rig.runs(ids[0])
    for task_id in ids:
        assert rig.wait_resting(task_id).state is TaskState.DONE
    began = [rig.runs(task_id)[0].claimed_at for task_id in ids]
    assert began == sorted(began)
    assert kinds(rig, ids[2]) == ["task.waiting dependency", "task.ready"]
    sound(rig)


def test_a_failed_link_keeps_the_chain_until_a_person_acts(rig: Rig) -> None:
    """It is said, and a wait for the child ends; another try of the parent lets the child continue."""
    parent = rig.run("fail-first", "1", "exit", "0", options=("--retries", "0"))
    child = rig.run("exit", "0", options=("--after", parent))
    assert rig.wait_resting(parent).state is TaskState.FAILED
    assert "never start by itself" in " ".join(rig.wk("why", child).stdout.decode().split())
    waited = rig.wk("wait", child, check=False)
    assert (
        waited.returncode == 10
        and f"{child}  waits for you: dependency: task {parent} failed" in waited.stdout.decode()
    )
    rig.wk("retry", parent)
    assert rig.wait_resting(child).state is TaskState.DONE
    # Handed over, failed, tried again, done: one word each. A parent that had failed before the child was handed over says the first two at once.
    *waits, last = kinds(rig, child)
    assert last == "task.ready" and set(waits) == {"task.waiting dependency"} and len(waits) in {2, 3}
    sound(rig)


def test_a_wait_ends_when_the_daemon_is_gone_and_goes_on_while_an_agent_works(rig: Rig) -> None:
    """The agent works on without a daemon, so something still happens; when it has ended no process settles it."""
    rig.start_daemon()
    first, _ = working(rig)
    second = rig.run("exit", "0", options=("--shared", "--not-before", "+1h"))
    rig.kill_daemon()
    assert rig.wk("wait", "--timeout", "12", first, check=False).returncode == 12
    waited = rig.wk("wait", second, check=False)
    assert waited.returncode == 7 and f"{second}  waits for a daemon" in waited.stdout.decode()
    let_go(rig)
    waited = rig.wk("wait", first, check=False)
    assert waited.returncode == 7 and "no daemon runs" in waited.stdout.decode()
    assert rig.wait_resting(first).state is TaskState.DONE


@pytest.mark.parametrize("part", [(), ("--harness", "command"), ("--project", "repo")], ids=str)
def test_a_resume_is_heard_at_once(rig: Rig, part: tuple[str, ...]) -> None:
    """What was paused begins when the pause is lifted, not at the next look; what worked went on."""
    rig.start_daemon()
    first, _ = working(rig)
    rig.wk("queue", "pause", *part)
    second = rig.run("exit", "0", options=("--shared",))
    wait_until(
        lambda: any(entry.kind == "queue.waiting" for entry in rig.journal()), what="the daemon tells of the pause"
    )
    assert rig.task(second).state is TaskState.QUEUED and why(rig, second) == ["paused"]
    rig.wk("queue", "resume", *part)
    assert rig.wait_resting(second, within_s=15).state is TaskState.DONE
    assert rig.task(first).state is TaskState.RUNNING
    go_file(rig).touch()
    assert rig.wait_resting(first).state is TaskState.DONE
    sound(rig)
