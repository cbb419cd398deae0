"""`kill -9` of the daemon, again and again, while an agent prints: the agent does not notice, and the books are right in the end."""

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from support.flow_words import let_go, working
from support.rig import Rig
from support.stores import KINDS, fresh_place
from support.waiting import wait_until

from watchkeeper.domain.model import Run, RunState, TaskState

LINES = 6000
KILLS = 5
CODE = 7


def _printed(rig: Rig, run: Run) -> int:
    return rig.log(run).count(b"\n")


@pytest.fixture(params=KINDS)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    """An installation on each kind of database."""
    with fresh_place(request.param, empty=True) as place:
        url = {"WATCHKEEPER_STORE_URL": place} if request.param == "postgres" else {}
        made = Rig(tmp_path / "rig", settings=url)
        yield made
        made.close()


def _play(rig: Rig, *, kill_at: list[int]) -> tuple[Run, list[dict[str, object]]]:
    """Let an agent print in steps that follow ours, killing the daemon once so many lines are there; its run, and what each new daemon found."""
    rig.start_daemon()
    task_id = rig.run("steps", str(LINES), str(rig.root / "step"), "exit", str(CODE), options=("--retries", "0"))
    for lines in kill_at:
        (rig.root / "step").write_text(str(lines), encoding="utf-8")
        run = wait_until(lambda: next(iter(rig.runs(task_id)), None), what="there is a run")
        wait_until(lambda run=run, lines=lines: _printed(rig, run) >= lines, within_s=30, what=f"{lines} lines")
        rig.kill_daemon()
        rig.start_daemon()
    (rig.root / "step").write_text(str(LINES), encoding="utf-8")
    assert rig.wait_resting(task_id).state is TaskState.FAILED
    (run,) = rig.runs(task_id)
    found = [
        cast("dict[str, object]", entry.data["found"]) for entry in rig.journal() if entry.kind == "daemon.started"
    ]
    return run, found


def test_five_deaths_of_the_daemon_change_nothing(rig: Rig) -> None:
    """The true exit status, and every byte of the log, as without any death; each new daemon says `adopted`."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    kill_at = sorted(random.Random(seed).sample(range(LINES - 1), KILLS))
    print(f"killed after lines {kill_at}")
    run, found = _play(rig, kill_at=kill_at)
    undisturbed = "".join(f"line {line}: the quick brown fox jumps over the lazy dog\n" for line in range(LINES))
    assert run.exit is not None and run.exit.exit_code == CODE
    assert rig.log_hash(run) == hashlib.sha256(undisturbed.encode()).hexdigest()
    assert rig.started_runs() == [run.id]
    assert len(found) == KILLS + 1 and found[0] == {}
    # A daemon that was killed at once may have left the run before it had been recorded that its agent works.
    assert all(words == {run.id: "adopted"} for words in found[1:]), found
    assert run.state is RunState.SETTLED and not rig.survivors()


def test_an_agent_that_ends_while_no_daemon_runs(rig: Rig) -> None:
    """The next one says `ended meanwhile`, and settles it with the true status."""
    rig.start_daemon()
    task_id, run = working(rig)
    rig.kill_daemon()
    let_go(rig)
    wait_until((rig.state / "executions" / run.execution_id / "gone.json").exists, what="the shim has ended")
    rig.start_daemon()
    assert rig.wait_resting(task_id).state is TaskState.DONE
    (*_, last) = [entry for entry in rig.journal() if entry.kind == "daemon.started"]
    assert last.data["found"] == {run.id: "ended meanwhile"}


def test_a_daemon_that_is_told_to_leave_leaves_its_agents(rig: Rig) -> None:
    """`wk daemon stop` ends the daemon alone; the next one adopts."""
    rig.start_daemon()
    task_id, run = working(rig)
    rig.wk("daemon", "stop")
    assert rig.daemons[-1].wait(timeout=20) == 0
    assert rig.survivors()
    started = rig.wk("daemon", "start").stdout.decode()
    assert "Runs that it found: 1 adopted (-v lists them)." in started and run.id not in started
    assert f"\n  {run.id}  adopted\n" in rig.wk("daemon", "restart", "-v").stdout.decode()
    assert json.loads(rig.wk("daemon", "restart", "--json").stdout)["found"] == {run.id: "adopted"}
    let_go(rig)
    assert rig.wait_resting(task_id, keep=False).state is TaskState.DONE
    assert rig.started_runs() == [run.id]
