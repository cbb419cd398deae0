"""`wk stop`, `wk kill`, `wk retry`: several at once, each reported, none aborting the rest."""

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from watchkeeper.cli import render
from watchkeeper.daemon import client
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import AgentIdentity, DirectoryIdentity, Proof, Run, RunState, StopHow, TaskState
from watchkeeper.errors import DaemonError

if TYPE_CHECKING:
    from support.cli import Wk

    from watchkeeper.ports.store import Tx


def test_a_task_that_waits_is_stopped_at_once(wk: "Wk") -> None:
    """Nothing has to be ended, so nothing is waited for."""
    task_id = wk.add()
    answer = wk("stop", task_id)
    assert (answer.code, answer.out) == (0, f"{task_id}  stopped\n")
    stop = wk.task(task_id).stop
    assert stop is not None and stop.how is StopHow.STOP


def test_kill_and_grace_are_on_record(wk: "Wk") -> None:
    """The wish as it was made."""
    first, second = wk.add(), wk.add()
    assert wk("kill", first).code == 0
    assert wk("stop", "--grace", "3s", second).code == 0
    killed, stopped = wk.task(first).stop, wk.task(second).stop
    assert killed is not None and killed.how is StopHow.KILL
    assert stopped is not None and stopped.grace_s == 3.0


def test_one_that_ended_already_is_no_failure(wk: "Wk") -> None:
    """It stays as it ended."""
    task_id = wk.add()
    wk.become(task_id, TaskState.DONE)
    answer = wk("stop", task_id)
    assert answer.code == 0
    assert "had ended already: done" in answer.out
    assert wk.task(task_id).state is TaskState.DONE


def test_all_are_done_and_each_is_reported(wk: "Wk") -> None:
    """One unknown id keeps no other from being stopped."""
    first, second = wk.add(), wk.add()
    answer = wk("stop", first, "0l1", second, first[:7])
    assert answer.code == 3
    assert answer.out == f"{first}  stopped\n{second}  stopped\n"
    assert "'0l1'" in answer.err
    assert wk.task(second).state is TaskState.STOPPED


def test_reports_for_programs(wk: "Wk") -> None:
    """One entry for each that was asked for."""
    task_id = wk.add()
    said = wk("stop", "--json", task_id, "0l1").json
    assert [entry["asked"] for entry in said] == [task_id, "0l1"]
    assert said[0]["task"]["state"] == "stopped" and said[0]["error"] is None
    assert said[1]["task"] is None and "0l1" in said[1]["error"]


def test_dry_run_only_says(wk: "Wk") -> None:
    """What would be ended, and what would not."""
    waits, ended = wk.add(), wk.add()
    wk.become(ended, TaskState.FAILED)
    wk.ensured.clear()
    answer = wk("stop", "--dry-run", waits, ended)
    assert answer.code == 0
    assert f"{waits}  is queued; would be stopped" in answer.out
    assert f"{ended}  has ended already (failed)" in answer.out
    assert wk.task(waits).state is TaskState.QUEUED
    assert wk.ensured == []
    assert [row["id"] for row in wk("kill", "--dry-run", "--json", waits).json] == [waits]


