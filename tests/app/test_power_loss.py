"""What is recorded without a sync may be lost in a power cut, and then it is found out again: no agent is started twice, and the end is the same.

The records of an execution directory are durable when they are written (see `runtimes/test_power_loss.py`). What the database holds of them is not, until a
durable transaction follows: that the shim was started (`done_start_shim`), that the agent was seen (`observed_alive`), that it has ended (`observed_ended`).
"""

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from app.stage import Verbs
from runtimes.stage import SteppedClock
from support.power_loss import Recorder, states

from watchkeeper.domain.model import FINAL_TASK_STATES, Proof, Run, RunState, TaskState
from watchkeeper.runtimes import process
from watchkeeper.runtimes.environments import FileEnvironments
from watchkeeper.runtimes.process import ProcessRuntime
from watchkeeper.store.sqlite.store import SqliteStore

CUTS = 16
Files = dict[str, bytes]


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """A way to the database's files that remembers."""
    made = Recorder("directory-and-database")
    yield made
    made.unregister()


class Machine:
    """A state directory on one machine, with shims that write their records and no more."""

    def __init__(self, root: Path, vfs: str | None = None) -> None:
        """Continue with what is there."""
        self.launches = 0
        self.clock = SteppedClock()
        self.root = root
        (root / "environments").mkdir(mode=0o700, exist_ok=True)
        self.store = SqliteStore.open(
            root / "wk.db", root / "write.lock", create=vfs is not None, upgrade=False, vfs=vfs
        )
        self.runtime = ProcessRuntime(root, root / "sockets", None, lambda: root / "image.py", self.clock)
        self.runtime.start_shim = self._start
        self.verbs = Verbs(root, self.store, self.clock, self.runtime, FileEnvironments(root / "environments"))
        self.records = self.verbs.directories()

    def _start(self, run: Run) -> None:
        """A shim that finds the decision taken launches nothing."""
        if (self.records.directory(run) / "decide").exists():
            return
        self.launches += 1
        (self.records.directory(run) / "lock").touch()
        self.records.decide(run)
        self.records.agent(run)

    def ends(self, run: Run) -> None:
        """The agent ends well, and nothing of it is left."""
        result = {"type": "result", "ok": True, "text": "It is done."}
        (self.records.directory(run) / "stdout.log").write_text(json.dumps(result) + "\n", encoding="utf-8")
        self.records.exit(run, status=0)
        self.records.gone(run)

    def files(self, run: Run) -> Files:
        """What is in the execution's directory."""
        return {path.name: path.read_bytes() for path in self.records.directory(run).iterdir()}

    def look(self, run_id: str) -> None:
        """One pass of each loop of the daemon."""
        _ = self.verbs.performer().perform_due()
        _ = self.verbs.observer().observe(run_id)
        _ = self.verbs.settler().settle(run_id)
        self.clock.step(60)

    def close(self) -> None:
        """Close the database."""
        self.store.close()


def _lived(root: Path, recorder: Recorder) -> tuple[list[tuple[int, Files]], Run, int]:
    """A run from its start to its outcome: what was in its directory after so many changes of the database, the run, and when it was prepared."""
    machine = Machine(root, "directory-and-database")
    run = machine.verbs.launched(harness="demo", argv=(), expect="answer")
    prepared = len(recorder.events)
    seen: list[tuple[int, Files]] = []

    def note() -> None:
        seen.append((len(recorder.events), machine.files(run)))

    note()
    start = machine.runtime.start_shim

    def starts(run: Run) -> None:
        start(run)
        note()

    machine.runtime.start_shim = starts
    lock = machine.records.hold(run)  # as a shim that lives does
    _ = machine.verbs.performer().perform_due()
    _ = machine.verbs.observer().observe(run.id)
    assert machine.verbs.state() is RunState.RUNNING
    machine.ends(run)
    lock.close()
    note()
    _ = machine.verbs.observer().observe(run.id)
    assert machine.verbs.state() is RunState.ENDED
    _ = machine.verbs.settler().settle(run.id)
    assert machine.verbs.task().state is TaskState.DONE
    machine.close()
    return seen, run, prepared


def test_what_a_power_cut_forgets_is_found_out_again(
    tmp_path: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    seen, run, prepared = _lived(tmp_path / "work", recorder)
    every = len(recorder.events)
    cuts = {*range(prepared, every + 1, max(1, (every - prepared) // CUTS)), *(at for at, _ in seen)}
    forgotten: set[RunState] = set()
    ends: set[TaskState] = set()
    for done, files in states(recorder.events, cuts, random.Random(7), 1):
        for there in _directories_at(seen, done):
            machine = _after(tmp_path / "after", files, run, there, tmp_path / "work")
            forgotten.add(machine.verbs.state())
            monkeypatch.setattr(process, "boot_id", lambda: "the boot after the power cut")
            for _ in range(4):
                machine.look(run.id)
            monkeypatch.undo()
            _assert_told_apart(machine, there)
            ends.add(machine.verbs.task().state)
            machine.close()
    assert {RunState.PREPARED, RunState.SETTLED} <= forgotten, (
        "the database forgot what was not durable, and kept what was"
    )
    assert ends == {TaskState.HELD, TaskState.DONE}


def _directories_at(seen: list[tuple[int, Files]], done: int) -> Iterator[Files]:
    """What may be in the directory after so many changes of the database: a step there comes after one of them and before the next."""
    ends = [at for at, _ in seen[1:]]
    for (since, there), until in zip(seen, [*ends, None], strict=True):
        if since <= done and (until is None or done <= until):
            yield there


def _after(root: Path, files: Files, run: Run, there: Files, work: Path) -> Machine:
    """The machine is started again: the database and the directory are as the disk has them."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for name in ("wk.db", "wk.db-wal"):
        if name in files:
            (root / name).write_bytes(files[name])
    # It is the directory that was prepared: its inode is known.
    (root / "executions").symlink_to(work / "executions")
    directory = work / "executions" / run.execution_id
    for path in list(directory.iterdir()):
        path.unlink()
    for name, data in there.items():
        (directory / name).write_bytes(data)
    return Machine(root)


def _assert_told_apart(machine: Machine, there: Files) -> None:
    """What became of the run follows from its directory, whatever the database had forgotten."""
    task, run = machine.verbs.task(), machine.verbs.run()
    assert machine.launches == ("decide" not in there), "no agent is started twice, and none is forgotten"
    if "gone.json" in there:
        assert (task.state, run.state, run.proof) == (TaskState.DONE, RunState.SETTLED, Proof.PROVEN)
        assert run.exit is not None and run.agent is not None
    elif "decide" in there:
        assert task.state not in FINAL_TASK_STATES and (run.proof, run.exit) == (Proof.PROVEN, None)
    assert machine.verbs.pending() == 0
