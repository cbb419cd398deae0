"""Checks after an agent, with real processes: the outcome says what happened, the verdict whether it is acceptable."""

import json
import os
import signal
from pathlib import Path
from typing import Any

from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.check_verdict import CheckVerdict
from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import Outcome, Result, RunState, TaskState
from watchkeeper.domain.side_command import CommandResult, CommandState
from watchkeeper.domain.worktree import Worktree, WorktreeState
from watchkeeper.errors import Exit
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.boot import boot_id
from watchkeeper.runtimes.records import parse_agent


def _given(rig: Rig, *command: str, checks: tuple[str, ...], options: tuple[str, ...] = ()) -> str:
    """Hand a command over with checks; its task."""
    flags = [word for line in checks for word in ("--check", line)]
    done = rig.wk("run", "--json", "--cwd", str(rig.repo), *options, *flags, "--", *command)
    return str(json.loads(done.stdout.splitlines()[0])["id"])


def _ended(rig: Rig, *command: str, checks: tuple[str, ...], options: tuple[str, ...] = ()) -> str:
    rig.keep_daemon()
    task_id = _given(rig, *command, checks=checks, options=options)
    _ = rig.wk("wait", task_id, check=False)
    return task_id


def _outcome(rig: Rig, task_id: str) -> Outcome:
    found = rig.outcome(rig.runs(task_id)[-1].id)
    assert found is not None
    return found


def _json(rig: Rig, *arguments: str) -> Any:
    return json.loads(rig.wk(*arguments, "--json", check=False).stdout)


