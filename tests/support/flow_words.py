"""What the tests of flows say again and again: a refusal is one sentence, its neighbour is well, an agent works."""

import json
import sqlite3
from pathlib import Path

from support.rig import Rig
from support.waiting import wait_until

from watchkeeper.domain.model import Run, RunState, TaskState
from watchkeeper.errors import Exit


def refused(rig: Rig, *command: str, code: Exit, detail: str, hint: bool = True, given: bytes = b"") -> None:
    """The command ends with this code, one sentence that holds `detail`, and what to do next; and with nothing else."""
    done = rig.wk(*command, given=given, check=False)
    err = done.stderr.decode()
    told = (command, done.returncode, done.stdout, err)
    assert done.returncode == code, told
    lines = err.strip().splitlines()
    sentences = [line for line in lines if line.startswith("wk: ")]
    assert len(sentences) == 1 and detail in sentences[0], told
    assert "Traceback" not in err and not done.stdout, told
    if hint:
        assert any(line.startswith("    ") and line.strip() for line in lines), told


def healthy(rig: Rig) -> None:
    """A task that is handed over now is done, by an agent that began once."""
    task_id = rig.run("lines", "3", "exit", "0", options=("--shared",))  # a held run keeps its checkout
    assert rig.wait_resting(task_id, keep=False).state is TaskState.DONE, rig.task(task_id)
    assert rig.started_runs().count(f"{task_id}.1") == 1


def working(rig: Rig, *agent: str, options: tuple[str, ...] = ()) -> tuple[str, Run]:
    """Hand over an agent that waits until `let_go`, and return its task and its run, which is on record as running."""
    task_id = rig.run("lines", "50", *agent, "wait", str(go_file(rig)), "exit", "0", options=options)

    def run() -> Run | None:
        found = [run for run in rig.runs(task_id) if run.state is RunState.RUNNING]
        return found[0] if found and b"waiting" in rig.log(found[0]) else None

    return task_id, wait_until(run, within_s=30, what=f"the agent of {task_id} works")


def go_file(rig: Rig) -> Path:
    """What working agents wait for."""
    return rig.root / "go"


def let_go(rig: Rig) -> None:
    """Let working agents end."""
    go_file(rig).touch()


def shown(rig: Rig, task_id: str) -> str:
    """`wk show`."""
    return rig.wk("show", task_id).stdout.decode()


def row(rig: Rig, task_id: str) -> dict[str, object]:
    """`wk show --json`."""
    return json.loads(rig.wk("show", task_id, "--json").stdout)


def sound(rig: Rig) -> None:
    """The database is whole, and every claim in it is of a live run."""
    with sqlite3.connect(f"file:{rig.state / 'wk.db'}?mode=ro", uri=True) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    db.close()


def daemon_log(rig: Rig) -> str:
    """What the daemons said: those that the rig started, and those that commands did."""
    logs = (rig.root / "daemon.log", rig.state / "daemon.log")
    return "".join(log.read_text(encoding="utf-8") for log in logs if log.exists())
