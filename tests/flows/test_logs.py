"""What an agent printed is there, whatever it did to its own output and whatever was killed meanwhile; or it is said that it is not."""

import json
import os
import signal
from pathlib import Path

import pytest
from support.flow_words import working
from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.model import Run, TaskState
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.boot import boot_id

MISSING = "The end of its output may be missing"


def _id(rig: Rig, *argv: str) -> str:
    rig.keep_daemon()
    done = rig.wk("run", "--json", "--wait", "--", *argv)
    return str(json.loads(done.stdout.splitlines()[0])["id"])


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_an_agent_that_truncates_its_output_loses_none_of_it(rig: Rig, stream: str) -> None:
    task_id = _id(rig, "sh", "-c", f"exec >/dev/{stream}; echo important; echo progress >/dev/{stream}; echo done")
    options = ("--stderr",) if stream == "stderr" else ()
    assert rig.wk("logs", "--raw", *options, task_id).stdout == b"important\nprogress\ndone\n"
    assert MISSING not in rig.wk("logs", task_id).stderr.decode()


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        (r"printf 'a\0b\n'", ["a␀b"]),
        ("touch x y; find x y -print0", ["x␀y␀"]),
        (r"printf 'h\0i\0\n\0'", ["h␀i␀", "␀"]),
        ("head -c 9000 /dev/zero; echo; echo end", ["␀", "end"]),
    ],
)
def test_zero_bytes_are_shown_and_never_taken_for_what_was_dropped(rig: Rig, script: str, shown: list[str]) -> None:
    task_id = _id(rig, "sh", "-c", script)
    said = rig.wk("logs", task_id).stdout.decode()
    for each in shown:
        assert each in said
    assert "no longer kept" not in said
    lines = [json.loads(line) for line in rig.wk("logs", "--json", task_id).stdout.splitlines()]
    assert any("␀" in line["text"] for line in lines)
    assert "no longer kept" not in rig.wk("show", task_id).stdout.decode()


def _shim(rig: Rig, run: Run) -> tuple[int, int, str]:
    record = json.loads((rig.state / "executions" / run.execution_id / "proc.json").read_bytes())
    return record["shim_pid"], record["shim_start_ticks"], boot_id()


def _die_with_words_in_the_pipe(rig: Rig, run: Run) -> None:
    """Stop the shim, so that it takes nothing more; have the agent say something, and kill both at once."""
    shim = _shim(rig, run)
    assert proc.signal_checked(*shim, signal.SIGSTOP) is proc.SignalResult.REACHED
    assert run.agent is not None
    with Path(f"/proc/{run.agent.pid}/fd/1").open("wb") as out:
        out.write(b"the last words\n")
    for pid in rig.survivors():
        os.kill(pid, signal.SIGKILL)
    assert proc.signal_checked(*shim, signal.SIGKILL) is proc.SignalResult.REACHED


def test_what_was_on_its_way_when_shim_and_agent_were_killed_is_kept_by_the_daemon(rig: Rig) -> None:
    rig.start_daemon()
    task_id, run = working(rig)
    _die_with_words_in_the_pipe(rig, run)
    assert rig.wait_resting(task_id).state is not TaskState.DONE
    assert rig.wk("logs", "--raw", "--run", "1", task_id).stdout.endswith(b"the last words\n")
    assert MISSING not in rig.wk("logs", "--run", "1", task_id).stderr.decode()
    assert MISSING not in rig.runs(task_id)[0].reason


def test_where_the_daemon_was_dead_too_it_is_said_that_the_end_may_be_missing(rig: Rig) -> None:
    rig.start_daemon()
    task_id, run = working(rig)
    rig.kill_daemon()
    _die_with_words_in_the_pipe(rig, run)
    wait_until(lambda: not rig.survivors(), what="all are dead")
    rig.start_daemon()
    assert rig.wait_resting(task_id).state is not TaskState.DONE
    assert MISSING in rig.wk("logs", "--run", "1", task_id).stderr.decode()
    assert MISSING in rig.runs(task_id)[0].reason
    assert MISSING in rig.wk("show", task_id).stdout.decode().replace("\n", " ")
