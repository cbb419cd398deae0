"""What a test leaves in the shared temporary directory is found, and only that of this test run."""

import hashlib
import os
from pathlib import Path

import pytest
from support import no_left_overs


def test_what_belongs_to_a_state_directory_below_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, state = tmp_path / "shared", tmp_path / "rig" / "state"
    state.mkdir(parents=True)
    shared.mkdir()
    (state / "daemon.lock").touch()
    monkeypatch.setattr(no_left_overs, "SHARED", shared)
    (shared / f"watchkeeper-{os.geteuid()}-00000000").mkdir()
    assert no_left_overs.left_behind(tmp_path) == []
    left = shared / f"watchkeeper-{os.geteuid()}-{hashlib.sha256(os.fsencode(state)).hexdigest()[:8]}"
    left.mkdir()
    assert no_left_overs.left_behind(tmp_path) == [left]
