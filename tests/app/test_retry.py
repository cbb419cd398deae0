"""A person wants another run: what was captured for it is kept exactly as long as anything may refer to it."""

from collections.abc import Callable
from typing import Any

import pytest
from app.stage import Verbs
from support.handing import again, retry_with
from support.records import add, make_task

from watchkeeper.app.retry import Again
from watchkeeper.domain.model import TaskState
from watchkeeper.errors import NoSuchTask, Refused, Stale
from watchkeeper.ports.store import Tx

ENVIRONMENT = {"LANG": "C"}


class _Interrupted:
    """A store whose user presses Ctrl-C when the commit has been made and the answer is not there yet."""

    def __init__(self, verbs: Verbs) -> None:
        self._store = verbs.store

    def read(self, work: Callable[[Tx], Any]) -> Any:
        return self._store.read(work)

    def transact(self, name: str, work: Callable[[Tx], Any], *, durable: bool = True) -> Any:
        self._store.transact(name, work, durable=durable)
        raise KeyboardInterrupt


def _retry(verbs: Verbs, store: Any, wanted: Again) -> None:
    _ = retry_with(store, wanted, environments=verbs.environments, runtime=verbs.runtime, clock=verbs.clock)


def test_ctrl_c_after_the_commit_keeps_the_environment(verbs: Verbs) -> None:
    """The task names it, so the run that follows must find it."""
    _ = verbs.store.transact("test", lambda tx: add(tx, make_task(state=TaskState.FAILED, ended_at=verbs.clock.now())))
    with pytest.raises(KeyboardInterrupt):
        _retry(verbs, _Interrupted(verbs), again(verbs.store, environment=ENVIRONMENT))
    task = verbs.task()
    assert task.state is TaskState.QUEUED
    assert verbs.environments.get(task.environment_id) == ENVIRONMENT


def test_an_edit_that_came_between_is_not_overwritten(verbs: Verbs) -> None:
    """The profile was compiled from what was allowed before that edit."""
    failed = make_task(state=TaskState.FAILED, ended_at=verbs.clock.now())
    _ = verbs.store.transact("test", lambda tx: add(tx, failed))
    was = again(verbs.store, environment=ENVIRONMENT)
    _retry(verbs, verbs.store, was)
    kept = verbs.task().environment_id
    with pytest.raises(Stale, match="changed meanwhile"):
        _retry(verbs, verbs.store, was)
    assert verbs.task().environment_id == kept
    assert [path.name for path in (verbs.root / "environments").iterdir() if kept in path.name]
    assert len(list((verbs.root / "environments").iterdir())) == 1


def test_what_is_refused_leaves_no_environment(verbs: Verbs) -> None:
    """It may hold secrets, and nothing names it."""
    _ = verbs.store.transact("test", lambda tx: add(tx, make_task()))
    with pytest.raises(Refused):
        _retry(verbs, verbs.store, again(verbs.store))
    with pytest.raises(NoSuchTask):
        _retry(verbs, verbs.store, again(verbs.store, "t9"))
    assert list(verbs.environments.ids()) == []
