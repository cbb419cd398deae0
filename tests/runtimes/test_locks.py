"""Locks are looked at without being touched."""

import os
from pathlib import Path

from runtimes.stage import Stage

from watchkeeper.domain.evidence import LockState
from watchkeeper.runtimes.locks import hold_lock, probe


def test_a_lock_is_held_by_one_and_seen_by_all(tmp_path: Path) -> None:
    """A second holder is refused, a look tells, and letting go frees it."""
    path = tmp_path / "lock"
    assert probe(path) is LockState.FREE
    assert not path.exists()
    held = hold_lock(path)
    assert held is not None
    assert probe(path) is LockState.HELD
    assert hold_lock(path) is None
    held.close()
    held.close()
    assert probe(path) is LockState.FREE


def test_looking_never_gets_in_the_way(tmp_path: Path) -> None:
    """A lock can be taken while the descriptor of a look is as good as open: looks take nothing."""
    path = tmp_path / "lock"
    path.touch()
    for _ in range(200):
        assert probe(path) is LockState.FREE
        held = hold_lock(path)
        assert held is not None
        assert probe(path) is LockState.HELD
        held.close()


def test_the_kernel_frees_the_lock_of_the_dead(stage: Stage, tmp_path: Path) -> None:
    """However the holder dies."""
    code = f"""
from pathlib import Path
from watchkeeper.runtimes.locks import hold_lock
held = hold_lock(Path({str(tmp_path / "lock")!r}))
print("held" if held else "not", flush=True)
input()
"""
    holder = stage.python(code)
    assert holder.line() == "held"
    assert probe(tmp_path / "lock") is LockState.HELD
    holder.die()
    assert probe(tmp_path / "lock") is LockState.FREE


def test_a_child_does_not_carry_the_lock_on(stage: Stage, tmp_path: Path) -> None:
    """A program that the holder started is not a holder."""
    held = hold_lock(tmp_path / "lock")
    assert held is not None
    child = stage.start("cat")
    held.close()
    assert child.running
    assert probe(tmp_path / "lock") is LockState.FREE


def test_what_is_not_a_lock_file_does_not_tell(tmp_path: Path) -> None:
    """A symlink, a directory and a fifo are unknown, and looking at a fifo does not wait."""
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").touch()
    for name in ("link", "directory", "fifo", "file/lock"):
        assert probe(tmp_path / name) is LockState.UNKNOWN
