"""What a daemon says, when it starts, of the runs that are there."""

import io
from pathlib import Path

import pytest
from support.records import add, make_task, reserve

from watchkeeper.app.observe import Observation, Observer
from watchkeeper.app.record import apply_run
from watchkeeper.compose import Watchkeeper
from watchkeeper.daemon import service
from watchkeeper.daemon.log import Log
from watchkeeper.domain.model import DirectoryIdentity, Run
from watchkeeper.domain.run_events import (
    Prepared,
)
from watchkeeper.ports.store import Tx


def test_a_run_that_cannot_be_read_keeps_no_other_from_being_taken_care_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system fails at one directory: that run is `unreachable` and logged, the other gets its word, and the daemon starts."""
    environ = {"HOME": str(tmp_path), "WATCHKEEPER_HOME": str(tmp_path / "state"), "XDG_RUNTIME_DIR": str(tmp_path)}
    parts = Watchkeeper.open(tmp_path, environ, writes=True, is_daemon=True)
    machine = service._begin(parts)

    def prepared(task_id: str) -> Run:
        def work(tx: Tx) -> Run:
            run = reserve(tx, add(tx, make_task(task_id)), machine.id)
            return apply_run(tx, run, Prepared(directory=DirectoryIdentity(device=1, inode=1)), parts.clock.now())

        return parts.store.transact("test", work)

    bad, good = prepared("t1"), prepared("t2")
    observe = Observer.observe

    def fails_at_one(self: Observer, run_id: str) -> Observation | None:
        if run_id == bad.id:
            raise OSError(5, "Input/output error")
        return observe(self, run_id)

    monkeypatch.setattr(Observer, "observe", fails_at_one)
    out = io.StringIO()
    service._Service(parts, Log(parts.clock, out), machine)._take_stock()
    entries = parts.store.read(lambda tx: tx.journal.after(0, 100))
    (started,) = [entry for entry in entries if entry.kind == "daemon.started"]
    assert started.data["found"] == {bad.id: "unreachable", good.id: "held"}
    assert f"run={bad.id} error=OSError" in out.getvalue()
    parts.store.close()