def test_a_wish_that_nobody_can_act_on_yet_is_kept(wk: "Wk", monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a daemon the running agent is not ended; that is said, and the wish stays."""
    from watchkeeper.cli import task_ends

    monkeypatch.setattr(task_ends, "_BEYOND_GRACE_S", 0.1)
    task_id = wk.add()
    wk.claim()

    def ensure(*_: object, **__: object) -> None:
        raise DaemonError("It did not start.")

    monkeypatch.setattr(client, "ensure", ensure)
    answer = wk("stop", "--grace", "0.1", task_id)
    assert answer.code == 7
    assert "The wish is on record" in answer.err
    assert wk.task(task_id).stop is not None


def test_no_wait_returns_at_once(wk: "Wk") -> None:
    """The wish is on record, its end is not waited for."""
    task_id = wk.add()
    wk.claim()
    answer = wk("stop", "--no-wait", task_id)
    assert (answer.code, answer.out) == (0, f"{task_id}  will be stopped\n")


def test_waiting_for_the_end_is_bounded(wk: "Wk", monkeypatch: pytest.MonkeyPatch) -> None:
    """By the grace and a little more; then it says why it could not be ended: there is no directory of its run here."""
    from watchkeeper.cli import task_ends

    monkeypatch.setattr(task_ends, "_BEYOND_GRACE_S", 0.1)
    task_id = wk.add()
    wk.claim()
    answer = wk("stop", "--grace", "0.1", task_id)
    assert answer.code == 12
    assert "stop failed: " in answer.out and "It stays wished" in answer.out


def test_retry_queues_again_with_this_shells_environment(wk: "Wk") -> None:
    """And a fresh budget."""
    task_id = wk.add()
    wk.become(task_id, TaskState.FAILED, attempts=3)
    answer = wk("retry", task_id, LANG="de_DE.UTF-8")
    assert answer.code == 0 and task_id in answer.out
    task = wk.task(task_id)
    assert (task.state, task.attempts) == (TaskState.QUEUED, 0)
    kept = wk.parts.environments.get(task.environment_id)
    assert kept is not None and kept["LANG"] == "de_DE.UTF-8"


def test_retry_does_all_it_can(wk: "Wk") -> None:
    """What cannot be retried is said, and the code is of the first such."""
    waits, also, failed = wk.add(), wk.add(), wk.add()
    wk.become(failed, TaskState.FAILED)
    answer = wk("retry", waits, also, failed)
    assert answer.code == 8
    assert f"Task {waits} is already waiting" in answer.err and f"Task {also} is already waiting" in answer.err
    assert answer.out.startswith(failed)
    wk.become(failed, TaskState.FAILED)
    assert [task["id"] for task in wk("retry", "--json", failed).json] == [failed]


@pytest.mark.parametrize("command", ["stop", "kill", "retry"])
def test_an_agent_may_not_steer(wk: "Wk", command: str) -> None:
    """Not even its own task; looking is free."""
    task_id = wk.add()
    answer = wk(command, task_id, WATCHKEEPER_RUN=f"{task_id}.1")
    assert answer.code == 8
    assert wk.task(task_id).state is TaskState.QUEUED and wk.task(task_id).stop is None
    assert wk("show", task_id, WATCHKEEPER_RUN=f"{task_id}.1").code == 0


def _hold(wk: "Wk", task_id: str, proof: Proof | None) -> Run:
    """What a daemon records when a shim was killed."""
    run_id = wk.claim()
    store = wk.parts.store

    def work(tx: "Tx") -> Run:
        was = tx.runs.get(run_id)
        directory = DirectoryIdentity(device=1, inode=1)
        agent = AgentIdentity(pid=4711, start_ticks=1, boot_id="boot", started_at=was.claimed_at)
        ready = replace(was, state=RunState.HELD, directory=directory, agent=agent)
        held = replace(ready, proof=proof, kind=FailureKind.LOST, reason="It was lost.")
        tx.runs.save(held, was)
        return held

    run = store.transact("hold", work)
    wk.become(task_id, TaskState.HELD, reason="It was lost.")
    return run


@pytest.mark.parametrize(
    ("proof", "detail"),
    [
        (Proof.PROVEN, "stopped"),
        (Proof.SWEPT, "stopped; nothing of it was found alive, which does not prove its end"),
        (None, "stopped, but it is not proven that nothing of it is alive; its agent was pid 4711"),
    ],
)
@pytest.mark.parametrize("command", ["stop", "kill"])
def test_the_end_of_a_held_task_says_what_is_not_proven(
    wk: "Wk", command: str, proof: Proof | None, detail: str
) -> None:
    """A person may start another agent there, believing that the first one is dead."""
    task_id = wk.add()
    _hold(wk, task_id, proof)
    dry = wk(command, "--dry-run", task_id)
    assert ("nothing would be signalled" in dry.out) is (proof is not None) and "4711" not in dry.out
    answer = wk(command, task_id)
    assert answer.code == 0
    assert answer.out.startswith(f"{task_id}  {detail}")
    assert wk.task(task_id).state is TaskState.STOPPED


def test_the_proof_is_told_to_programs_too(wk: "Wk") -> None:
    """As a word."""
    task_id = wk.add()
    _hold(wk, task_id, Proof.SWEPT)
    assert wk("stop", "--json", task_id).json[0]["proof"] == "swept"


def test_show_tells_all_about_a_held_run(wk: "Wk") -> None:
    """The proof, the reason, what it printed, what its shim complained of, and the two things that a person can do."""
    task_id = wk.add()
    run = _hold(wk, task_id, Proof.SWEPT)
    executions = wk.parts.runtime.executions()
    executions.path(run).mkdir(parents=True)
    printed = b'{"type":"text","text":"half done"}\n'
    _ = executions.log(run, "stdout").write_bytes(printed)
    answer = wk("show", task_id)
    for part in ("swept: nothing of it was found alive", "lost: It was lost.", "tokens unknown", f"wk retry {task_id} (gives the held run up",
                 f"wk stop {task_id}"):  # fmt: skip
        assert part in answer.out, part
    assert "complaints" not in answer.out
    assert wk("show", "--json", task_id).json["runs"][0]["known"]["tool_calls"] == 0
    complaints = executions.path(run) / "shim.err"
    _ = complaints.write_text("Traceback\n", encoding="utf-8")
    assert f"the shim's own complaints: {complaints}" in wk("show", task_id).out
    assert f"The shim's own complaints: {complaints}" in wk("logs", "--stderr", task_id).err
    assert "complaints" not in wk("logs", task_id).err


@pytest.mark.parametrize("proof", [Proof.PROVEN, Proof.SWEPT, Proof.UNPROVEN, None])
def test_a_look_is_advised_only_where_it_can_find_something(wk: "Wk", proof: Proof | None) -> None:
    """What is proven to be gone needs none."""
    task_id = wk.add()
    _hold(wk, task_id, proof)
    out = " ".join(wk("show", task_id).out.split())
    assert f"wk retry {task_id} (gives the held run up" in out
    assert ("look whether something of it is alive" in out) is (proof is not Proof.PROVEN)


@pytest.mark.parametrize(
    ("proof", "detail"),
    [
        (Proof.PROVEN, "  `wk retry {id}` starts it again; `wk stop {id}` ends it.\n"),
        (
            Proof.SWEPT,
            "  Nothing was found alive, but that does not prove its end. `ps -p 4711` shows whether its agent is there. `wk retry {id}`",
        ),
        (
            None,
            "  Something of it may be alive. `ps -p 4711` shows whether its agent is there. `wk retry {id}` starts it again",
        ),
    ],
)
def test_why_names_the_ways_out_of_a_hold(wk: "Wk", proof: Proof | None, detail: str) -> None:
    """What a person can type, and how they look first."""
    task_id = wk.add()
    _hold(wk, task_id, proof)
    assert detail.format(id=task_id) in wk("why", task_id).out


def test_why_keeps_its_commands_whole_on_a_terminal(wk: "Wk", monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its sentences is a line of its own, and broken by itself."""
    task_id = wk.add()
    wk.become(task_id, TaskState.FAILED, reason="It did not work. " * 8)
    monkeypatch.setattr(render, "_is_terminal", lambda _: True)
    monkeypatch.setenv("COLUMNS", "80")
    lines = wk("why", task_id).out.splitlines()
    assert lines[-1] == f"  `wk retry {task_id}` tries it again." and max(map(len, lines)) <= 80


def test_nobody_is_led_into_a_tree_where_an_agent_may_work(wk: "Wk", monkeypatch: pytest.MonkeyPatch) -> None:
    """The conversation can be taken over when none of our processes works there or is about to."""
    from watchkeeper.harnesses.demo import Demo

    monkeypatch.setattr(Demo, "takeover", lambda *_: "program --resume it")
    task_id = wk.add()
    run = _hold(wk, task_id, None)

    def named(proof: Proof | None) -> None:
        def work(tx: "Tx") -> None:
            was = tx.runs.get(run.id)
            tx.runs.save(replace(was, harness_session="it", proof=proof), was)

        wk.parts.store.transact("name", work)

    for state, proof, shown in (
        (TaskState.RUNNING, None, False),
        (TaskState.HELD, None, False),
        (TaskState.HELD, Proof.UNPROVEN, False),
        (TaskState.HELD, Proof.SWEPT, True),
    ):
        named(proof)
        wk.become(task_id, state)
        assert ("program --resume it" in wk("show", task_id).out) is shown, (state, proof)
    assert wk("stop", task_id).code == 0
    assert "program --resume it" in wk("show", task_id).out
    assert wk("retry", task_id).code == 0
    assert "program --resume it" not in wk("show", task_id).out


def test_tasks_that_wait_for_each_other_are_removed_in_whatever_order_they_are_named(wk: "Wk") -> None:
    first = wk("add", "--", "true").out.strip()
    second = wk("add", "--after", first, "--", "true").out.strip()
    third = wk("add", "--after", second, "--", "true").out.strip()
    assert wk("cancel", first, second, third).code == 0
    refused = wk("rm", first, second)
    assert refused.code != 0 and f"{third} is to run after it" in refused.err
    removed = wk("rm", first, second, third)
    assert (removed.code, removed.out.count("was removed:")) == (0, 3), removed.err
    assert wk("ls", "--json").json == []