def _ends(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_a_task_is_done_when_its_checks_pass(rig: Rig) -> None:
    task_id = _ended(rig, "sh", "-c", "echo one > one.txt", checks=("test -s one.txt", "echo fine"))
    assert rig.task(task_id).state is TaskState.DONE
    outcome = _outcome(rig, task_id)
    assert (outcome.verdict, outcome.result) == (CheckVerdict.PASSED, Result.CHANGED)
    assert outcome.reason.endswith("its 2 checks passed.")
    assert [one.result for one in rig.commands(task_id)] == [CommandResult.PASSED] * 2


def test_a_task_whose_check_fails_is_not_done(rig: Rig) -> None:
    """Both checks run; what the checks write is not what the agent changed; the outcome stays what happened."""
    task_id = _ended(rig, "sh", "-c", "echo one > one.txt", checks=("echo bad; touch made-by-check; exit 3", "true"))
    task, outcome = rig.task(task_id), _outcome(rig, task_id)
    assert (task.state, task.kind) == (TaskState.FAILED, FailureKind.CHECK_FAILED)
    assert (outcome.verdict, outcome.result) == (CheckVerdict.FAILED, Result.CHANGED)
    assert "exit code 3" in task.reason
    assert outcome.changes is not None
    assert [file.path for file in outcome.changes.files] == ["one.txt"]
    assert [one.result for one in rig.commands(task_id)] == [CommandResult.FAILED, CommandResult.PASSED]


def test_no_check_runs_after_a_failure(rig: Rig) -> None:
    mark = rig.root / "mark"
    task_id = _ended(rig, "sh", "-c", "exit 5", checks=(f"touch {mark}",), options=("--retries", "0"))
    assert rig.task(task_id).state is TaskState.FAILED
    assert _outcome(rig, task_id).verdict is CheckVerdict.UNCHECKED
    assert not mark.exists()


def test_a_check_that_hangs_and_forks_ends_at_its_deadline(rig: Rig) -> None:
    pids = rig.root / "pids"
    line = f"setsid sh -c 'echo $$ >> {pids}; exec sleep 1000' & echo $$ >> {pids}; wait"
    _ = rig.wk("config", "set", "check.deadline", "1s")
    task_id = _ended(rig, "true", checks=(line,))
    assert _outcome(rig, task_id).verdict is CheckVerdict.FAILED
    assert "did not end within 1 s" in rig.task(task_id).reason
    assert _ends(pids) == 2
    assert not [pid for pid in pids.read_text().split() if Path(f"/proc/{pid}").exists()]


def test_a_stop_during_a_check_is_the_persons_stop(rig: Rig) -> None:
    pids = rig.root / "pids"
    rig.keep_daemon()
    task_id = _given(rig, "true", checks=(f"echo $$ > {pids}; exec sleep 1000", "true"))
    wait_until(lambda: _ends(pids) == 1, what="the check began")
    _ = rig.wk("stop", task_id)
    _ = rig.wk("wait", task_id, check=False)
    task = rig.task(task_id)
    assert (task.state, task.kind) == (TaskState.STOPPED, FailureKind.STOPPED)
    assert task.reason == "You stopped it while its checks ran."
    assert [one.result for one in rig.commands(task_id)] == [CommandResult.STOPPED] * 2
    assert not Path(f"/proc/{pids.read_text().strip()}").exists()


def test_a_check_is_adopted_by_the_next_daemon_and_runs_once(rig: Rig) -> None:
    began, go = rig.root / "began", rig.root / "go"
    os.mkfifo(go)
    rig.keep_daemon()
    task_id = _given(rig, "true", checks=(f"echo x >> {began}; read line < {go}; echo x >> {began}",))
    wait_until(lambda: _ends(began) == 1, what="the check began")
    rig.kill_daemon()
    rig.keep_daemon()
    wait_until(lambda: rig.commands(task_id)[0].state is CommandState.STARTED, what="it is on record")
    go.write_text("go\n")
    _ = rig.wk("wait", task_id, check=False)
    assert _outcome(rig, task_id).verdict is CheckVerdict.PASSED
    assert _ends(began) == 2


def test_a_check_whose_supervisor_is_killed_could_not_run(rig: Rig) -> None:
    """It may have worked, so it is not run again; a person looks."""
    began = rig.root / "began"
    rig.keep_daemon()
    task_id = _given(rig, "true", checks=(f"echo $$ >> {began}; exec sleep 1000",))
    wait_until(lambda: _ends(began) == 1, what="the check began")
    directory = rig.state / "executions" / rig.commands(task_id)[0].execution_id
    wait_until((directory / "proc.json").exists, what="its process is on record")
    shim = parse_agent((directory / "proc.json").read_bytes())
    assert proc.signal_checked(shim.shim_pid, shim.shim_start_ticks, boot_id(), signal.SIGKILL)
    _ = rig.wk("wait", task_id, check=False)
    task = rig.task(task_id)
    assert (task.state, task.kind) == (TaskState.NEEDS_INPUT, FailureKind.CHECK_NOT_RUN)
    assert _outcome(rig, task_id).verdict is CheckVerdict.NOT_RUN
    assert _ends(began) == 1
    assert rig.survivors() == []
    assert rig.runs(task_id)[-1].state is RunState.SETTLED


def test_a_new_worktree_is_set_up_before_the_agent_starts(rig: Rig) -> None:
    """Once for all its runs; what the set-up made is there, and is not what the agent changed."""
    options = ("--worktree", "--setup", "echo ready > made; echo told", "--setup", "test -s made")
    task_id = _ended(rig, "sh", "-c", "cat made && echo it > it.txt", checks=(), options=options)
    assert rig.task(task_id).state is TaskState.DONE
    assert [one.result for one in rig.commands(task_id)] == [CommandResult.PASSED] * 2
    outcome = _outcome(rig, task_id)
    assert outcome.changes is not None
    assert [file.path for file in outcome.changes.files] == ["it.txt"]
    assert rig.wk("logs", task_id, "--setup", "1").stdout == b"told\n"


def test_a_set_up_that_fails_keeps_the_agent_from_starting(rig: Rig) -> None:
    mark = rig.root / "mark"
    options = ("--worktree", "--setup", "echo no; exit 4", "--setup", f"touch {mark}")
    task_id = _ended(rig, "touch", str(mark), checks=(), options=options)
    task = rig.task(task_id)
    assert (task.state, task.kind) == (TaskState.FAILED, FailureKind.SETUP_FAILED)
    assert f"wk logs {task_id} --setup 1" in task.reason
    assert not mark.exists()
    assert rig.wk("logs", task_id, "--setup", "1").stdout == b"no\n"


def test_a_stop_during_a_set_up_ends_it(rig: Rig) -> None:
    pids = rig.root / "pids"
    rig.keep_daemon()
    options = ("--worktree", "--setup", f"echo $$ > {pids}; exec sleep 1000")
    task_id = _given(rig, "true", checks=(), options=options)
    wait_until(lambda: _ends(pids) == 1, what="the set-up began")
    _ = rig.wk("stop", task_id)
    _ = rig.wk("wait", task_id, check=False)
    assert rig.task(task_id).state is TaskState.STOPPED
    assert rig.survivors() == []


def test_every_view_shows_the_verdict_and_what_a_check_printed(rig: Rig) -> None:
    task_id = _ended(rig, "sh", "-c", "echo one > one.txt", checks=("true", "echo said; echo worse >&2; false"))
    (row,) = _json(rig, "ls")
    assert (row["result"], row["verdict"], row["kind"]) == ("changed", "failed", "check_failed")
    (waited,) = _json(rig, "wait", task_id)
    assert waited["verdict"] == "failed"
    shown = rig.wk("show", task_id).stdout.decode()
    assert "verdict   failed" in shown
    assert "check 2   failed, exit code 1" in shown
    commands = _json(rig, "show", task_id)["runs"][0]["commands"]
    assert [one["result"] for one in commands] == ["passed", "failed"]
    assert _json(rig, "explain", task_id)["run"]["outcome"]["verdict"] == "failed"
    assert rig.wk("logs", task_id, "--check", "2").stdout == b"said\nworse\n"
    assert b"There is no check 3" in rig.wk("logs", task_id, "--check", "3", check=False).stderr
    assert rig.wk("wait", task_id, check=False).returncode == 1


def test_what_checks_are_at_is_said_while_they_run(rig: Rig) -> None:
    go = rig.root / "go"
    os.mkfifo(go)
    rig.keep_daemon()
    task_id = _given(rig, "true", checks=("true", f"read line < {go}", "test 1"))
    wait_until(lambda: _json(rig, "ls")[0]["why"].startswith("2 of 3: read line"), what="the second check runs")
    assert _json(rig, "ls")[0]["shown"] == "checking"
    assert "checking" in rig.wk("show", task_id).stdout.decode()
    go.write_text("go\n")
    _ = rig.wk("wait", task_id)
    assert _outcome(rig, task_id).reason.endswith("its 3 checks passed.")


def test_the_executions_of_checks_go_with_their_task(rig: Rig) -> None:
    task_id = _ended(rig, "true", checks=("true",))
    assert len(list((rig.state / "executions").iterdir())) == 2
    _ = rig.wk("rm", task_id)
    wait_until(lambda: not list((rig.state / "executions").iterdir()), what="their directories have gone")


def test_a_retry_checks_again(rig: Rig) -> None:
    mark = rig.root / "mark"
    task_id = _ended(rig, "true", checks=(f"test -e {mark}",))
    assert rig.task(task_id).state is TaskState.FAILED
    mark.touch()
    _ = rig.wk("retry", task_id)
    _ = rig.wk("wait", task_id)
    assert (rig.task(task_id).state, _outcome(rig, task_id).verdict) == (TaskState.DONE, CheckVerdict.PASSED)


def _torn(rig: Rig, *lines: str, agent: tuple[str, ...] = ("true",)) -> str:
    """A task that is done in a worktree with these teardowns."""
    options = ("--worktree", *(word for line in lines for word in ("--teardown", line)))
    task_id = _ended(rig, *agent, checks=(), options=options)
    assert rig.task(task_id).state is TaskState.DONE
    return task_id


def _tree(rig: Rig, task_id: str) -> Worktree:
    tree = rig.task(task_id).spec.worktree
    assert tree is not None
    return tree


def test_a_teardown_runs_in_the_worktree_before_it_goes(rig: Rig) -> None:
    """Each time that the worktree goes: undo brings it back, and its commands run again at the next removal. No daemon is needed."""
    marks = rig.root / "marks"
    task_id = _torn(rig, f"echo gone; pwd >> {marks}; test -f $WATCHKEEPER_WORKTREE/.git", "true")
    assert not marks.exists()
    rig.kill_daemon()
    _ = rig.wk("worktree", "clean", task_id)
    tree = _tree(rig, task_id)
    assert marks.read_text().split() == [tree.path]
    assert tree.state is WorktreeState.REMOVED
    assert not Path(tree.path).exists()
    assert rig.wk("logs", task_id, "--teardown", "1").stdout == b"gone\n"
    _ = rig.wk("undo", task_id)
    assert _ends(marks) == 1
    _ = rig.wk("worktree", "clean", task_id)
    assert _ends(marks) == 2
    assert [one.number for one in rig.commands(task_id)] == [1, 2, 3, 4]
    assert {one.result for one in rig.commands(task_id)} == {CommandResult.PASSED}


def test_a_teardown_that_fails_keeps_the_worktree_once(rig: Rig) -> None:
    marks = rig.root / "marks"
    task_id = _torn(rig, f"echo x >> {marks}; exit 3", f"echo y >> {marks}")
    refused = rig.wk("rm", task_id, check=False)
    assert refused.returncode == Exit.REFUSED
    assert b"ended with exit code 3" in refused.stderr
    assert f"wk logs {task_id} --teardown 1".encode() in refused.stderr
    assert _tree(rig, task_id).state is WorktreeState.MADE
    assert marks.read_text().split() == ["x", "y"]
    path = _tree(rig, task_id).path
    _ = rig.wk("rm", task_id)
    assert marks.read_text().split() == ["x", "y"]
    assert rig.tasks() == []
    assert not Path(path).exists()


def test_a_teardown_that_hangs_ends_at_its_deadline(rig: Rig) -> None:
    pids = rig.root / "pids"
    _ = rig.wk("config", "set", "check.deadline", "1s")
    task_id = _torn(rig, f"echo $$ > {pids}; exec sleep 1000")
    refused = rig.wk("worktree", "clean", task_id, check=False)
    assert b"did not end within 1 s" in refused.stderr
    assert not Path(f"/proc/{pids.read_text().strip()}").exists()
    assert rig.survivors() == []
    _ = rig.wk("worktree", "clean", task_id)


def test_a_teardown_of_a_stopped_task_runs(rig: Rig) -> None:
    """The stop was of the agent."""
    began, marks = rig.root / "began", rig.root / "marks"
    rig.keep_daemon()
    options = ("--worktree", "--teardown", f"echo x >> {marks}")
    task_id = _given(rig, "sh", "-c", f"echo x > {began}; exec sleep 1000", checks=(), options=options)
    wait_until(lambda: _ends(began) == 1, what="the agent began")
    _ = rig.wk("stop", task_id)
    _ = rig.wk("wait", task_id, check=False)
    _ = rig.wk("worktree", "clean", task_id)
    assert _ends(marks) == 1


def test_what_a_teardown_leaves_in_the_worktree_keeps_it(rig: Rig) -> None:
    task_id = _torn(rig, "echo report > report.txt")
    refused = rig.wk("worktree", "clean", task_id, check=False)
    assert refused.returncode == Exit.REFUSED
    assert b"report.txt" in refused.stderr
    assert (Path(_tree(rig, task_id).path) / "report.txt").exists()
    _ = rig.wk("worktree", "clean", task_id, "--discard")


def test_the_next_removal_adopts_a_teardown_that_runs(rig: Rig) -> None:
    """The command that started it is killed; it runs once, and an agent cannot start meanwhile."""
    began, go = rig.root / "began", rig.root / "go"
    os.mkfifo(go)
    task_id = _torn(rig, f"echo x >> {began}; read line < {go}")
    first = rig.popen("worktree", "clean", task_id)
    wait_until(lambda: _ends(began) == 1, what="the teardown began")
    first.kill()
    _ = first.wait()
    assert rig.wk("retry", task_id, check=False).returncode == Exit.REFUSED
    second = rig.popen("worktree", "clean", task_id)
    follower = rig.popen("logs", "-f", task_id, "--teardown", "1")
    go.write_text("go\n")
    assert second.wait(60) == 0
    assert follower.wait(60) == 0
    assert _ends(began) == 1
    assert _tree(rig, task_id).state is WorktreeState.REMOVED


def test_a_task_without_a_worktree_has_no_teardown(rig: Rig) -> None:
    refused = rig.wk("run", "--cwd", str(rig.repo), "--teardown", "true", "--", "true", check=False)
    assert refused.returncode == Exit.BAD_TASK
    assert b"this task gets none" in refused.stderr


def test_the_output_of_a_check_is_followed_while_it_runs(rig: Rig) -> None:
    go = rig.root / "go"
    os.mkfifo(go)
    rig.keep_daemon()
    task_id = _given(rig, "true", checks=(f"echo first; read line < {go}; echo second; exit 3",))
    wait_until(lambda: rig.commands(task_id), what="the check is reserved")
    follower = rig.popen_text("logs", task_id, "-f", "--check", "1")
    assert follower.stdout is not None
    assert follower.stdout.readline() == "first\n"
    go.write_text("go\n")
    assert follower.stdout.read() == "second\n"
    assert follower.wait(60) == 0
