"""`wk` in a scratch home, with a daemon that only remembers that it was asked for."""

from pathlib import Path
from typing import Any

import pytest
from support.cli import Wk

from watchkeeper.compose import Watchkeeper
from watchkeeper.daemon import client


@pytest.fixture
def wk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Wk:
    """`wk` in a home and a directory of its own."""
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    environ = {"HOME": str(tmp_path / "home"), "WATCHKEEPER_HOME": str(tmp_path / "state"), "PATH": "/usr/bin:/bin"}
    made = Wk(tmp_path / "state", tmp_path / "work", environ, monkeypatch, capsys)

    def ensure(parts: Watchkeeper, **_: Any) -> client.Ensured:
        made.ensured.append(str(parts.state.path))
        return client.Ensured.ALREADY

    monkeypatch.setattr(client, "ensure", ensure)
    return made
