"""Ends are reported truly: what counts as done, what asks, what is missing, whose changes they are. With real processes, seen as a person sees it."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.failure import FailureKind
from watchkeeper.domain.model import EndReason, Outcome, TaskState

ASKING = "run true\nsay I looked around. Which of the two files do you mean?"


def _give(rig: Rig, script: str, *options: str, code: int | None = None) -> str:
    """Hand a script of the demo agent over; with a code, wait for its end, which must be told by it."""
    rig.keep_daemon()
    wait = () if code is None else ("--wait",)
    done = rig.wk("run", "--harness", "demo", "--json", *wait, *options, "--", script, check=False)
    assert done.returncode == (code or 0), done.stderr.decode()
    return str(json.loads(done.stdout.splitlines()[0])["id"])


def _outcome(rig: Rig, task_id: str) -> Outcome:
    found = rig.outcome(rig.runs(task_id)[-1].id)
    assert found is not None
    return found


def _show(rig: Rig, task_id: str) -> str:
    return rig.wk("show", task_id).stdout.decode()


def _json(rig: Rig, task_id: str) -> Any:
    return json.loads(rig.wk("show", "--json", task_id).stdout)


@pytest.mark.parametrize("expect", ["work", "answer"])
def test_a_run_that_ends_by_asking_needs_you(rig: Rig, expect: str) -> None:
    """It is not done, is not run again, and every view quotes the question."""
    task_id = _give(rig, ASKING, "--expect", expect, code=10)
    asks = "The agent asks: “Which of the two files do you mean?”"
    task = rig.task(task_id)
    assert (task.state, task.kind, task.runs, task.attempts) == (TaskState.NEEDS_INPUT, FailureKind.ASKED, 1, 0)
    assert rig.wk("wait", task_id, check=False).returncode == 10
    assert f"needs you: {asks}" in rig.wk("wait", task_id, check=False).stdout.decode()
    assert "Which of the two files" in rig.wk("ls").stdout.decode()
    shown = _show(rig, task_id)
    assert asks in shown
    assert f'wk send {task_id} "…" answers' in shown
    assert f"wk retry {task_id} starts anew" in shown


def test_prose_without_work_needs_you_and_is_paid_for_once(rig: Rig) -> None:
    """Its words are kept and shown, and the sentence says what can be done."""
    task_id = _give(rig, "say Everything is done.", code=10)
    task = rig.task(task_id)
    assert (task.kind, task.runs) == (FailureKind.NOTHING_RECORDED, 1)
    assert "--expect answer" in task.reason
    assert "Everything is done." in _show(rig, task_id)


def test_words_are_enough_where_an_answer_is_expected(rig: Rig) -> None:
    """By the option, by a line of a file, and by an edit before it ran."""
    assert rig.task(_give(rig, "say The lock is held.", "--expect", "answer", code=0)).spec.expect == "answer"
    line = json.dumps({"prompt": "say one", "harness": "demo", "expect": "answer"})
    added = rig.wk("add", "--json-lines", "--json", "-f", "-", given=line.encode()).stdout
    _ = rig.wk("queue", "pause")
    edited = _give(rig, "say two")
    assert "what counts as done" in rig.wk("edit", edited, "--expect", "answer").stdout.decode()
    _ = rig.wk("queue", "resume")
    ids = [json.loads(added)["id"], edited]
    assert rig.wk("wait", *ids, check=False).returncode == 0
    assert [_json(rig, each)["expect"] for each in ids] == ["answer", "answer"]
    assert "expects an answer" in _show(rig, edited)


@pytest.mark.parametrize("plain", [False, True], ids=["checkout", "plain directory"])
def test_changes_beside_others_are_labelled(rig: Rig, plain: bool) -> None:
    """Both name each other; one that worked there alone afterwards names no other."""
    place = rig.root / "plain" if plain else rig.repo
    place.mkdir(exist_ok=True)
    where = ("--shared", "--cwd", str(place))
    go = rig.root / "go"
    long = _give(rig, f"write long.txt x\nwait-for {go}", *where)
    wait_until((place / "long.txt").exists, within_s=30, what="the first agent works")
    short = _give(rig, "write short.txt x", *where, code=0)
    go.touch()
    assert rig.wk("wait", long, check=False).returncode == 0
    alone = _give(rig, "write alone.txt x", *where, code=0)

    for mine, other, files in ((long, short, {"long.txt", "short.txt"}), (short, long, {"short.txt"})):
        changes = _outcome(rig, mine).changes
        assert changes is not None
        assert {file.path for file in changes.files} == files
        assert changes.beside == (other,)
        place_word = "directory" if plain else "checkout"
        assert f"changed in this {place_word} while it ran, beside {other}:" in " ".join(_show(rig, mine).split())
        assert _json(rig, mine)["runs"][0]["outcome"]["changes"]["beside"] == [other]
    changes = _outcome(rig, alone).changes
    assert changes is not None
    assert changes.beside == ()
    assert "while it ran, beside" not in " ".join(_show(rig, alone).split())


def _spawned(rig: Rig, cwd: Path, *argv: str) -> str:
    """Add a command and have it tried after what it needs has been taken away."""
    return str(json.loads(rig.wk("add", "--json", "--cwd", str(cwd), "--", *argv).stdout)["id"])


def _write_program(program: Path) -> None:
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)


def test_a_missing_directory_and_a_missing_program_are_two_things(rig: Rig) -> None:
    """Each is named with its path, needs you, and is done when it is there again."""
    place, program = rig.root / "place", rig.root / "mytool"
    place.mkdir()
    _write_program(program)
    in_place = _spawned(rig, place, "true")
    with_program = _spawned(rig, rig.root, str(program))
    place.rmdir()
    program.unlink()
    rig.keep_daemon()
    assert rig.wk("wait", in_place, with_program, check=False).returncode == 10
    told = {each: rig.task(each) for each in (in_place, with_program)}
    assert told[in_place].kind is FailureKind.DIRECTORY_MISSING
    assert told[in_place].reason.startswith(f"The directory '{place}' is missing")
    assert told[with_program].kind is FailureKind.PROGRAM_MISSING
    assert told[with_program].reason.startswith(f"The program {program}, which was allowed, is no executable file")
    assert f"not started (No such file or directory: {place})" in " ".join(_show(rig, in_place).split())
    assert _json(rig, in_place)["runs"][0]["exit"]["step"] == "chdir"
    place.mkdir()
    _write_program(program)
    assert f"wk retry {in_place}" in told[in_place].reason
    for each in (in_place, with_program):
        _ = rig.wk("retry", each, check=each == in_place)  # the other one may have been started by itself
    assert rig.wk("wait", in_place, with_program, check=False).returncode == 0


def test_a_silent_agent_is_ended_also_across_daemons(rig: Rig) -> None:
    """Only its shim watches: a daemon that dies and one that comes later change nothing."""
    task_id = _give(rig, "say I begin.\nhang", "--silence", "2s")
    wait_until(lambda: rig.runs(task_id) and rig.log(rig.runs(task_id)[-1]), within_s=30, what="the agent works")
    rig.kill_daemon()
    rig.keep_daemon()
    assert rig.wk("wait", task_id, check=False).returncode == 1
    [run] = rig.runs(task_id)
    assert run.exit is not None
    assert run.exit.reason is EndReason.SILENCE
    task = rig.task(task_id)
    assert (task.kind, task.reason) == (FailureKind.SILENCE, "The agent printed nothing for 2 s.")
    assert "silent for at most 2s" in _show(rig, task_id)


def test_the_end_of_standard_error_is_shown_of_a_run_that_failed(rig: Rig) -> None:
    """Under a heading and marked, or as events; of a run that went well it is only counted."""
    rig.keep_daemon()
    printing = 'echo out; for i in $(seq 60); do echo "complaint $i" >&2; done; '
    failed = str(json.loads(rig.wk("run", "--json", "--", "sh", "-c", f"{printing} exit 3").stdout)["id"])
    good = str(json.loads(rig.wk("run", "--json", "--", "sh", "-c", printing).stdout)["id"])
    assert rig.wk("wait", failed, good, check=False).returncode == 1
    lines = rig.wk("logs", failed).stdout.decode().splitlines()
    assert lines[:2] == ["out", "── standard error ──"]
    assert "the last 50 of 60 lines" in lines[2]
    assert lines[3:] == [f"! complaint {number}" for number in range(11, 61)]
    events = [json.loads(line) for line in rig.wk("logs", "--json", failed).stdout.splitlines()]
    assert [event["kind"] for event in events] == ["text", *["stderr"] * 50]
    done = rig.wk("logs", good)
    assert done.stdout.decode() == "out\n"
    assert "60 lines on standard error" in done.stderr.decode()


def test_a_hole_in_the_log_is_no_verdict(rig: Rig) -> None:
    """The final event behind it counts; where the end cannot be known, it is unknown, and is not tried again."""
    rig.settings = {"WATCHKEEPER_LOGS_LIMIT": "64K"}
    done = _give(rig, "print 4000000 bytes\nwrite a.txt x", code=0)
    assert rig.log(rig.runs(done)[-1]).count(b"\0") > 1_000_000
    torn = _give(rig, "print 4000000 bytes\nno-result", code=1)
    task = rig.task(torn)
    assert (task.kind, task.runs) == (FailureKind.UNKNOWN, 1)
    assert "could not be read" in task.reason
