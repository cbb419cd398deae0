"""What was allowed is what runs, whatever happens to the settings between hand-over, edit, launch and retry."""

import random
from pathlib import Path
from typing import Any

import pytest
from support.cli import Wk
from support.rights import History

from watchkeeper.compose import Watchkeeper
from watchkeeper.daemon import client

HISTORIES = 100
"""Of each harness."""
LENGTH = 9


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("harness", ["claude", "codex"])
def test_what_was_allowed_is_what_runs(
    harness: str,
    part: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In random histories of settings changes, restarts, upgrades, edits and retries: spec.json, what the program received, and what `show` says."""

    def ensure(_: Watchkeeper, **__: Any) -> client.Ensured:
        return client.Ensured.ALREADY

    monkeypatch.setattr(client, "ensure", ensure)
    launches = 0
    for number in range(HISTORIES // 4):
        root = tmp_path / str(number)
        for name in ("home", "work"):
            (root / name).mkdir(parents=True)
        monkeypatch.chdir(root / "work")
        environ = {
            "HOME": str(root / "home"),
            "WATCHKEEPER_HOME": str(root / "state"),
            "ANTHROPIC_API_KEY": "sk-test-x",
        }
        wk = Wk(root / "state", root / "work", environ, monkeypatch, capsys)
        history = History(wk, harness, random.Random(f"{harness} {part} {number}"), root)
        history.play(LENGTH)
        assert not history.wrong, "\n".join([*history.steps, "WRONG:", *history.wrong])
        launches += history.launches
        history.close()
    assert launches >= HISTORIES // 4
    with capsys.disabled():
        print(f"{HISTORIES // 4} histories of {harness}, {launches} launches", end=" ")
