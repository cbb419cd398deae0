"""Stops that were made while the database could not be used, and what becomes of their notes."""

from dataclasses import replace

import pytest
from app.stage import Verbs

from watchkeeper.app.off_record import note_of, put_on_record
from watchkeeper.domain.model import StopHow, TaskState


def _noted(verbs: Verbs) -> None:
    """A person stopped the run, and the database could not be told."""
    database_id = verbs.store.read(lambda tx: tx.machines.database_id())
    verbs.runtime.off_record.put(note_of(verbs.run(), database_id, StopHow.KILL, "ann", verbs.clock, None))


@pytest.mark.parametrize("crashed", [False, True])
def test_a_stop_whose_task_has_ended_otherwise_is_told_in_its_history(verbs: Verbs, crashed: bool) -> None:
    """It stays as it ended; that a person stopped it is not forgotten, and is recorded once although we crash before the note is."""
    _ = verbs.held()
    _ = verbs.stop("t1", by="repair")
    was = verbs.task()
    _noted(verbs)
    (note,) = verbs.runtime.off_record.notes()
    assert put_on_record(verbs.store, verbs.clock, verbs.runtime)
    if crashed:
        verbs.runtime.off_record.put(note)
        assert put_on_record(verbs.store, verbs.clock, verbs.runtime)
    assert verbs.task() == was and was.state is TaskState.STOPPED
    entries = verbs.store.read(lambda tx: tx.journal.after(0, 1000, "t1"))
    (told,) = [entry.data for entry in entries if entry.kind == "task.stopped_off_record"]
    assert (told["by"], told["how"], told["run"]) == ("ann", "kill", "t1.1")
    assert verbs.runtime.off_record.notes() == []


def test_a_stop_of_a_task_that_is_gone_is_told(verbs: Verbs) -> None:
    _ = verbs.held()
    _noted(verbs)
    (note,) = verbs.runtime.off_record.notes()
    verbs.runtime.off_record.put(replace(note, task_id="t9", run_id="t9.1"))
    assert put_on_record(verbs.store, verbs.clock, verbs.runtime)
    assert "task.stopped_off_record" in verbs.kinds()


def test_a_stop_that_takes_effect_is_told_once(verbs: Verbs) -> None:
    _ = verbs.held()
    _noted(verbs)
    (note,) = verbs.runtime.off_record.notes()
    for _ in range(2):
        assert put_on_record(verbs.store, verbs.clock, verbs.runtime)
        verbs.runtime.off_record.put(note)
    kinds = verbs.kinds()
    assert kinds.count("task.stop_asked") == 1
    assert "task.stopped_off_record" not in kinds
