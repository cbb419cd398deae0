"""What is seen alive is not removed, whatever anyone says; and effects of removals that come twice."""

import subprocess
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from app.stage import Verbs
from support.records import NOON, add, make_spec, make_task, settle

from watchkeeper.app.remove import MAX_ATTEMPTS, NotRemovable, Remover
from watchkeeper.app.retention import Retention
from watchkeeper.domain.model import AgentIdentity, DirectoryIdentity, Proof, Run, TaskState
from watchkeeper.domain.removal import ObstacleKind
from watchkeeper.ports.store import Tx
from watchkeeper.runtimes import proc
from watchkeeper.runtimes.boot import boot_id
from watchkeeper.runtimes.locks import hold_lock


def remover(verbs: Verbs) -> Remover:
    return Remover(store=verbs.store, clock=verbs.clock, runtime=verbs.runtime, machine="m1")


def place(verbs: Verbs, task_id: str = "t1") -> tuple[Path, DirectoryIdentity]:
    """An execution directory."""
    path = verbs.root / "executions" / f"x-{task_id}-1"
    path.mkdir(parents=True)
    found = path.stat()
    return path, DirectoryIdentity(device=found.st_dev, inode=found.st_ino)


def settled(verbs: Verbs, task_id: str = "t1") -> tuple[Run, Path]:
    """A run that was settled with proof, and its directory with a log."""
    path, identity = place(verbs, task_id)
    (path / "stdout.log").write_text("said\n", encoding="utf-8")
    run = verbs.prepared(task_id, identity)
    _ = verbs.store.transact("settle", lambda tx: settle(tx, run))
    return run, path


def given_up(verbs: Verbs) -> Run:
    """A run that a person settled while nothing was known of it."""
    run = verbs.held()
    _ = verbs.stop(run.task_id, by="me")
    return verbs.run()


def kinds(refusal: pytest.ExceptionInfo[NotRemovable]) -> list[ObstacleKind]:
    return [each.kind for each in refusal.value.reasons]


