"""Pruning: what may go goes, what is not ours stays and is said, and neither keeps the rest from its turn."""

from datetime import timedelta
from pathlib import Path

import pytest
from app.stage import Verbs
from support.records import NOON, settle

from watchkeeper.app.prune import Pruner
from watchkeeper.domain.model import DirectoryIdentity, Run
from watchkeeper.errors import Refused
from watchkeeper.workspaces.git import GitWorkspace


def _pruner(verbs: Verbs) -> Pruner:
    verbs.clock.wall = NOON + timedelta(days=60)
    return Pruner(
        store=verbs.store,
        clock=verbs.clock,
        executions=verbs.runtime.executions(),
        environments=verbs.environments,
        forget=GitWorkspace().forget,
        keep_days=30,
        ago=lambda age: verbs.clock.now() - age,
    )


def _ended(verbs: Verbs, task_id: str) -> tuple[Run, Path]:
    """A run that was settled with proof, and its directory."""
    path = verbs.root / "executions" / f"x-{task_id}-1"
    path.mkdir(parents=True)
    found = path.stat()
    run = verbs.prepared(task_id, DirectoryIdentity(device=found.st_dev, inode=found.st_ino))
    _ = verbs.store.transact("settle", lambda tx: settle(tx, run))
    return run, path


def test_what_is_refused_keeps_nothing_else(verbs: Verbs) -> None:
    """The first directory was put there by another program: it stays, the others go, and it is said which one and why."""
    (_, first), (_, second), (_, third) = (_ended(verbs, name) for name in ("t1", "t2", "t3"))
    first.rename(verbs.root / "aside")
    first.mkdir()
    (first / "mine").touch()
    with pytest.raises(Refused, match="x-t1-1 is not the directory that was prepared"):
        _ = _pruner(verbs).prune()
    assert (first / "mine").exists()
    assert not second.exists() and not third.exists()


def test_what_is_young_stays(verbs: Verbs) -> None:
    """It is kept for as long as the settings say."""
    _, path = _ended(verbs, "t1")
    pruner = _pruner(verbs)
    verbs.clock.wall = NOON + timedelta(days=29)
    assert pruner.prune() == [] and path.exists()
    verbs.clock.wall = NOON + timedelta(days=31)
    assert pruner.prune() == ["x-t1-1"] and not path.exists()
