"""Fixtures of the runtime's tests."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from runtimes.stage import Script, Stage, SteppedClock

from watchkeeper.runtimes.process import ProcessRuntime


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A fresh stage; what it started is ended afterwards."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    sockets = Path(tempfile.mkdtemp(prefix="wk-sockets-", dir="/tmp"))
    clock = SteppedClock()
    image = tmp_path / "image.py"
    runtime = ProcessRuntime(
        state, sockets, sockets / "wake.sock", lambda: image, clock, database_id="db1", nofile=1024
    )
    it = Stage(state, sockets, clock, runtime)
    yield it
    it.close()
    shutil.rmtree(sockets)


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Run Python code in a process of its own and wait for it."""

    def run(code: str, *argv: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        path = tmp_path / "script.py"
        path.write_text(code)
        return subprocess.run(
            [sys.executable, str(path), *argv],
            env={"PATH": "/usr/bin:/bin", **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run