def test_a_living_agent_bars_removal_whatever_is_said(verbs: Verbs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is gone; then a person's word counts, and without it nothing does."""
    run = given_up(verbs)
    assert run.proof is not Proof.PROVEN
    agent = subprocess.Popen(["sleep", "600"])
    try:
        who = proc.identity(agent.pid)
        assert who is not None
        seen = AgentIdentity(pid=who[0], start_ticks=who[1], boot_id=boot_id(), started_at=NOON)
        monkeypatch.setattr(verbs.runtime, "living_agent", lambda _: seen if agent.poll() is None else None)
        for trusting, expected in ((False, [ObstacleKind.UNPROVEN, ObstacleKind.ALIVE]), (True, [ObstacleKind.ALIVE])):
            with pytest.raises(NotRemovable, match=f"pid {agent.pid}") as refusal:
                remover(verbs).remove("t1", by="me", trusting=trusting)
            assert kinds(refusal) == expected
    finally:
        agent.kill()
        agent.wait()
    with pytest.raises(NotRemovable) as refusal:
        remover(verbs).remove("t1", by="me")
    assert kinds(refusal) == [ObstacleKind.UNPROVEN]
    assert remover(verbs).remove("t1", by="me", trusting=True).executions == 1


def test_a_living_shim_bars_removal(verbs: Verbs) -> None:
    path, identity = place(verbs)
    run = verbs.prepared("t1", identity)
    _ = verbs.store.transact("settle", lambda tx: settle(tx, replace(run)))
    doubtful = replace(verbs.run(), proof=Proof.SWEPT)
    lock = hold_lock(path / "lock")
    assert lock is not None
    found = remover(verbs)._seen_alive([doubtful])
    assert [each.kind for each in found] == [ObstacleKind.ALIVE]
    assert "the shim" in found[0].detail
    lock.close()
    assert remover(verbs)._seen_alive([doubtful]) == []
    assert remover(verbs)._seen_alive([replace(doubtful, machine="m2")]) == []


def test_an_effect_that_comes_twice_is_harmless(verbs: Verbs) -> None:
    """Its directory goes, its log is kept once; another owner's directory under that name is not touched by the second."""
    run, path = settled(verbs)
    remover(verbs).remove("t1", by="me", keep_logs=True)
    rows = verbs.store.read(lambda tx: tx.outbox.due(verbs.clock.now(), 10, "m1"))
    another = verbs.root / "another"
    another.mkdir()
    (another / "stdout.log").write_text("another", encoding="utf-8")
    assert path.exists()
    verbs.performer().perform_due()
    assert not path.exists()
    assert verbs.pending() == 0
    kept = verbs.root / "kept-logs" / "t1" / f"{run.id}.stdout.log"
    assert kept.read_text(encoding="utf-8") == "said\n"
    another.rename(path)
    verbs.store.transact("again", lambda tx: tx.outbox.put([row.effect for row in rows], verbs.clock.now()))
    verbs.performer().perform_due()
    assert path.exists()
    assert kept.read_text(encoding="utf-8") == "said\n"


def test_what_is_not_to_be_touched_is_left_after_a_while_and_holds_up_nothing(verbs: Verbs) -> None:
    _, first = settled(verbs, "t1")
    _, second = settled(verbs, "t2")
    first.rename(verbs.root / "aside")
    first.mkdir()
    for name in ("t1", "t2"):
        remover(verbs).remove(name, by="me")
    for _ in range(MAX_ATTEMPTS):
        verbs.performer().perform_due()
        assert not second.exists()
        verbs.clock.wall += timedelta(seconds=10)
    assert verbs.pending() == 0
    assert first.exists()
    assert verbs.kinds().count("execution.left") == 1
    assert [each.name for each in (verbs.root / "executions").iterdir()] == [first.name]


def test_old_tasks_that_wait_for_each_other_go_together(verbs: Verbs) -> None:
    """Whichever ended first; one that something younger is to run after stays."""
    at = verbs.clock.now()
    young = at + timedelta(days=9)

    def work(tx: Tx) -> None:
        for name, after, ended_at in (
            ("t1", (), at), ("t2", ("t1",), at), ("t3", ("t2",), at), ("t4", (), at), ("t5", ("t4",), young),
        ):  # fmt: skip
            stopped = make_task(name, state=TaskState.STOPPED, ended_at=ended_at, spec=make_spec(after=after))
            _ = add(tx, stopped)

    verbs.store.transact("add", work)
    verbs.clock.step(9 * 86400)
    retention = Retention(
        store=verbs.store,
        remover=remover(verbs),
        keep_tasks_days=1,
        keep_history_days=1,
        ago=lambda age: verbs.clock.now() - age,
    )
    swept = retention.tasks(by="me")
    assert {task.id for task in swept.removed} == {"t1", "t2", "t3"}
    assert [task.id for task, _ in swept.refused] == ["t4"]


def test_a_sweep_with_a_bound_stops_there_also_among_tasks_that_waited_for_each_other(verbs: Verbs) -> None:
    at = verbs.clock.now()

    def work(tx: Tx) -> None:
        for name, after in (("t1", ()), ("t2", ("t1",)), ("t3", ("t2",))):
            _ = add(tx, make_task(name, state=TaskState.STOPPED, ended_at=at, spec=make_spec(after=after)))

    verbs.store.transact("add", work)
    verbs.clock.step(9 * 86400)
    retention = Retention(
        store=verbs.store,
        remover=remover(verbs),
        keep_tasks_days=1,
        keep_history_days=1,
        ago=lambda age: verbs.clock.now() - age,
    )
    swept = retention.tasks(by="me", at_most=2)
    assert {task.id for task in swept.removed} == {"t2", "t3"}
    assert [task.id for task, _ in swept.refused] == ["t1"]
