"""A real database and a real runtime for the verbs, on a clock that is moved by hand."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from app.stage import Verbs
from runtimes.stage import SteppedClock

from watchkeeper.runtimes.environments import FileEnvironments
from watchkeeper.runtimes.process import ProcessRuntime
from watchkeeper.store.sqlite.store import SqliteStore


@pytest.fixture
def verbs(tmp_path: Path) -> Iterator[Verbs]:
    """A fresh stage for verbs."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "environments").mkdir(mode=0o700)
    store = SqliteStore.open(state / "wk.db", state / "turnstile", create=True, upgrade=False, wait_s=5)
    clock = SteppedClock()
    runtime = ProcessRuntime(state, tmp_path / "sockets", None, lambda: tmp_path / "image.py", clock)
    yield Verbs(store, clock, runtime, FileEnvironments(state / "environments"))
    store.close()
